// Functions of integers, per component.

//// integer_vectors
__kernel void k(__global const int4 *a, __global const int4 *b, __global int4 *o)
{
  int i = get_global_id(0);
  o[i] = min(a[i], b[i]) + max(a[i], 5) + convert_int4(abs_diff(a[i], b[i])) + mul_hi(a[i], b[i]) + clz(a[i])
      + rotate(a[i], (int4)(3)) + mul24(a[i] >> 12, b[i] >> 12) + clamp(a[i], -7, 7) + popcount(b[i]);
}

