/* Sums of absolute differences of blocks of bytes, on 16-bit results.
   run: sad --global 16 --local 16 16x16=random(0,255) 16x16=random(0,255) 16 16 */
__kernel void sad(__global const uchar *frame, __global const uchar *reference, __global ushort *out, int width)
{
  int pos = get_global_id(0), x = pos & 3, y = pos >> 2;
  ushort sum = 0;
  for (int r = 0; r < 4; r++) {
    uchar4 a = vload4(0, frame + (4 + r) * width + 4), b = vload4(0, reference + (y + r) * width + x);
    uchar4 d = abs_diff(a, b);
    sum += d.x + d.y + d.z + d.w;
  }
  out[pos] = sum;
}
