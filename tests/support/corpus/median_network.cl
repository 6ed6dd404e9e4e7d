/* A 3 x 3 median by a sorting network over uchar4 pixels; statement macros with several arguments.
   run: median_network --global 8,4 --local 8,1 80=random(0,255) 32 10 */
#define SORT2(a, b) { uchar4 t = min(a, b); b = max(a, b); a = t; }
#define SORT3(a, b, c) SORT2(b, c) SORT2(a, b) SORT2(b, c)
__kernel void median_network(__global const uchar4 *src, __global uchar4 *dst, const int pitch)
{
  const int x = get_global_id(0), y = get_global_id(1), width = get_global_size(0);
  uchar4 p[9];
  for (int j = 0, n = 0; j < 3; ++j)
    for (int i = 0; i < 3; ++i, ++n) p[n] = src[mad24(y + j, pitch, x + i) % 60];
  SORT3(p[0], p[1], p[2])
  SORT3(p[3], p[4], p[5])
  SORT3(p[6], p[7], p[8])
  p[6] = max(max(p[0], p[3]), p[6]);
  p[2] = min(min(p[2], p[5]), p[8]);
  SORT3(p[1], p[4], p[7])
  SORT3(p[2], p[4], p[6])
  dst[mul24(y, width) + x] = (uchar4)(p[4].xyz, 255);
}
