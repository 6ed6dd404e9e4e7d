/* Saturating byte histogram: packed bytes, a copy per work-group, atomics to memory.
   run: histogram --global 64 --local 32 64=random(0,2000000000) 16=0 16 */
#define BINS 16
__kernel void histogram(__global const uint *data, __global uint *bins, int count)
{
  __local uint mine[BINS];
  for (int i = get_local_id(0); i < BINS; i += get_local_size(0)) mine[i] = 0u;
  barrier(CLK_LOCAL_MEM_FENCE);
  uchar4 bytes = as_uchar4(data[get_global_id(0)]);
  (void)atomic_add(mine + (bytes.s0 >> 4), 1u);
  (void)atomic_add(mine + (bytes.s1 >> 4), 1u);
  atom_inc(&mine[bytes.s2 / BINS]);
  atom_inc(&mine[bytes.s3 / BINS]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_local_id(0); i < count; i += get_local_size(0)) atomic_add(&bins[i], mine[i]);
}
