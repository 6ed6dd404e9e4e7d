// Images of every shape and pixel, and samplers as arguments.

//// image1d_read
const sampler_t zero = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
const sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__kernel void k(read_only image1d_t p, __global float4 *o)
{
  int x = get_global_id(0);
  o[x] = read_imagef(p, zero, x - 2) + 10.0f * read_imagef(p, edge, x + 3.5f) + 100.0f * (x == get_image_width(p) - 1);
}

//// image1d_linear
__kernel void k(read_only image1d_t p, __global float4 *o)
{
  const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
  int x = get_global_id(0);
  o[x] = read_imagef(p, s, x + 0.75f);
}

//// image1d_write
__kernel void k(write_only image1d_t p, __global const int4 *a)
{
  int x = get_global_id(0);
  write_imagei(p, x, a[x] * 3);
}

//// image1d_buffer
__kernel void k(read_only image1d_buffer_t p, __global uint4 *o)
{
  int x = get_global_id(0);
  o[x] = read_imageui(p, 6 - x).yxwz;
}

//// image1d_buffer_write
__kernel void k(write_only image1d_buffer_t p, __global const float *a)
{
  int x = get_global_id(0);
  write_imagef(p, x, (float4)(a[x], 4.0f, 5.0f, 6.0f));
}

//// image1d_array
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__kernel void k(read_only image1d_array_t p, __global float *o)
{
  int x = get_global_id(0), layer = get_global_id(1);
  o[layer * get_image_width(p) + x] =
      read_imagef(p, s, (int2)(x + 1, (layer + 1) % (int)get_image_array_size(p))).x + 10.0f * read_imagef(p, s, (float2)(x - 1.5f, layer)).x;
}

//// image1d_array_write
__kernel void k(write_only image1d_array_t p, __global const float *a)
{
  int x = get_global_id(0), layer = get_global_id(1);
  write_imagef(p, (int2)(x, layer), (float4)(-a[layer * 7 + x]));
}

//// image2d_array
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_array_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1), layer = get_global_id(2);
  float4 sum = read_imagef(p, s, (int4)(x - 1, y + 1, layer, 0)) + 10.0f * read_imagef(p, s, (float4)(x + 0.5f, y + 0.5f, 2 - layer, 0));
  o[(layer * get_image_height(p) + y) * get_image_width(p) + x] = sum + (float)get_image_array_size(p);
}

//// image2d_array_write
__kernel void k(write_only image2d_array_t p, __global const uint4 *a)
{
  int x = get_global_id(0), y = get_global_id(1), layer = get_global_id(2);
  write_imageui(p, (int4)(x, y, layer, 0), a[(layer * 5 + y) * 7 + x]);
}

//// image3d_read
const sampler_t zero = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
const sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__kernel void k(read_only image3d_t p, __global float *o)
{
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  float sum = read_imagef(p, zero, (int4)(x + 1, y - 1, z + 1, 0)).x + 10.0f * read_imagef(p, edge, (float4)(x - 1.5f, y + 2.5f, z - 0.5f, 0)).x;
  o[(z * get_image_height(p) + y) * get_image_width(p) + x] = sum + get_image_depth(p);
}

//// image3d_linear
const sampler_t s = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
__kernel void k(read_only image3d_t p, __global float *o)
{
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  float4 at = (float4)(x + 0.75f, y + 0.25f, z + 0.625f, 0.0f) / (float4)(7, 5, 3, 1);
  o[(z * 5 + y) * 7 + x] = read_imagef(p, s, at).x;
}

//// image3d_write
#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
__kernel void k(write_only image3d_t p, __global const float *a)
{
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  write_imagef(p, (int4)(x, y, z, 0), (float4)(a[(z * 5 + y) * 7 + x] + 1.0f));
}

//// image_fractions
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_t p, __global float4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = read_imagef(p, s, (int2)(x, y));
}

//// image_fractions_write
__kernel void k(write_only image2d_t p, __global const float4 *a)
{
  int x = get_global_id(0), y = get_global_id(1);
  write_imagef(p, (int2)(x, y), a[y * 7 + x]);
}

//// image_bytes
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__kernel void k(read_only image2d_t p, write_only image2d_t q, __global uint4 *o)
{
  int x = get_global_id(0), y = get_global_id(1);
  uint4 pixel = read_imageui(p, s, (int2)(x + 1, y));
  o[y * 7 + x] = pixel;
  write_imageui(q, (int2)(x, y), 255 - pixel);
}

//// image_shorts
const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__kernel void k(read_only image3d_t p, __global int4 *o)
{
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  o[(z * 5 + y) * 7 + x] = read_imagei(p, s, (int4)(x, y, z, 0));
}

//// sampler_argument
float4 shifted(read_only image2d_t p, sampler_t s, int2 at)
{
  return read_imagef(p, s, at - 2);
}
__kernel void k(read_only image2d_t p, sampler_t s, __global float4 *o, sampler_t t)
{
  int x = get_global_id(0), y = get_global_id(1);
  o[y * 7 + x] = shifted(p, s, (int2)(x, y)) + 10.0f * read_imagef(p, t, (float2)((x + 3.5f) / 7, (y + 0.5f) / 5));
}
