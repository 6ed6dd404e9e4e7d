/* A nine-point stencil with a halo in local memory, loaded by whoever stands at the edge; a typedef decides the precision.
   run: stencil_halo --global 8,8 --local 4,4 144=random 144 36 0.25 0.15 0.05
   tolerance: 1e-6 */
#ifdef DOUBLE_PRECISION
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define VALTYPE double
#else
#define VALTYPE float
#endif
inline int ToGlobalRow(int gidRow, int lszRow, int lidRow) { return gidRow * lszRow + lidRow + 1; }
inline int ToFlat(int row, int col, int padded) { return row * padded + col; }
__kernel void stencil_halo(__global VALTYPE *data, __global VALTYPE *newData, __local VALTYPE *sh, VALTYPE wCenter, VALTYPE wCardinal, VALTYPE wDiagonal)
{
  int padded = get_global_size(1) + 4, lr = get_local_id(0), lc = get_local_id(1), R = get_local_size(0), C = get_local_size(1);
  int row = ToGlobalRow(get_group_id(0), R, lr), col = ToGlobalRow(get_group_id(1), C, lc), lp = C + 2;
  #define FETCH(dr, dc) sh[ToFlat(lr + 1 + (dr), lc + 1 + (dc), lp)] = data[ToFlat(row + (dr), col + (dc), padded)]
  FETCH(0, 0);
  if (lr == 0) { FETCH(-1, 0); if (lc == 0) FETCH(-1, -1); else if (lc == C - 1) FETCH(-1, 1); }
  if (lr == R - 1) { FETCH(1, 0); if (lc == 0) FETCH(1, -1); else if (lc == C - 1) FETCH(1, 1); }
  if (lc == 0) FETCH(0, -1);
  if (lc == C - 1) FETCH(0, 1);
  #undef FETCH
  barrier(CLK_LOCAL_MEM_FENCE);
  #define S(dr, dc) sh[ToFlat(lr + 1 + dr, lc + 1 + dc, lp)]
  VALTYPE cardinal = S(-1, 0) + S(1, 0) + S(0, -1) + S(0, 1), diagonal = S(-1, -1) + S(-1, 1) + S(1, -1) + S(1, 1);
  newData[ToFlat(row, col, padded)] = wCenter * S(0, 0) + wCardinal * cardinal + wDiagonal * diagonal;
}
