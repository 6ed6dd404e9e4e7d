/* Dynamic programming over rows with a halo and a flag for valid work-items.
   run: pathfinder --global 32 --local 32 4x32=random 32=random 32 32 4 3 32 32 */
#define MIN(a, b) ((a) <= (b) ? (a) : (b))
__kernel void pathfinder(__global int *gpuWall, __global int *gpuSrc, __global int *gpuResults, int cols, int rows, int iteration,
                         __local int *prev, __local int *result)
{
  int tx = get_local_id(0), BLOCK_SIZE = get_local_size(0);
  bool valid = tx >= 0 && tx < cols, computed;
  int W = tx - 1 < 0 ? 0 : tx - 1, E = tx + 1 > BLOCK_SIZE - 1 ? BLOCK_SIZE - 1 : tx + 1;
  if (valid) prev[tx] = gpuSrc[tx];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < iteration; i++) {
    computed = false;
    if (tx >= i + 1 && tx <= BLOCK_SIZE - i - 2 && valid) {
      computed = true;
      int shortest = MIN(prev[W], prev[tx]);
      shortest = MIN(shortest, prev[E]);
      result[tx] = shortest + gpuWall[cols * i + tx];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == iteration - 1) break;
    if (computed) prev[tx] = result[tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (computed) gpuResults[tx] = result[tx];
}
