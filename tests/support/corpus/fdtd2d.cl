/* One step of a Yee grid in two dimensions.
   run: fdtd_ey --global 16,8 --local 8,8 8=index 9x17=random 9x17=random 9x17=random 3 8 16 */
__kernel void fdtd_ey(__global float *_fict_, __global float *ex, __global float *ey, __global float *hz, int t, int nx, int ny)
{
  int j = get_global_id(0), i = get_global_id(1);
  if ((i < nx) && (j < ny)) {
    int tid = i * ny + j;
    if (i == 0) ey[i * ny + j] = _fict_[t];
    else ey[i * ny + j] = ey[i * ny + j] - 0.5f * (hz[i * ny + j] - hz[(i - 1) * ny + j]) + ex[tid] * 0;
  }
}
