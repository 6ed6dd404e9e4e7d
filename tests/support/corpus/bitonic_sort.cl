/* Keys with values, compared and exchanged in local memory.
   run: bitonic_sort --global 16 --local 16 32=random(0,1000) 32=index 32 1 */
inline void ComparatorLocal(__local uint *keyA, __local uint *valA, __local uint *keyB, __local uint *valB, uint dir)
{
  if ((*keyA > *keyB) == dir) {
    uint t;
    t = *keyA; *keyA = *keyB; *keyB = t;
    t = *valA; *valA = *valB; *valB = t;
  }
}

__kernel void bitonic_sort(__global uint *key, __global uint *val, uint arrayLength, uint sortDir)
{
  __local uint l_key[64], l_val[64];
  uint lid = get_local_id(0), half_length = arrayLength / 2;
  l_key[lid] = key[lid], l_val[lid] = val[lid];
  l_key[lid + half_length] = key[lid + half_length], l_val[lid + half_length] = val[lid + half_length];
  for (uint size = 2; size <= arrayLength; size <<= 1) {
    uint dir = size == arrayLength ? sortDir : ((lid & (size / 2)) != 0);
    for (uint stride = size / 2; stride > 0; stride >>= 1) {
      barrier(CLK_LOCAL_MEM_FENCE);
      uint pos = 2 * lid - (lid & (stride - 1));
      ComparatorLocal(&l_key[pos], &l_val[pos], &l_key[pos + stride], &l_val[pos + stride], dir);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  key[lid] = l_key[lid], val[lid] = l_val[lid];
  key[lid + half_length] = l_key[lid + half_length], val[lid + half_length] = l_val[lid + half_length];
}
