/* Exclusive scan of a work-group with two elements per work-item, conflict-free padding.
   run: scan --global 16 --local 16 32=random 32 36 32 */
#define LOG_BANKS 4
#define OFFSET(n) ((n) >> LOG_BANKS)
__kernel void scan(__global const int *in, __global int *out, __local int *temp, const int n)
{
  int thid = get_local_id(0), offset = 1;
  int ai = thid, bi = thid + (n / 2);
  temp[ai + OFFSET(ai)] = in[ai];
  temp[bi + OFFSET(bi)] = in[bi];
  for (int d = n >> 1; d > 0; d >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thid < d) {
      int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
      temp[b + OFFSET(b)] += temp[a + OFFSET(a)];
    }
    offset *= 2;
  }
  if (thid == 0) temp[n - 1 + OFFSET(n - 1)] = 0;
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thid < d) {
      int a = offset * (2 * thid + 1) - 1 + OFFSET(offset * (2 * thid + 1) - 1), b = offset * (2 * thid + 2) - 1 + OFFSET(offset * (2 * thid + 2) - 1);
      int t = temp[a];
      temp[a] = temp[b];
      temp[b] += t;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  out[ai] = temp[ai + OFFSET(ai)];
  out[bi] = temp[bi + OFFSET(bi)];
}
