/* The triad of a bandwidth benchmark on float4 in memory.
   run: triad --global 32 --local 32 32=random 32=random 32 0.4 */
__kernel void triad(__global const float4 *b, __global const float4 *c, __global float4 *a, float s)
{
  size_t i = get_global_id(0);
  a[i] = b[i] + s * c[i];
}
