/* One pass of a fast Walsh transform in place.
   run: walsh --global 32 --local 16 64=random 8 */
__kernel void walsh(__global float *tArray, __const int step)
{
  unsigned int tid = get_global_id(0);
  const unsigned int group = tid % step, pair = 2 * step * (tid / step) + group, match = pair + step;
  float T1 = tArray[pair], T2 = tArray[match];
  tArray[pair] = T1 + T2;
  tArray[match] = T1 - T2;
}
