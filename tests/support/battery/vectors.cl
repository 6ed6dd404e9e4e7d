// Vector types: literals, components, swizzles, operators, loads and stores, conversions.

//// components_sixteen
__kernel void k(__global const float4 *a, __global float4 *o)
{
  int i = get_global_id(0);
  float16 v = (float16)(a[i], a[i] + 1.0f, a[i] + 2.0f, a[i] + 3.0f);
  o[i] = (float4)(v.sA, v.sf, v.s5, v.w) + (float4)(v.hi.hi.s1, v.lo.s4, v.even.s3, v.odd.s7);
}

//// wide_load
__kernel void k(__global const float *restrict a, __global float *o)
{
  int i = get_global_id(0);
  float4 v = ((__global const float4 *)a)[i];
  *((__global float4 *)(o + 4 * i)) = v.wzyx;
}

//// vload_local
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[128];
  int i = get_local_id(0);
  vstore4(vload4(i, a), i, t);
  barrier(CLK_LOCAL_MEM_FENCE);
  vstore4(vload4(31 - i, t), i, o);
}

//// convert_rounding
__kernel void k(__global const float4 *a, __global int4 *o)
{
  int i = get_global_id(0);
  o[i] = (int4)(convert_int_rte(a[i].x), convert_int_rtz(a[i].y), convert_int_rtp(a[i].z), convert_int_rtn(a[i].w));
}

//// constant_vectors
__constant float4 t[2] = {(float4)(1, 2, 3, 4), {5, 6, 7, 8.5f}};
__kernel void k(__global float4 *o)
{
  int i = get_global_id(0);
  o[i] = t[i & 1];
}

//// volatile_vector
__kernel void k(volatile __global float4 *a, __global float4 *o)
{
  int i = get_global_id(0);
  float4 v = a[i];
  o[i] = v + 1.0f;
}

//// vector_in_struct
typedef struct {
  float4 v;
  int n;
} item;
__kernel void k(__global const float4 *a, __global float4 *o)
{
  int i = get_global_id(0);
  item t[2];
  t[0].v = a[i];
  t[0].n = 2;
  t[1] = t[0];
  t[1].v.xy = t[0].v.yx;
  o[i] = t[1].v * t[1].n;
}

//// vector_union
typedef union {
  float4 v;
  float s[4];
  uint4 u;
} any4;
__kernel void k(__global const float4 *a, __global float *o)
{
  int i = get_global_id(0);
  any4 t;
  t.v = a[i];
  o[i] = t.s[i & 3];
}
