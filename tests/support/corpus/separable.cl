/* Rows of a separable convolution: apron in local memory, taps by macro.
   run: separable --global 32,2 --local 16,2 2x48=random 2x32 5=random 48 32 */
#define KERNEL_RADIUS 2
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)
#define ROWS_BLOCKDIM_X 16
#define ROWS_BLOCKDIM_Y 2
__kernel __attribute__((reqd_work_group_size(ROWS_BLOCKDIM_X, ROWS_BLOCKDIM_Y, 1)))
void separable(__global float *src, __global float *dst, __constant float *c_Kernel, int pitchS, int pitchD)
{
  __local float l_Data[ROWS_BLOCKDIM_Y][ROWS_BLOCKDIM_X + 2 * KERNEL_RADIUS];
  const int baseX = get_group_id(0) * ROWS_BLOCKDIM_X, y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
  src += y * pitchS + baseX;
  for (int i = lx; i < ROWS_BLOCKDIM_X + 2 * KERNEL_RADIUS; i += ROWS_BLOCKDIM_X) l_Data[ly][i] = src[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
#pragma unroll
  for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++) sum += c_Kernel[KERNEL_RADIUS - j] * l_Data[ly][lx + KERNEL_RADIUS + j];
  dst[y * pitchD + baseX + lx] = sum;
}
