/* Digits of each work-group counted in local memory with vectors of keys.
   run: radix_histogram --global 32 --local 16 32=random(0,100000) 2x16 4 */
#define RADIX 16
typedef uint4 KEYVECTYPE;
__kernel void radix_histogram(__global const KEYVECTYPE *in, __global uint *counts, const uint shift)
{
  __local uint digits[RADIX];
  const uint lid = get_local_id(0);
  digits[lid] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  KEYVECTYPE key = (in[get_global_id(0)] >> shift) & (uint)0xFU;
  atomic_inc(&digits[key.x]);
  atomic_inc(&digits[key.y]);
  atomic_inc(&digits[key.z]);
  atomic_inc(&digits[key.w]);
  barrier(CLK_LOCAL_MEM_FENCE);
  counts[lid * get_num_groups(0) + get_group_id(0)] = digits[lid];
}
