/* AXPY and a strided DOT made by pasted macros for a type and a width, as BLAS generators write them; increments below zero.
   run: blas_pasted --global 16 --local 16 80=random(-1,1) 80=random(-1,1) 1 64 16 2 -3 0.75
   tolerance: 1e-5 */
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define TYPE float
#define WIDTH 4
#define TYPEV JOIN(TYPE, WIDTH)
#define VLOAD(o, p) JOIN(vload, WIDTH)(o, p)
#define VSTORE(v, o, p) JOIN(vstore, WIDTH)(v, o, p)
#define HSUM4(v) ((v).s0 + (v).s1 + (v).s2 + (v).s3)
#define HSUM(v) JOIN(HSUM, WIDTH)(v)
#define DEFINE_AXPY(suffix) static void JOIN(axpy, suffix)(TYPE alpha, __global const TYPE *x, __global TYPE *y, uint n, uint id, uint all) \
{ \
  for (uint i = id; i < n / WIDTH; i += all) { TYPEV t = VLOAD(i, y); t = mad(alpha, VLOAD(i, x), t); VSTORE(t, i, y); } \
}
DEFINE_AXPY(_f4)
static inline int start(int n, int inc) { return inc < 0 ? (1 - n) * inc : 0; }
__kernel void blas_pasted(__global const TYPE *_X, __global TYPE *_Y, __global TYPE *result, __local TYPE *scratch, const uint N, int incx, int incy, const TYPE alpha)
{
  const uint lid = get_local_id(0);
  __global const TYPE *X = _X + start(N, incx);
  __global TYPE *Y = _Y + start(N, incy);
  TYPE sum = (TYPE)0;
  for (int i = lid; i < (int)N; i += get_local_size(0)) sum += X[i * incx] * Y[i * incy];
  TYPEV part = (TYPEV)(sum, 0, 0, 0);
  scratch[lid] = HSUM(part);
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  for (uint s = get_local_size(0) >> 1; s; s >>= 1) {
    if (lid < s) scratch[lid] += scratch[lid + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (!lid) *result = scratch[0];
  axpy_f4(alpha, _X, _Y, 80, lid, get_local_size(0));
}
