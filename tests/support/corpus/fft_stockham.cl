/* A radix-4 Stockham transform of 64 points in local memory; macros for butterflies, twiddles by native functions.
   run: fft_stockham --global 32 --local 16 128=random(-1,1) 128 -1
   tolerance: 2e-5 */
#define M_2PI_F 6.283185307179586f
typedef float2 cpx;
#define CMUL(a, b) ((cpx)(mad((a).x, (b).x, -(a).y * (b).y), mad((a).x, (b).y, (a).y * (b).x)))
#define BFLY4(d) { cpx s0 = d[0] + d[2], s1 = d[0] - d[2], s2 = d[1] + d[3], s3 = (cpx)(d[1].y - d[3].y, d[3].x - d[1].x); \
  if (dir > 0) s3 = -s3; \
  d[0] = s0 + s2; d[1] = s1 + s3; d[2] = s0 - s2; d[3] = s1 - s3; }
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void fft_stockham(__global const cpx *gIn, __global cpx *gOut, const int dir)
{
  __local float sMem[2][64];
  const int lid = get_local_id(0), blk = get_group_id(0) * 64;
  cpx a[4];
  for (int i = 0; i < 4; i++) a[i] = gIn[blk + lid + 16 * i];
  for (int n = 1; n < 64; n *= 4) {
    const int k = lid & (n - 1);
    for (int i = 1; i < 4; i++) {
      const float ang = dir * M_2PI_F * (float)(k * i) / (float)(4 * n);
      a[i] = CMUL(a[i], (cpx)(native_cos(ang), native_sin(ang)));
    }
    BFLY4(a)
    const int j = ((lid - k) << 2) + k;
    for (int i = 0; i < 4; i++) { sMem[0][j + i * n] = a[i].x; sMem[1][j + i * n] = a[i].y; }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; i++) a[i] = (cpx)(sMem[0][lid + 16 * i], sMem[1][lid + 16 * i]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 4; i++) gOut[blk + lid + 16 * i] = a[i];
}
