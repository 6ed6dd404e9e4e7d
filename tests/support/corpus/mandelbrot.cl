/* Escape times on a plane, four pixels as a vector with a mask.
   run: mandelbrot --global 8,8 --local 8,1 8x8 -2.0 -1.25 0.09375 0.3125 24 */
__kernel void mandelbrot(__global int4 *out, float x0, float y0, float dx, float dy, int most)
{
  int gx = get_global_id(0), gy = get_global_id(1);
  float4 cx = x0 + ((float)(gx * 4) + (float4)(0, 1, 2, 3)) * dx, cy = (float4)(y0 + gy * dy), x = 0, y = 0;
  int4 count = 0, active = -1;
  for (int i = 0; i < most && any(active); i++) {
    float4 xx = x * x, yy = y * y;
    active = active & (xx + yy <= 4.0f);
    count -= active;
    y = select(y, 2.0f * x * y + cy, active);
    x = active ? xx - yy + cx : x;
  }
  out[gy * get_global_size(0) + gx] = count;
}
