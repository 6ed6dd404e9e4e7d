/* Gaussian blur through an image and a sampler; weights in constant memory.
   run: image_blur --global 6,5 --local 6,1 6x5x4=random 6x5x4 */
__constant sampler_t sampler = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__constant float weights[] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
__kernel void image_blur(__read_only image2d_t src, __write_only image2d_t dst)
{
  int2 pos = {get_global_id(0), get_global_id(1)};
  float4 sum = 0.0f;
  for (int dy = -2; dy <= 2; dy++)
    for (int dx = -2; dx <= 2; dx++) sum += weights[dy + 2] * weights[dx + 2] * read_imagef(src, sampler, pos + (int2)(dx, dy));
  if (all(pos < get_image_dim(dst))) write_imagef(dst, pos, sum);
}
