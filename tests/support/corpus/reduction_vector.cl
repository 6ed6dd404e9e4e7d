/* Maximum over float4, the last steps without a barrier in one work-item.
   run: reduction_vector --global 32 --local 16 64=random(-5,5) 2 */
#define SIZE 16
__kernel __attribute__((reqd_work_group_size(SIZE, 1, 1))) void reduction_vector(__global float4 *in, __global float *most)
{
  __local float4 s[SIZE];
  int lid = get_local_id(0), at = get_group_id(0) * SIZE * 2 + lid;
  s[lid] = fmax(in[at], in[at + SIZE]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lid == 0) {
    float4 m = s[0];
    for (int k = 1; k < SIZE; k++) m = max(m, s[k]);
    m.lo = max(m.lo, m.hi);
    most[get_group_id(0)] = max(m.x, m.y);
  }
}
