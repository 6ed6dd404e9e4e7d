/* Eight-point Fourier transforms in registers, macros on pairs, bit reversal by a table.
   run: fft8 --global 8 --local 8 64=random(-1,1)
   tolerance: 1e-5 */
#ifndef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440f
#endif
#define exp_1_8 (float2)(1, -1)
#define exp_1_4 (float2)(0, -1)
#define exp_3_8 (float2)(-1, -1)
#define cmplx_mul(a, b) ((float2)((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x))
#define FFT2(a0, a1) { float2 c0 = *a0; *a0 = c0 + *a1; *a1 = c0 - *a1; }
__constant int rev[8] = {0, 4, 2, 6, 1, 5, 3, 7};
inline void fft4(float2 *a0, float2 *a1, float2 *a2, float2 *a3)
{
  FFT2(a0, a2);
  FFT2(a1, a3);
  *a3 = cmplx_mul(*a3, exp_1_4);
  FFT2(a0, a1);
  FFT2(a2, a3);
}

__kernel void fft8(__global float2 *work)
{
  float2 a[8];
  int i = get_global_id(0);
  for (int k = 0; k < 8; k++) a[k] = work[i * 8 + k];
  FFT2(&a[0], &a[4]);
  FFT2(&a[1], &a[5]);
  FFT2(&a[2], &a[6]);
  FFT2(&a[3], &a[7]);
  a[5] = cmplx_mul(a[5], exp_1_8) * (float)M_SQRT1_2;
  a[6] = cmplx_mul(a[6], exp_1_4);
  a[7] = cmplx_mul(a[7], exp_3_8) * (float)M_SQRT1_2;
  fft4(&a[0], &a[1], &a[2], &a[3]);
  fft4(&a[4], &a[5], &a[6], &a[7]);
  for (int k = 0; k < 8; k++) work[i * 8 + k] = a[rev[k]];
}
