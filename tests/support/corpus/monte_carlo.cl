/* Points in a circle, counted with 64-bit and 32-bit atomics.
   run: monte_carlo --global 32 --local 16 2=0 2=0 12345 */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
__kernel void monte_carlo(__global ulong *total, volatile __global uint *most, uint seed)
{
  uint s = seed + get_global_id(0) * 747796405u, hits = 0;
  for (int i = 0; i < 20; i++) {
    s = s * 1664525u + 1013904223u;
    float x = (s >> 8) / 16777216.0f;
    s = s * 1664525u + 1013904223u;
    float y = (s >> 8) / 16777216.0f;
    if (x * x + y * y < 1.0f) hits++;
  }
  atom_add(&total[0], (ulong)hits);
  atom_max(total + 1, (ulong)hits << 33);
  atomic_max(most, hits);
  atomic_add(&most[1], 1u);
}
