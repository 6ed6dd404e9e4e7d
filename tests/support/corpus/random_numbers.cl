/* Generators with state in memory: xorshift of 128 bits and a 64-bit multiplier, to floats.
   run: random_numbers --global 16 --local 16 16=random(1,2000000000) 16=index 16 16 */
typedef struct { uint x, y, z, w; } xorshift_t;
uint next(xorshift_t *s)
{
  uint t = s->x ^ (s->x << 11);
  s->x = s->y, s->y = s->z, s->z = s->w;
  return s->w = s->w ^ (s->w >> 19) ^ t ^ (t >> 8);
}

uint pcg(ulong *state)
{
  ulong old = *state;
  *state = old * 6364136223846793005UL + 1442695040888963407UL;
  uint shifted = ((old >> 18u) ^ old) >> 27u, rot = old >> 59u;
  return (shifted >> rot) | (shifted << ((-rot) & 31));
}

__kernel void random_numbers(__global uint4 *seeds, __global ulong *states, __global float2 *out, __global uint *high)
{
  int i = get_global_id(0);
  xorshift_t s = {seeds[i].x, seeds[i].y, seeds[i].z, seeds[i].w};
  ulong p = states[i];
  float2 sum = (float2)(0.0f, 0.0f);
  for (int k = 0; k < 5; k++) sum += (float2)(next(&s) * 2.3283064365386963e-10f, (pcg(&p) >> 8) * 0x1p-24f);
  out[i] = sum;
  seeds[i] = (uint4)(s.x, s.y, s.z, s.w);
  states[i] = p;
  high[i] = mul_hi((uint)p, 0x9e3779b9u) + (uint)mul_hi(p, (ulong)i);
}
