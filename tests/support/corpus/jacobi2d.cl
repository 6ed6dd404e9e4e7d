/* Five-point mean; the border is copied.
   run: jacobi2d --global 16,16 --local 16,4 16x16=random 16x16 16 */
__kernel void jacobi2d(__global float *A, __global float *B, int n)
{
  int j = get_global_id(0), i = get_global_id(1);
  if ((i >= 1) && (i < (n - 1)) && (j >= 1) && (j < (n - 1))) {
    B[i * n + j] =
        0.2f * (A[i * n + j] + A[i * n + (j - 1)] + A[i * n + (1 + j)] + A[(1 + i) * n + j] + A[(i - 1) * n + j]);
  } else {
    B[i * n + j] = A[i * n + j];
  }
}
