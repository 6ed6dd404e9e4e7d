/* Sum of each work-group in local memory, two elements read per work-item.
   run: reduction --global 64 --local 32 128=random 2 32 */
__kernel void reduction(__global const float *in, __global float *sums, __local float *s)
{
  const uint tid = get_local_id(0), size = get_local_size(0);
  const uint i = get_group_id(0) * (size * 2) + tid;
  s[tid] = in[i] + in[i + size];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint k = size / 2; k > 0; k >>= 1) {
    if (tid < k) s[tid] += s[tid + k];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (tid == 0) sums[get_group_id(0)] = s[0];
}
