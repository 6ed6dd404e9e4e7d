// Half precision, images and printf.

//// half_stores
__kernel void k(__global const float *a, __global ushort *o)
{
  int i = get_global_id(0);
  __global half *h = (__global half *)o;
  vstore_half(a[i], i, h);
  vstore_half_rtz(a[i + 32], i + 32, h);
  vstore_half2((float2)(a[2 * i + 64], a[2 * i + 65]), i + 32, h);
}

//// image_plain
__kernel void k(__read_only image2d_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
  o[y * get_image_width(p) + x] = read_imagef(p, s, (int2)(x, y));
}

//// image_outside
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = read_imagef(p, s, (int2)(2 * x - 3, 2 * y - 2)) + read_imagef(p, s, (float2)(x + 3.5f, y + 1.5f));
}

//// image_edge
__constant sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
float4 at(read_only image2d_t p, int x, int y)
{
  return read_imagef(p, s, (int2)(x, y));
}

__kernel void k(read_only image2d_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = at(p, 2 * x - 3, 2 * y - 2);
}

//// image_linear
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
__kernel void k(read_only image2d_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = read_imagef(p, s, (float2)(x * 0.875f + 0.25f, y + 0.375f));
}

//// image_normalised
const sampler_t s = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = read_imagef(p, s, (float2)((x + 3.5f) / 7, (y - 1.5f) / 5));
}

//// image_unsigned
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_t p, __global double2 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = as_double2(read_imageui(p, s, (int2)(x, y)));
}

//// image_one_channel
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_t p, __global float *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = read_imagef(p, s, (int2)(x - 1, y)).x;
}

//// image_write
__kernel void k(write_only image2d_t p, __global const float4 *a)
{
  int x = get_global_id(0), y = get_global_id(1);
  if (x < get_image_width(p) && y < get_image_height(p)) write_imagef(p, (int2)(x, y), a[y * 7 + x] * 2.0f);
}

//// half_in_groups
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void k(__global const half *a, __global float *o)
{
  int i = get_global_id(0);
  half x = a[i];
  o[4 * i] = sub_group_reduce_add(x) + sub_group_broadcast(x, 3);
  o[4 * i + 1] = sub_group_scan_exclusive_add(x);
  o[4 * i + 2] = work_group_reduce_max(x);
  o[4 * i + 3] = work_group_scan_exclusive_min(x);
}
