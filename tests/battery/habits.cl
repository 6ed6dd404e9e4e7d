// Habits of public programs that need more than their words: scalars beside vectors, pointers that move, names used twice.

//// scalars_in_place_of_vectors
__kernel void k(__global const float4 *a, __global float *o, __global float4 *p)
{
  int i = get_global_id(0);
  float4 v = a[i];
  o[i] = dot(v, 2.0f) + dot(0.5f, v) + distance(v, 1.0f) + distance(0.0f, v) + smoothstep(0, 2, v.x) + isless(0, v.y) + distance(1, v.z);
  p[i] = select(0.0f, v, v < 1.0f) + smoothstep(0.0f, 2.0f, v) - convert_float4(isgreater(0.5f, v));
}

//// parameters_that_move
float at(__global float *p, uint offset)
{
  p = (__global void *)((__global char *)p + offset);
  return *p;
}
__kernel void k(__global float *a, uint offset, __global float *o)
{
  a = (__global void *)((__global char *)a + offset);
  o = (__global void *)(o + 1);
  o[get_global_id(0)] = a[get_global_id(0)] + at(a, 8);
}

//// chained_choices
float sign_of(float a, float b) { return a > b ? 1.0f : a < b ? -1.0f : 0.0f; }
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  o[i] = a[i] > b[i] ? a[i] : b[i] > 0.0f ? b[i] * 2 : (float4)(7);
  o[i].x += sign_of(a[i].y, b[i].y);
}

//// null_in_choices
typedef struct {
  __global const float4 *data;
} span;
__kernel void k(__global const float4 *a, __global float4 *o)
{
  int i = get_global_id(0);
  __global const float4 *p = a[i].x > 0 ? a + i : NULL;
  span s = {a != 0 ? a : 0};
  float x = a[i].y > 0 ? a[i].y : 0;
  int4 m = a[i] < 0.0f ? 0 : convert_int4(a[i] * 8);
  o[i] = (p ? *p : s.data[0]) + x + convert_float4(m);
}

//// constants_of_constants
static const __constant float TOP = 255.0f, SCALE = 1.0f / 5;
__constant float RATIO = TOP / 51, TABLE[] = {1, 2, TOP};
constant float4 BASE = (float4)(1, 2, 3, 4), TWICE = BASE * SCALE * 10;
__constant float MORE[2] = {RATIO + SCALE, 8};
__constant float ENDLESS = 1.0f / 0.0f;
__kernel void k(__global float *o)
{
  int i = get_global_id(0);
  o[i] = MORE[i & 1] + TABLE[i % 3] + isinf(ENDLESS) + TWICE.w;
}

//// members_and_swizzles_of_one_name
typedef struct {
  float2 xy;
  float z;
} place;
typedef struct {
  uint lo, hi;
  place at;
} wide;
place placed(float4 v)
{
  place p = {.z = v.z, .xy = v.xy};
  return p;
}
__kernel void k(__global const float4 *a, __global float4 *o, __global wide *w)
{
  int i = get_global_id(0);
  float4 v = a[i];
  wide t = {.lo = i, .hi = i + 1}, *p = &t;
  t.at = placed(v);
  v.xy = t.at.xy.yx;
  v.xy += p->at.xy * 2;
  p->hi++;
  p->at.xy.x = 3;
  v.lo.y += (float)p->hi + t.lo;
  o[i] = (float4)(v.xy, placed(v.wzyx).xy);
  o[i].hi += (&t)->at.xy;
  w[i] = t;
}

//// bits_of_another_type
__kernel void k(__global const float4 *a, __global int4 *o) { o[get_global_id(0)] = __builtin_astype(a[get_global_id(0)] + 1, int4); }

//// half_vectors
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void k(__global const half4 *a, __global half4 *o)
{
  int i = get_global_id(0);
  half4 v = fabs(a[i]) + sqrt(fabs(a[i]));
  o[i] = clamp(v, (half)0.5f, (half)1.5f) + fmax(a[i], (half)0);
  o[i].x = fabs(a[i].x) + ldexp(a[i].y, 2);
}

//// image_at_any_integer
__kernel void k(__read_only image1d_buffer_t image, uint first, __global float4 *o)
{
  size_t i = get_global_id(0);
  o[i] = read_imagef(image, i & 7) + read_imagef(image, first) + read_imagef(image, (uchar)3);
}
