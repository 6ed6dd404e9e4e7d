/* Reaction rates in the manner of generated combustion kernels: index macros over a structure of arrays, powers, exponentials, clamps.
   run: chemistry_rates --global 16 --local 16 16=random(800,1500) 64=random(0.01,0.3) 48 1.01325
   tolerance: 3e-5 */
typedef float real;
#define N_GP 16
#define Y(q) (y[((q) - 1) * N_GP + tid])
#define RF(q) (rf[(((q) - 1) * N_GP) + tid])
#define POLYX(v, c, n) (c * pow((v), (real)(n)))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CLAMP_EXP(x) exp(MAX(MIN_EXP, (x)))
#define MIN_EXP -80.0f
__kernel void chemistry_rates(__global const real *T, __global const real *y, __global real *rf, const real pressure)
{
  const int tid = get_global_id(0);
  const real t = T[tid], alogt = log(t), rt = 1.9872f * t;
  real sum = 0.0f;
  #pragma unroll 4
  for (int q = 1; q <= 4; q++) sum += Y(q);
  const real conc = pressure * 1013250.0f / (8.314e7f * t) / sum;
  RF(1) = CLAMP_EXP(5.0f + 0.67f * alogt - 6.29e3f / rt * 0.5f) * Y(1) * conc;
  RF(2) = MAX(POLYX(t / 1000.0f, 1.3f, 2.7f) * Y(2), 1e-20f) - POLYX(Y(3), 0.5f, 2);
  real pr = RF(1) / (RF(2) + 1.0f), fc = 0.3f * exp(-t / 540.0f) + 0.7f * exp(-t / 1150.0f);
  real logpr = log10(fmax(pr, 1e-10f)), n = 0.75f - 1.27f * log10(fc);
  RF(3) = pr / (1.0f + pr) * exp10(log10(fc) / (1.0f + pown(logpr / n, 2)));
}
