/* Sobol numbers from direction vectors and their transformation by Moro's inverse; ternaries, clz and fields of constants.
   run: sobol --global 64 --local 32 64 2654435769 1000
   tolerance: 2e-5 */
__constant uint directions[8] = {0x80000000u, 0xC0000000u, 0xA0000000u, 0xF0000000u, 0x88000000u, 0xCC000000u, 0xAA000000u, 0xFF000000u};
__constant const float a[4] = {2.50662823884f, -18.61500062529f, 41.39119773534f, -25.44106049637f};
__constant const float b[4] = {-8.4735109309f, 23.08336743743f, -21.06224101826f, 3.13082909833f};
static float moro(float P)
{
  const float y = P - 0.5f;
  if (fabs(y) < 0.42f) {
    const float z = y * y;
    return y * (((a[3] * z + a[2]) * z + a[1]) * z + a[0]) / ((((b[3] * z + b[2]) * z + b[1]) * z + b[0]) * z + 1.0f);
  }
  float z = native_log(-native_log(y > 0 ? 1.0f - P : P));
  z = 0.337475482272615f + z * (0.976169019091719f + z * (0.160797971491821f + z * 0.0276438810333863f));
  return copysign(z, y);
}
__kernel void sobol(__global float *out, const uint seed, const uint skip)
{
  uint n = (uint)get_global_id(0) + skip, x = seed;
  const uint gray = n ^ (n >> 1);
  for (uint bits = gray & 0xffu; bits; bits &= bits - 1) x ^= directions[31 - clz(bits & -bits)];
  x ^= popcount(gray) << 13;
  out[get_global_id(0)] = moro((float)(x >> 8) * 0x1p-24f + 0x1p-25f);
}
