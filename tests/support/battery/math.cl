// Functions of real numbers, per component.

//// math_vectors
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  o[i] = fma(a[i], b[i], sin(a[i])) + max(a[i], 0.5f) + pow(fabs(b[i]) + 1.0f, (float4)(2.0f)) + mad(a[i], 2.0f,
      b[i]) + ldexp(a[i], (int4)(0, 1, 2, 3)) + ldexp(a[i], 1);
}

//// common_vectors
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  o[i] = clamp(a[i], -1.0f, 1.0f) + mix(a[i], b[i], 0.5f) + step(0.0f, a[i]) + smoothstep(-1.0f, 1.0f, b[i])
      + sign(b[i]) + min(a[i], b[i]) + clamp(b[i], (float4)(-1), (float4)(2));
}

//// geometric
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  float4 v = a[i], u = b[i];
  o[i] = (float4)(dot(v, u), length(v), distance(v, u), dot(v.xyz, u.xyz)) + normalize(v) + (float4)(cross(v.xyz,
      u.xyz), fast_length(v.xy));
}

//// relational_vectors
__kernel void k(__global const float4 *a, __global const float4 *b, __global int4 *o)
{
  int i = get_global_id(0);
  int4 m = isless(a[i], b[i]);
  o[i] = m + 2 * isnan(a[i] / 0.0f * 0.0f) + (int4)(any(m), all(m), any(m.xy), all(m.zw)) + select((int4)(1, 2, 3,
      4), (int4)(10, 20, 30, 40), m);
}

//// select_float
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  o[i] = select(a[i], b[i], a[i] > b[i]) + select(a[i], b[i], (uint4)(0, 0x80000000u, 0, ~0u)) + bitselect(a[i],
      b[i], as_float4((uint4)(0x80000000u)));
}

//// second_results
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  float w, c, f;
  int e, q;
  float x = fract(a[i], &w);
  f = frexp(a[i], &e);
  float m = modf(a[i], &c);
  o[4 * i] = x + 10 * w;
  o[4 * i + 1] = f * 100 + e;
  o[4 * i + 2] = m + 10 * c;
  float co;
  float si = sincos(a[i], &co);
  o[4 * i + 3] = si + 10 * co;
}

//// second_results_vector
__kernel void k(__global const float4 *a, __global float4 *o)
{
  int i = get_global_id(0);
  float4 w;
  int4 e;
  float4 x = fract(a[i], &w);
  float4 f = frexp(a[i], &e);
  o[i] = x + w + f * convert_float4(e);
}

//// constants
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  o[i] = M_PI_F + M_E_F * i + (float)M_SQRT2 + FLT_EPSILON + (isinf(INFINITY) ? 1 : 0) + (isnan(NAN) ? 2 : 0)
      + (INT_MAX == 0x7fffffff) + (MAXFLOAT > 1e38f);
}

//// contraction_off
float product(float a, float b, float c)
{
#pragma OPENCL FP_CONTRACT OFF
  return a * b + c;
}

__kernel void k(__global const float *a, __global const float *b, __global float *o)
{
#pragma OPENCL FP_CONTRACT OFF
  int i = get_global_id(0);
  float x = a[i], y = b[i], p = x * y, s = x + y, t = s - x;
  float4 v = (float4)(x) * y + (float4)(y, x, 1, 2);
  o[4 * i] = product(x, y, y);
  o[4 * i + 1] = fma(x, y, -p);
  o[4 * i + 2] = (x - (s - t)) + (y - t);
  o[4 * i + 3] = v.z - x * y;
}
