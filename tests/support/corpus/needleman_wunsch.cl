/* One block of sequence alignment, diagonal by diagonal.
   run: needleman_wunsch --global 8 --local 8 9x9=random(-9,9) 9x9=0 3 9 */
#define B 8
int maximum(int a, int b, int c)
{
  int k = a <= b ? b : a;
  return k <= c ? c : k;
}

__kernel void needleman_wunsch(__global const int *reference, __global int *matrix, int penalty, int cols)
{
  __local int temp[(B + 1) * (B + 1)];
  __local int ref[B * B];
  int tx = get_local_id(0);
  for (int r = 0; r < B; r++) ref[r * B + tx] = reference[(r + 1) * cols + tx + 1];
  if (tx == 0) temp[0] = matrix[0];
  temp[tx + 1] = -penalty * (tx + 1);
  temp[(tx + 1) * (B + 1)] = -penalty * (tx + 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int m = 0; m < 2 * B - 1; m++) {
    int x = m < B ? tx + 1 : tx + m - B + 2, y = m < B ? m - tx + 1 : B - tx;
    bool active = m < B ? tx <= m : tx <= 2 * B - 2 - m;
    if (active)
      temp[y * (B + 1) + x] = maximum(temp[(y - 1) * (B + 1) + x - 1] + ref[(y - 1) * B + x - 1], temp[y * (B + 1) + x - 1] - penalty,
                                      temp[(y - 1) * (B + 1) + x] - penalty);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int r = 0; r < B; r++) matrix[(r + 1) * cols + tx + 1] = temp[(r + 1) * (B + 1) + tx + 1];
}
