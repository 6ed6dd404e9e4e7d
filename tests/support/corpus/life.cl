/* The game of life on bytes that wrap around.
   run: life --global 16,8 --local 8,8 8x16=random(0,2) 8x16 */
#define cell(x, y) in[(((y) + h) % h) * w + (((x) + w) % w)]
kernel void life(global const uchar *in, global uchar *out)
{
  const int x = get_global_id(0), y = get_global_id(1), w = get_global_size(0), h = get_global_size(1);
  int alive = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (dx != 0 || dy != 0) alive += cell(x + dx, y + dy);
  switch (alive) {
    case 2: out[y * w + x] = cell(x, y); break;
    case 3: out[y * w + x] = 1; break;
    default: out[y * w + x] = 0;
  }
}
