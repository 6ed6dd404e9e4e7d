/* The perimeter step of a blocked LU decomposition: two tiles and a strip in dynamic local memory, work split by halves of the group.
   run: lud_perimeter --global 32 --local 16 1024=random(1,2) 64 64 64 32 0
   tolerance: 1e-4 */
#ifndef BLOCK_SIZE
#define BLOCK_SIZE 8
#endif
__kernel void lud_perimeter(__global float *m, __local float *dia, __local float *peri_row, __local float *peri_col, int matrix_dim, int offset)
{
  int i, j, array_offset, idx;
  int bx = get_group_id(0), tx = get_local_id(0);
  if (tx < BLOCK_SIZE) {
    idx = tx;
    array_offset = offset * matrix_dim + offset;
    for (i = 0; i < BLOCK_SIZE; i++) dia[i * BLOCK_SIZE + idx] = m[array_offset + i * matrix_dim + idx];
    array_offset += (bx + 1) * BLOCK_SIZE;
    for (i = 0; i < BLOCK_SIZE; i++) peri_row[i * BLOCK_SIZE + idx] = m[array_offset + i * matrix_dim + idx];
  } else {
    idx = tx - BLOCK_SIZE;
    array_offset = (offset + (bx + 1) * BLOCK_SIZE) * matrix_dim + offset;
    for (i = 0; i < BLOCK_SIZE; i++) peri_col[i * BLOCK_SIZE + idx] = m[array_offset + i * matrix_dim + idx];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (tx < BLOCK_SIZE) {
    for (i = 1; i < BLOCK_SIZE; i++)
      for (j = 0; j < i; j++) peri_row[i * BLOCK_SIZE + tx] -= 0.1f * dia[i * BLOCK_SIZE + j] * peri_row[j * BLOCK_SIZE + tx];
  } else {
    for (i = 0; i < BLOCK_SIZE; i++) {
      for (j = 0; j < i; j++) peri_col[idx * BLOCK_SIZE + i] -= 0.1f * peri_col[idx * BLOCK_SIZE + j] * dia[j * BLOCK_SIZE + i];
      peri_col[idx * BLOCK_SIZE + i] /= dia[i * BLOCK_SIZE + i];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (tx < BLOCK_SIZE) {
    array_offset = offset * matrix_dim + offset + (bx + 1) * BLOCK_SIZE;
    for (i = 1; i < BLOCK_SIZE; i++) m[array_offset + i * matrix_dim + tx] = peri_row[i * BLOCK_SIZE + tx];
  } else {
    array_offset = (offset + (bx + 1) * BLOCK_SIZE) * matrix_dim + offset;
    for (i = 0; i < BLOCK_SIZE; i++) m[array_offset + i * matrix_dim + idx] = peri_col[i * BLOCK_SIZE + idx];
  }
}
