/* A colour table of three dimensions applied to pixels: a volume sampled linearly through a sampler that the host gives.
   run: volume_slice --global 8,4 --local 8,1 8x4x4=random 4x4x4x4=random linear,edge,normalized 8x4x4 4
   tolerance: 8e-3 */
__kernel void volume_slice(__read_only image2d_t in, __read_only image3d_t table, sampler_t filter, __write_only image2d_t out, const float size)
{
  const sampler_t point = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
  const int2 at = (int2)(get_global_id(0), get_global_id(1));
  float4 pixel = read_imagef(in, point, at);
  const float scale = (size - 1.0f) / size, offset = 0.5f / size;
  float4 graded = read_imagef(table, filter, (float4)(pixel.xyz * scale + offset, 0.0f));
  graded.w = pixel.w;
  write_imagef(out, at, graded);
}
