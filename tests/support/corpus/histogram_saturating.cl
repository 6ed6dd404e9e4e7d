/* A histogram of bytes that saturate, four counters to a word, merged by atomic functions on a pointer cast to bytes.
   run: histogram_saturating --global 64 --local 32 256=random(0,63) 16=0 64 */
#define BINS 64
__kernel void histogram_saturating(__global const uchar4 *data, __global uint *packed, __local uint *counts)
{
  const uint lid = get_local_id(0), group = get_local_size(0);
  for (uint i = lid; i < BINS; i += group) counts[i] = 0u;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uchar4 four = data[get_global_id(0)];
  (void)atomic_inc(&counts[four.x]);
  atom_inc(counts + four.y);
  atomic_add(&counts[four.z], 1u);
  atomic_sub(&counts[four.w], ~0u);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = lid; i < BINS / 4; i += group) {
    const uint4 bin = vload4(i, counts);
    const uchar4 bytes = convert_uchar4_sat(bin * 40u);
    atomic_or(packed + i, as_uint(bytes));
  }
}
