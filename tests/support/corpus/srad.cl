/* Diffusion coefficient of a speckled image.
   run: srad --global 16,8 --local 16,1 8x16=random(0.5,1.5) 8x16 0.3 16 8 */
__kernel void srad(__global const float *J, __global float *C, float q0sqr, int cols, int rows)
{
  int x = get_global_id(0), y = get_global_id(1), at = y * cols + x;
  float Jc = J[at];
  float dN = J[clamp(y - 1, 0, rows - 1) * cols + x] - Jc, dS = J[clamp(y + 1, 0, rows - 1) * cols + x] - Jc;
  float dW = J[y * cols + clamp(x - 1, 0, cols - 1)] - Jc, dE = J[y * cols + clamp(x + 1, 0, cols - 1)] - Jc;
  float G2 = (dN * dN + dS * dS + dW * dW + dE * dE) / (Jc * Jc), L = (dN + dS + dW + dE) / Jc;
  float num = (0.5f * G2) - ((1.0f / 16.0f) * (L * L)), den = 1 + (.25f * L), qsqr = num / (den * den);
  den = (qsqr - q0sqr) / (q0sqr * (1 + q0sqr));
  float c = 1.0f / (1.0f + den);
  C[at] = c < 0 ? 0 : c > 1 ? 1 : c;
}
