/* Nine points with a tile and a halo that work-items load together.
   run: stencil9 --global 16,8 --local 8,8 10x18=random 10x18 18 0.25 0.15 0.05 8x180 */
inline int ToFlatIdx(int row, int col, int pitch) { return row * pitch + col; }
__kernel void stencil9(__global const float *data, __global float *newData, const int pitch, const float wCenter, const float wCardinal,
                       const float wDiagonal, __local float *sh)
{
  int gx = get_group_id(0) * 8, gy = get_group_id(1) * 8, lx = get_local_id(0), ly = get_local_id(1), w = 10;
  for (int i = ly * 8 + lx; i < w * w; i += 64) sh[i] = data[ToFlatIdx(gy + i / w, gx + i % w, pitch)];
  barrier(CLK_LOCAL_MEM_FENCE);
  int at = ToFlatIdx(ly + 1, lx + 1, w);
  float center = sh[at], cardinal = sh[at - 1] + sh[at + 1] + sh[at - w] + sh[at + w];
  float diagonal = sh[at - w - 1] + sh[at - w + 1] + sh[at + w - 1] + sh[at + w + 1];
  newData[ToFlatIdx(gy + ly + 1, gx + lx + 1, pitch)] = wCenter * center + wCardinal * cardinal + wDiagonal * diagonal;
}
