/* Sparse matrix times vector, rows of four entries.
   run: spmv_csr --global 32 --local 16 128=random 32=random 128=random(0,32) 33=index 32 32 */
__kernel void spmv_csr(__global const float *restrict val, __global const float *restrict vec, __global const int *restrict cols,
                       __global const int *restrict rowDelimiters, const int dim, __global float *restrict out)
{
  int myRow = get_global_id(0);
  if (myRow < dim) {
    float t = 0.0f;
    int start = rowDelimiters[myRow] * 3, end = rowDelimiters[myRow + 1] * 3;
    for (int j = start; j < end; j++) {
      int col = cols[j];
      t += val[j] * vec[col];
    }
    out[myRow] = t;
  }
}
