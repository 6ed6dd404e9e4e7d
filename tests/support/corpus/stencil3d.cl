/* Seven-point stencil with the planes in registers.
   run: stencil3d --global 8,8 --local 8,8 6x8x8=random 6x8x8 0.5 0.1 8 8 6 */
#define Index3D(_nx, _ny, _i, _j, _k) ((_i) + _nx * ((_j) + _ny * (_k)))
__kernel void stencil3d(__global const float *A0, __global float *Anext, float c0, float c1, int nx, int ny, int nz)
{
  int i = get_global_id(0), j = get_global_id(1);
  if (i == 0 || j == 0 || i == nx - 1 || j == ny - 1) return;
  float below = A0[Index3D(nx, ny, i, j, 0)], here = A0[Index3D(nx, ny, i, j, 1)];
  for (int k = 1; k < nz - 1; k++) {
    float above = A0[Index3D(nx, ny, i, j, k + 1)];
    Anext[Index3D(nx, ny, i, j, k)] = (above + below + A0[Index3D(nx, ny, i, j + 1, k)] + A0[Index3D(nx, ny, i, j - 1, k)] +
                                       A0[Index3D(nx, ny, i + 1, j, k)] + A0[Index3D(nx, ny, i - 1, j, k)]) * c1 - here * c0;
    below = here;
    here = above;
  }
}
