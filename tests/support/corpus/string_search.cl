/* Occurrences of a pattern: comparison through pointers, early exit by goto.
   run: string_search --global 32 --local 16 40=random(97,99) 3=random(97,99) 3 32 */
int compare(__global const uchar *text, __local const uchar *pattern, uint length)
{
  for (uint l = 0; l < length; ++l)
    if (text[l] != pattern[l]) return 0;
  return 1;
}

__kernel void string_search(__global uchar *text, __constant uchar *pattern, const uint length, __global int *found)
{
  __local uchar localPattern[16];
  for (uint i = get_local_id(0); i < length; i += get_local_size(0)) localPattern[i] = pattern[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  int result = 0;
  if (text[get_global_id(0)] != localPattern[0]) goto done;
  result = compare(text + get_global_id(0), localPattern, length) + 1;
done:
  found[get_global_id(0)] = result;
}
