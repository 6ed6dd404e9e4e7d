/* A set of Julia in double precision with colours packed in bytes.
   run: julia --global 16,4 --local 16,1 4x16 -0.7 0.27015 */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef struct { double re, im; } complex_t;
complex_t square(complex_t z) { return (complex_t){z.re * z.re - z.im * z.im, 2 * z.re * z.im}; }
__kernel void julia(__global uchar4 *pixels, double re, double im)
{
  int x = get_global_id(0), y = get_global_id(1), n = 0;
  complex_t z = {.im = (y - 2) * 0.45, .re = (x - 8) * 0.2};
  for (; n < 40; n++) {
    z = square(z);
    z.re += re;
    z.im += im;
    if (z.re * z.re + z.im * z.im > 4) goto escaped;
  }
  pixels[y * get_global_size(0) + x] = (uchar4)(0, 0, 0, 255);
  return;
escaped:
  pixels[y * get_global_size(0) + x] = (uchar4)(n * 6, n << 2, 255 - n, 255);
}
