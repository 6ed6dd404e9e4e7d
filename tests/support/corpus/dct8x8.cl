/* Cosine transform of blocks of eight by eight: rows, then columns, in local memory.
   run: dct8x8 --global 8,8 --local 8,8 8x8=random(-1,1) 8x8 8
   tolerance: 1e-5 */
#define C_a 1.387039845322148f
#define C_b 1.306562964876377f
#define C_c 1.175875602419359f
#define C_norm 0.3535533905932737f
inline void DCT8(__local float *d, int step)
{
  float sum[8];
  for (int u = 0; u < 8; u++) {
    sum[u] = 0;
    for (int x = 0; x < 8; x++) sum[u] += d[x * step] * cospi((2 * x + 1) * u / 16.0f);
  }
  for (int u = 0; u < 8; u++) d[u * step] = sum[u] * (u ? 0.5f : C_norm);
}

__kernel void dct8x8(__global const float *src, __global float *dst, const uint stride)
{
  __local float block[8][9];
  uint x = get_local_id(0), y = get_local_id(1), at = mad24((uint)get_global_id(1), stride, (uint)get_global_id(0));
  block[y][x] = src[at];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (x == 0) DCT8(&block[y][0], 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (y == 0) DCT8(&block[0][x], 9);
  barrier(CLK_LOCAL_MEM_FENCE);
  dst[at] = block[y][x];
}
