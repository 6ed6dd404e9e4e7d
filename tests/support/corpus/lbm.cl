/* Collision of a lattice gas with nine speeds: arrays of constants, loops over them.
   run: lbm --global 16 --local 16 9x16=random(0.05,0.15) 9x16 1.2 */
constant float w[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
constant int2 e[9] = {(int2)(0, 0), (int2)(1, 0), (int2)(0, 1), (int2)(-1, 0), (int2)(0, -1), (int2)(1, 1), (int2)(-1, 1), (int2)(-1, -1), (int2)(1, -1)};
kernel void lbm(global const float *f, global float *out, float omega)
{
  int i = get_global_id(0), n = get_global_size(0);
  float rho = 0;
  float2 u = 0;
  for (int q = 0; q < 9; q++) {
    rho += f[q * n + i];
    u += convert_float2(e[q]) * f[q * n + i];
  }
  u /= rho;
  for (int q = 0; q < 9; q++) {
    float eu = dot(convert_float2(e[q]), u), equilibrium = rho * w[q] * (1 + 3 * eu + 4.5f * eu * eu - 1.5f * dot(u, u));
    out[q * n + i] = mix(f[q * n + i], equilibrium, omega);
  }
}
