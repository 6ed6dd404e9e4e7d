/* Option prices with a polynomial for the normal distribution.
   run: black_scholes --global 32 --local 32 32 32 32=random(5,30) 32=random(1,100) 32=random(0.25,10) 0.02 0.3 32
   tolerance: 1e-5 */
float CND(float d)
{
  const float A1 = 0.31938153f, A2 = -0.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f, RSQRT2PI = 0.39894228040143267793994605993438f;
  float K = 1.0f / (1.0f + 0.2316419f * fabs(d));
  float cnd = RSQRT2PI * exp(-0.5f * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))));
  if (d > 0) cnd = 1.0f - cnd;
  return cnd;
}

void BlackScholesBody(__global float *call, __global float *put, float S, float X, float T, float R, float V)
{
  float sqrtT = sqrt(T), d1 = (log(S / X) + (R + 0.5f * V * V) * T) / (V * sqrtT), d2 = d1 - V * sqrtT;
  float CNDD1 = CND(d1), CNDD2 = CND(d2), expRT = exp(-R * T);
  *call = (S * CNDD1 - X * expRT * CNDD2);
  *put = (X * expRT * (1.0f - CNDD2) - S * (1.0f - CNDD1));
}

__kernel void black_scholes(__global float *d_Call, __global float *d_Put, __global float *d_S, __global float *d_X, __global float *d_T,
                            float R, float V, unsigned int optN)
{
  for (unsigned int opt = get_global_id(0); opt < optN; opt += get_global_size(0))
    BlackScholesBody(&d_Call[opt], &d_Put[opt], d_S[opt], d_X[opt], d_T[opt], R, V);
}
