/* A group of work-items for each row, folded in local memory that is volatile.
   run: spmv_vector --global 64 --local 32 128=random 32=random 128=random(0,32) 16=index 16 16 */
#define PER_ROW 4
__kernel void spmv_vector(__global const float *val, __global const float *vec, __global const int *cols, __global const int *rows,
                          const int dim, __global float *out)
{
  const int t = get_local_id(0), id = t & (PER_ROW - 1), myRow = get_global_id(0) / PER_ROW;
  __local volatile float partialSums[32];
  float mySum = 0;
  for (int j = rows[myRow] * 8 + id; j < (rows[myRow] + 1) * 8; j += PER_ROW) mySum += val[j] * vec[cols[j]];
  partialSums[t] = mySum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (id < 2) partialSums[t] += partialSums[t + 2];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (id == 0 && myRow < dim) out[myRow] = partialSums[t] + partialSums[t + 1];
}
