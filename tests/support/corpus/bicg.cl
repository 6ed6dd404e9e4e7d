/* q = A p and s = A' r: two kernels of a file; the second is run.
   run: bicg_kernel2 --global 32 --local 32 20x30=random 20=random 30 20 30 */
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#elif defined(cl_amd_fp64)
#pragma OPENCL EXTENSION cl_amd_fp64 : enable
#endif
__kernel void bicg_kernel1(__global float *A, __global float *p, __global float *q, int nx, int ny)
{
  int i = get_global_id(0);
  if (i < nx) {
    q[i] = 0.0;
    for (int j = 0; j < ny; j++) q[i] += A[i * ny + j] * p[j];
  }
}

__kernel void bicg_kernel2(__global float *A, __global float *r, __global float *s, int nx, int ny)
{
  int j = get_global_id(0);
  if (j < ny) {
    s[j] = 0.0;
    for (int i = 0; i < nx; i++) s[j] += A[i * ny + j] * r[i];
  }
}
