/* Layers of an image array blended back to front; bytes seen as fractions, a table in a one-dimensional image.
   run: layers_blend --global 6,5 --local 6,1 unorm8:6x5x3x4=random(0,255) 8=random 6x5x4
   tolerance: 1e-5 */
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_FILTER_NEAREST | CLK_ADDRESS_NONE;
kernel void layers_blend(read_only image2d_array_t layers, read_only image1d_t curve, write_only image2d_t target)
{
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  float4 under = (float4)(0.0f, 0.0f, 0.0f, 1.0f);
  for (int layer = 0; layer < (int)get_image_array_size(layers); layer++) {
    float4 over = read_imagef(layers, nearest, (int4)(p, layer, 0));
    float alpha = over.w * read_imagef(curve, nearest, min(convert_int_rtz(over.w * 8.0f), get_image_width(curve) - 1)).x;
    under = mix(under, over, (float4)(alpha));
  }
  write_imagef(target, p, under);
}
