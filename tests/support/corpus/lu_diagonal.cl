/* LU of a diagonal block within one work-group; pointers into local rows.
   run: lu_diagonal --global 8 --local 8 16x16=random(1,2) 16 4
   tolerance: 1e-4 */
#define BLOCK 8
__kernel void lu_diagonal(__global float *m, int matrix_dim, int offset)
{
  __local float shadow[BLOCK][BLOCK];
  int tx = get_local_id(0), at = offset * matrix_dim + offset;
  for (int i = 0; i < BLOCK; i++) shadow[i][tx] = m[at + i * matrix_dim + tx] + (i == tx ? 8.0f : 0.0f);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < BLOCK - 1; i++) {
    __local float *pivot = shadow[i];
    if (tx > i) {
      for (int j = 0; j < i; j++) shadow[tx][i] -= shadow[tx][j] * shadow[j][i];
      shadow[tx][i] /= pivot[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx > i)
      for (int j = 0; j < i + 1; j++) shadow[i + 1][tx] -= shadow[i + 1][j] * shadow[j][tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 1; i < BLOCK; i++) m[at + i * matrix_dim + tx] = shadow[i][tx];
}
