/* Potential within a radius, atoms as float4, a cut-off polynomial.
   run: cutcp --global 8,8 --local 8,8 8x8 12=random(0,4) 12 0.5 2.0 */
__kernel void cutcp(__global float *grid, __constant float4 *atoms, int n, float h, float cutoff)
{
  int x = get_global_id(0), y = get_global_id(1);
  const float cutoff2 = cutoff * cutoff, inv_cutoff2 = 1.0f / cutoff2;
  float energy = 0.f;
  for (int i = 0; i < n; i++) {
    float4 aval = atoms[i];
    aval.x -= x * h;
    aval.y -= y * h;
    float r2 = aval.x * aval.x + aval.y * aval.y + aval.z * aval.z;
    if (r2 < cutoff2) {
      float s = (1.f - r2 * inv_cutoff2);
      energy += aval.w * rsqrt(r2 + 0.01f) * s * s;
    }
  }
  grid[y * get_global_size(0) + x] += energy;
}
