/* C = alpha A A' + beta C on the lower triangle.
   run: syrk --global 16,16 --local 8,8 1.5 0.5 16x12=random 16x16=random 12 16 */
__kernel void syrk(float alpha, float beta, __global float *a, __global float *c, int ni, int nj)
{
  int j = get_global_id(0), i = get_global_id(1);
  if (i < nj && j <= i) {
    c[i * nj + j] *= beta;
    for (int k = 0; k < ni; k++) c[i * nj + j] += alpha * a[i * ni + k] * a[j * ni + k];
  }
}
