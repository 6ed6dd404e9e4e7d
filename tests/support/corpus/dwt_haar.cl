/* A one-dimensional Haar transform, several levels in one launch: local memory that shrinks, shifts of the group's size.
   run: dwt_haar --global 32 --local 16 64=random(-4,4) 64 2 32 3
   tolerance: 1e-6 */
__kernel void dwt_haar(__global float *inSignal, __global float *coefs, __global float *average, __local float *shared, uint levels)
{
  const size_t lid = get_local_id(0), grp = get_group_id(0), n = get_local_size(0);
  float2 pair = vload2(grp * n + lid, inSignal);
  shared[lid] = (pair.s0 + pair.s1) * M_SQRT1_2_F;
  coefs[grp * 2 * n + n + lid] = (pair.lo - pair.hi) * M_SQRT1_2_F;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint active = n >> 1;
  for (uint level = 1; level < levels; ++level, active >>= 1) {
    float d0 = 0, d1 = 0;
    if (lid < active) d0 = shared[2 * lid], d1 = shared[2 * lid + 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < active) {
      shared[lid] = (d0 + d1) * M_SQRT1_2_F;
      coefs[grp * 2 * n + active + lid] = (d0 - d1) * M_SQRT1_2_F;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid < 2 * active) coefs[grp * 2 * n + lid] = shared[lid];
  if (lid == 0) average[grp] = shared[0];
}
