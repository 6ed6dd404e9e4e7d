/* Gradient noise: permutations in a table, gradients in constant vectors.
   run: perlin --global 16,4 --local 16,1 4x16 0.37 */
__constant int P[16] = {11, 4, 7, 0, 13, 2, 9, 14, 5, 1, 8, 15, 6, 3, 12, 10};
__constant float2 G[4] = {{1.0f, 1.0f}, {-1.0f, 1.0f}, {1.0f, -1.0f}, {-1.0f, -1.0f}};
int floor2int(float v)
{
  int i = (int)v;
  if (v < i) i--;
  return i;
}

float2 s_curve2d(float2 t) { return t * t * ((float2)(3.0f, 3.0f) - (float2)(2.0f, 2.0f) * t); }
float lerp1d(float a, float b, float t) { return a + t * (b - a); }
float grad2d(float4 p)
{
  int i = P[(P[(int)p.x & 15] + (int)p.y) & 15] & 3;
  return G[i].x * p.z + G[i].y * p.w;
}

float noise2d(float2 pos)
{
  float2 p = (float2)(floor2int(pos.x), floor2int(pos.y)), f = pos - p, q = p + 1.0f, t = s_curve2d(f);
  float a = lerp1d(grad2d((float4)(p, f)), grad2d((float4)(q.x, p.y, f.x - 1.0f, f.y)), t.x);
  float b = lerp1d(grad2d((float4)(p.x, q.y, f.x, f.y - 1)), grad2d((float4)(q, f - 1.0f)), t.x);
  return lerp1d(a, b, t.y);
}

__kernel void perlin(__global float *out, const float scale)
{
  float2 p = scale * (float2)(get_global_id(0) - 3.0f, get_global_id(1) + 0.5f);
  float sum = 0, amplitude = 1;
  for (int octave = 0; octave < 3; ++octave, p *= 2.0f, amplitude *= 0.5f) sum += amplitude * noise2d(p);
  out[get_global_id(1) * get_global_size(0) + get_global_id(0)] = sum;
}
