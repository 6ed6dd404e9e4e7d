/* A row of four results in registers, float4 from the second operand.
   run: sgemm_registers --global 4,8 --local 4,8 8x12=random 12x4=random 8x4 12 4 0.5 */
__kernel void sgemm_registers(__global const float *a, __global const float4 *b, __global float4 *c, int k, int n4, float alpha)
{
  int col = get_global_id(0), row = get_global_id(1);
  float4 sum = (float4)0.0f;
  for (int p = 0; p < k; p += 4) {
    float4 av = vload4(0, a + row * k + p);
    sum += av.x * b[p * n4 + col];
    sum += av.y * b[(p + 1) * n4 + col];
    sum = mad((float4)(av.z), b[(p + 2) * n4 + col], sum);
    sum = fma(av.wwww, b[(p + 3) * n4 + col], sum);
  }
  c[row * n4 + col] = alpha * sum;
}
