/* A scene of signed distances marched by rays: structures returned by value, function-like macros, early returns, smooth minima.
   run: signed_distance --global 8,4 --local 8,2 32 0.5 40
   tolerance: 2e-4 */
typedef struct Hit { float t; int steps; float3 where; } Hit;
#define SAT(x) clamp((x), 0.f, 1.f)
#define OPU(a, b) ((a).x < (b).x ? (a) : (b))
static float smin(float a, float b, float k) { float h = SAT(.5f + .5f * (b - a) / k); return mix(b, a, h) - k * h * (1.f - h); }
static float sdBox(float3 p, float3 b) { float3 q = fabs(p) - b; return length(fmax(q, 0.f)) + fmin(fmax(q.x, fmax(q.y, q.z)), 0.f); }
static float2 scene(float3 p, float blend)
{
  float sphere = length(p - (float3)(0.3f, .2f, 1)) - .6f;
  float box = sdBox(p.zyx - (float3)(1, 0, -.4f), (float3)(.3f));
  float2 ground = (float2)(p.y + .7f, 1.0f);
  return OPU(((float2)(smin(sphere, box, blend), 2.0f)), ground);
}
static Hit march(float3 from, float3 along, float blend, int most)
{
  Hit h = {.t = 0.0f, .steps = 0};
  for (; h.steps < most; ++h.steps) {
    h.where = from + along * h.t;
    float d = scene(h.where, blend).x;
    if (d < 1e-3f) return h;
    h.t += d;
    if (h.t > 20.0f) break;
  }
  h.t = -1.0f;
  return h;
}
__kernel void signed_distance(__global float4 *image, float blend, int most)
{
  const int2 p = {get_global_id(0), get_global_id(1)}, n = {get_global_size(0), get_global_size(1)};
  float2 uv = (convert_float2(p) + .5f) / convert_float2(n) * 2.f - 1.f;
  Hit h = march((float3)(0, 0, -2), normalize((float3)(uv * (float2)(1, .6f), 1.5f)), blend, most);
  float4 colour = 0;
  if (h.t > 0) {
    const float e = 0.01f;
    float c = scene(h.where, blend).x;
    float3 normal = (float3)(scene(h.where + (float3)(e, 0, 0), blend).x, scene(h.where + (float3)(0, e, 0), blend).x, scene(h.where + (float3)(0, 0, e), blend).x) - c;
    colour.xyz = (float3)(h.t * 0.1f) + 2.0f * normal;
    colour.w = scene(h.where, blend).y;
  }
  image[p.y * n.x + p.x] = colour;
}
