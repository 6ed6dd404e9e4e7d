/* C = A B with tiles of both in local memory.
   run: matmul_tiled --global 16,8 --local 8,8 8x24=random 24x16=random 8x16 16 24 */
#ifndef BLOCK_SIZE
#define BLOCK_SIZE 8
#endif
#define AS(i, j) As[(j) + (i) * BLOCK_SIZE]
#define BS(i, j) Bs[(j) + (i) * BLOCK_SIZE]
__kernel void matmul_tiled(__global float *A, __global float *B, __global float *C, int wB, int wA)
{
  __local float As[BLOCK_SIZE * BLOCK_SIZE];
  __local float Bs[BLOCK_SIZE * BLOCK_SIZE];
  int bx = get_group_id(0), by = get_group_id(1), tx = get_local_id(0), ty = get_local_id(1);
  float sum = 0.0f;
  for (int a = wA * BLOCK_SIZE * by, b = BLOCK_SIZE * bx; a < wA * BLOCK_SIZE * by + wA; a += BLOCK_SIZE, b += BLOCK_SIZE * wB) {
    AS(ty, tx) = A[a + wA * ty + tx];
    BS(ty, tx) = B[b + wB * ty + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int k = 0; k < BLOCK_SIZE; ++k) sum += AS(ty, k) * BS(k, tx);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  C[get_global_id(1) * get_global_size(0) + get_global_id(0)] = sum;
}
