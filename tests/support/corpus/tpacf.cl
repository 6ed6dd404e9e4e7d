/* Angles between directions put into bins by search, in double where it matters; a union of views.
   run: tpacf --global 16 --local 16 float:48=random(-1,1) 8=0 16
   tolerance: 1e-6 */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
struct cartesian {
  float x, y, z;
};
typedef union {
  struct cartesian c;
  float v[3];
} view_t;
__constant double edges[7] = {0.9, 0.7, 0.4, 0.1, -0.2, -0.5, -0.8};
__kernel void tpacf(__global const struct cartesian *points, __global int *bins, int n)
{
  view_t mine;
  mine.c = points[get_global_id(0)];
  for (int j = 0; j < n; j++) {
    struct cartesian other = points[j];
    double d = mine.v[0] * other.x + mine.v[1] * other.y + (double)mine.v[2] * other.z;
    int low = 0, high = 7;
    while (low < high) {
      int k = (low + high) / 2;
      if (d >= edges[k]) high = k;
      else low = k + 1;
    }
    atomic_inc(bins + low);
  }
}
