/* Heat on a die: a block with a halo, clamped at the borders.
   run: hotspot --global 16,16 --local 8,8 16x16=random 16x16=random(320,340) 16x16 16 16 0.5 0.1 0.1 0.05 80.0 */
#define BLOCK 8
#define IN_RANGE(x, min, max) ((x) >= (min) && (x) <= (max))
__kernel void hotspot(global const float *restrict power, global const float *restrict temp_src, global float *temp_dst, int cols,
                      int rows, float step_div_Cap, float Rx_1, float Ry_1, float Rz_1, float amb)
{
  local float t[BLOCK][BLOCK];
  int tx = get_local_id(0), ty = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
  t[ty][tx] = temp_src[y * cols + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  int N = max(y - 1, 0), S = min(y + 1, rows - 1), W = (x < 1) ? 0 : x - 1, E = (x > cols - 2) ? cols - 1 : x + 1;
  float n = IN_RANGE(ty, 1, BLOCK - 1) ? t[ty - 1][tx] : temp_src[N * cols + x];
  float s = ty < BLOCK - 1 ? t[ty + 1][tx] : temp_src[S * cols + x];
  float w = tx > 0 ? t[ty][tx - 1] : temp_src[y * cols + W];
  float e = tx < BLOCK - 1 ? t[ty][tx + 1] : temp_src[y * cols + E], c = t[ty][tx];
  temp_dst[y * cols + x] = c + step_div_Cap * (power[y * cols + x] + (s + n - 2.0f * c) * Ry_1 + (e + w - 2.0f * c) * Rx_1 + (amb - c) * Rz_1);
}
