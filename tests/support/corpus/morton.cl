/* Bits of coordinates interleaved, in three-dimensional work-groups with global sizes of their own.
   run: morton --global 4,4,4 --local 4,2,2 64 64 */
static ulong spread(uint x)
{
  ulong v = x & 0x1fffff;
  v = (v | v << 32) & 0x1f00000000ffffUL;
  v = (v | v << 16) & 0x1f0000ff0000ffUL;
  v = (v | v << 8) & 0x100f00f00f00f00fUL;
  v = (v | v << 4) & 0x10c30c30c30c30c3UL;
  return (v | v << 2) & 0x1249249249249249UL;
}

__kernel void morton(__global ulong *codes, __global int4 *groups)
{
  uint3 p = (uint3)(get_global_id(0), get_global_id(1), get_global_id(2));
  size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
  p *= 12345u;
  codes[at] = spread(p.x) | spread(p.y) << 1 | spread(p.z) << 2;
  groups[at] = (int4)(get_group_id(0) + get_num_groups(0), get_group_id(1) * get_num_groups(1), get_group_id(2) - get_local_id(2), get_work_dim());
}
