/* y += a x, with a loop that strides over the grid.
   run: saxpy --global 64 --local 16 200=random 200=index 2.5 200 */
__kernel void saxpy(__global const float *restrict x, __global float *restrict y, const float a, const int n)
{
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = mad(a, x[i], y[i]);
}
