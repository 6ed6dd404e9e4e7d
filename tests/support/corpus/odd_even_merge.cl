/* Batcher's odd-even merge sort of keys with values in local memory, comparators in a helper that takes local pointers.
   run: odd_even_merge --global 32 --local 16 64=random(0,40) 64=index 0 */
inline void ComparatorLocal(__local uint *keyA, __local uint *valA, __local uint *keyB, __local uint *valB, uint dir)
{
  if ((*keyA > *keyB || (*keyA == *keyB && *valA > *valB)) == dir) {
    uint t;
    t = *keyA; *keyA = *keyB; *keyB = t;
    t = *valA; *valA = *valB; *valB = t;
  }
}
#define LIMIT 32U
__kernel void odd_even_merge(__global uint *d_Key, __global uint *d_Val, uint descending)
{
  __local uint l_key[LIMIT], l_val[LIMIT];
  const uint lid = get_local_id(0), base = get_group_id(0) * LIMIT, dir = !descending;
  for (uint half_ = 0; half_ < 2; half_++) {
    l_key[lid + half_ * (LIMIT / 2)] = d_Key[base + lid + half_ * (LIMIT / 2)];
    l_val[lid + half_ * (LIMIT / 2)] = d_Val[base + lid + half_ * (LIMIT / 2)];
  }
  for (uint size = 2; size <= LIMIT; size <<= 1) {
    uint stride = size / 2, offset = lid & (stride - 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    {
      uint pos = 2 * lid - (lid & (stride - 1));
      ComparatorLocal(&l_key[pos], &l_val[pos], &l_key[pos + stride], &l_val[pos + stride], dir);
      stride >>= 1;
    }
    for (; stride > 0; stride >>= 1) {
      barrier(CLK_LOCAL_MEM_FENCE);
      uint pos = 2 * lid - (lid & (stride - 1));
      if (offset >= stride)
        ComparatorLocal(l_key + pos - stride, l_val + pos - stride, l_key + pos, l_val + pos, dir);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  d_Key[base + lid] = l_key[lid];
  d_Val[base + lid] = l_val[lid];
  d_Key[base + lid + LIMIT / 2] = l_key[lid + LIMIT / 2];
  d_Val[base + lid + LIMIT / 2] = l_val[lid + LIMIT / 2];
}
