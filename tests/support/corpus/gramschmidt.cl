/* One column of Gram-Schmidt: norm and scaling in one work-group.
   run: gramschmidt --global 16 --local 16 16x6=random 16x6 6x6 2 16 6 */
__kernel void gramschmidt(__global const float *a, __global float *q, __global float *r, int k, int m, int n)
{
  __local float norm;
  int i = get_local_id(0);
  if (i == 0) {
    float sum = 0;
    for (int row = 0; row < m; row++) sum += a[row * n + k] * a[row * n + k];
    norm = sqrt(sum);
    r[k * n + k] = norm;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  q[i * n + k] = a[i * n + k] / norm;
}
