/* Elements that pass a test, packed by a scan of flags in each work-group.
   run: compaction --global 32 --local 16 32=random(-50,50) 32=0 2 */
__kernel void compaction(__global const int *in, __global int *out, __global int *counts)
{
  __local int offsets[17];
  int lid = get_local_id(0), value = in[get_global_id(0)], keep = value > 0 ? 1 : 0;
  offsets[lid + 1] = keep;
  if (!lid) offsets[0] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = 1; d < 16; d <<= 1) {
    int before = lid + 1 > d ? offsets[lid + 1 - d] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    offsets[lid + 1] += before;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (keep) out[get_group_id(0) * get_local_size(0) + offsets[lid]] = value;
  if (lid == get_local_size(0) - 1) counts[get_group_id(0)] = offsets[lid + 1];
}
