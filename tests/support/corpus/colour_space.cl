/* RGB to YUV on planes of bytes and 16-bit integers, saturating.
   run: colour_space --global 16 --local 16 16=random(0,255) 16 16=random(-300,300) 16 */
__kernel void colour_space(__global const uchar4 *rgba, __global uchar *luma, __global const short8 *in, __global char8 *out)
{
  int i = get_global_id(0);
  int4 c = convert_int4(rgba[i]);
  luma[i] = convert_uchar_sat((c.x * 66 + c.y * 129 + c.z * 25 + 128 >> 8) + 16);
  short8 s = add_sat(in[i], (short8)(32700));
  s = sub_sat(s, (short8)(32600)) >> (short8)1;
  out[i] = convert_char8_sat(s) ^ (char8)(i & 1 ? -1 : 0);
}
