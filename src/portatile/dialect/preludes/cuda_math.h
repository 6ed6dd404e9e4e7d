/* The mathematical and geometric functions of OpenCL C in CUDA C++, and those that interpolate. */
namespace ocl {
SAME_1(acos) SAME_1(acosh) SAME_1(asin) SAME_1(asinh) SAME_1(atan) SAME_1(atanh) SAME_1(cbrt) SAME_1(ceil) SAME_1(cos) SAME_1(cosh)
SAME_1(cospi) SAME_1(erf) SAME_1(erfc) SAME_1(exp) SAME_1(exp2) SAME_1(exp10) SAME_1(expm1) SAME_1(fabs) SAME_1(floor) SAME_1(lgamma)
SAME_1(log) SAME_1(log2) SAME_1(log10) SAME_1(log1p) SAME_1(logb) SAME_1(rint) SAME_1(round) SAME_1(rsqrt) SAME_1(sin) SAME_1(sinh)
SAME_1(sinpi) SAME_1(sqrt) SAME_1(tan) SAME_1(tanh) SAME_1(tgamma) SAME_1(trunc)
FLOAT_1(acospi, ::acosf(a) * 0.318309886183790671538f, ::acos(a) * 0.318309886183790671538)
FLOAT_1(asinpi, ::asinf(a) * 0.318309886183790671538f, ::asin(a) * 0.318309886183790671538)
FLOAT_1(atanpi, ::atanf(a) * 0.318309886183790671538f, ::atan(a) * 0.318309886183790671538)
FLOAT_1(tanpi, ::sinpif(a) / ::cospif(a), ::sinpi(a) / ::cospi(a))
SAME_2(atan2) SAME_2(copysign) SAME_2(fdim) SAME_2(fmax) SAME_2(fmin) SAME_2(fmod) SAME_2(hypot) SAME_2(nextafter) SAME_2(pow)
SAME_2(remainder)
FLOAT_2(atan2pi, ::atan2f(a, b) * 0.318309886183790671538f, ::atan2(a, b) * 0.318309886183790671538)
FLOAT_2(powr, a < 0 ? __int_as_float(0x7fc00000) : ::powf(a, b), a < 0 ? __longlong_as_double(0x7ff8000000000000l) : ::pow(a, b))
FLOAT_2(maxmag, ::fabsf(a) > ::fabsf(b) ? a : ::fabsf(b) > ::fabsf(a) ? b : ::fmaxf(a, b),
        ::fabs(a) > ::fabs(b) ? a : ::fabs(b) > ::fabs(a) ? b : ::fmax(a, b))
FLOAT_2(minmag, ::fabsf(a) < ::fabsf(b) ? a : ::fabsf(b) < ::fabsf(a) ? b : ::fminf(a, b),
        ::fabs(a) < ::fabs(b) ? a : ::fabs(b) < ::fabs(a) ? b : ::fmin(a, b))

INLINE int ilogb(float a) { return ::ilogbf(a); }
INLINE int ilogb(double a) { return ::ilogb(a); }
EACH_1(ilogb)
INLINE float ldexp(float a, int n) { return ::ldexpf(a, n); }
INLINE double ldexp(double a, int n) { return ::ldexp(a, n); }
EACH_INT(ldexp)
INLINE float pown(float a, int n) { float r = ::powf(::fabsf(a), float(n)); return n & 1 ? ::copysignf(r, a) : r; }
INLINE double pown(double a, int n) { return ::pow(a, double(n)); }
EACH_INT(pown)
// Odd roots of negative numbers are real.
template <class T> INLINE T root(T a, int n) {
  T r = pow(fabs(a), T(1) / T(n));
  return a < 0 ? (n & 1) ? -r : T(__int_as_float(0x7fc00000)) : (n & 1) ? copysign(r, a) : r;
}
INLINE float rootn(float a, int n) { return root(a, n); }
INLINE double rootn(double a, int n) { return root(a, n); }
EACH_INT(rootn)
INLINE float nan(uint code) { return __uint_as_float(0x7fc00000u | code); }
INLINE double nan(ulong code) { return __longlong_as_double(0x7ff8000000000000l | long(code)); }
template <class T, int N> INLINE auto nan(vec<T, N> a) { return lanes<N>::each([](T e) { return nan(e); }, a); }

// Functions with a second result behind a pointer. largest_fraction: the greatest value below one.
template <floating T> INLINE T fract(T a, T *whole) {
  T largest = sizeof(T) == 4 ? T(0x1.fffffep-1f) : T(0x1.fffffffffffffp-1);
  *whole = floor(a);
  return isinf(a) ? copysign(T(0), a) : fmin(a - *whole, largest);
}
INLINE float modf(float a, float *whole) { return ::modff(a, whole); }
INLINE double modf(double a, double *whole) { return ::modf(a, whole); }
INLINE float frexp(float a, int *e) { return ::frexpf(a, e); }
INLINE double frexp(double a, int *e) { return ::frexp(a, e); }
INLINE float lgamma_r(float a, int *s) { *s = a < 0 && (int(::floorf(a)) & 1) ? -1 : 1; return ::lgammaf(a); }
INLINE double lgamma_r(double a, int *s) { *s = a < 0 && (long(::floor(a)) & 1) ? -1 : 1; return ::lgamma(a); }
INLINE float sincos(float a, float *c) { float s; ::sincosf(a, &s, c); return s; }
INLINE double sincos(double a, double *c) { double s; ::sincos(a, &s, c); return s; }
INLINE float remquo(float a, float b, int *q) { return ::remquof(a, b, q); }
INLINE double remquo(double a, double b, int *q) { return ::remquo(a, b, q); }
#define EACH_POINTER(f, P) template <class T, int N> INLINE vec<T, N> f(vec<T, N> a, vec<P, N> *p) { \
  vec<T, N> v; for (int i = 0; i < N; i++) { P second; v[i] = f(a[i], &second); (*p)[i] = second; } return v; }
EACH_POINTER(fract, T) EACH_POINTER(modf, T) EACH_POINTER(sincos, T) EACH_POINTER(frexp, int) EACH_POINTER(lgamma_r, int)
template <class T, int N> INLINE vec<T, N> remquo(vec<T, N> a, vec<T, N> b, vec<int, N> *q) {
  vec<T, N> v;
  for (int i = 0; i < N; i++) { int second; v[i] = remquo(a[i], b[i], &second); (*q)[i] = second; }
  return v;
}

#define NATIVE_1(f, how) INLINE float native_##f(float a) { return how; } EACH_1(native_##f) \
  INLINE float half_##f(float a) { return how; } EACH_1(half_##f)
#define NATIVE_2(f, how) INLINE float native_##f(float a, float b) { return how; } EACH_2(native_##f) \
  INLINE float half_##f(float a, float b) { return how; } EACH_2(half_##f)
#define APPROXIMATE(name, op) INLINE float name(float a) { float r; asm(op ".f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
APPROXIMATE(portatile_ex2, "ex2.approx") APPROXIMATE(portatile_rcp, "rcp.approx") APPROXIMATE(portatile_sqrt, "sqrt.approx")
APPROXIMATE(portatile_rsqrt, "rsqrt.approx")
NATIVE_1(exp, __expf(a)) NATIVE_1(exp2, portatile_ex2(a)) NATIVE_1(exp10, __exp10f(a)) NATIVE_1(log, __logf(a)) NATIVE_1(log2, __log2f(a))
NATIVE_1(log10, __log10f(a)) NATIVE_1(recip, portatile_rcp(a)) NATIVE_1(rsqrt, portatile_rsqrt(a)) NATIVE_1(sqrt, portatile_sqrt(a))
NATIVE_2(divide, __fdividef(a, b)) NATIVE_2(powr, __powf(a, b))
// half_sin is defined up to 2^16 with a relative error, so it is not the special-function unit's.
#define NATIVE_ONLY(name, how) INLINE float native_##name(float a) { return how; } EACH_1(native_##name) \
  INLINE float half_##name(float a) { return ::name##f(a); } EACH_1(half_##name)
NATIVE_ONLY(sin, __sinf(a)) NATIVE_ONLY(cos, __cosf(a)) NATIVE_ONLY(tan, __tanf(a))

FLOAT_1(degrees, a * 57.295779513082320876798f, a * 57.295779513082320876798)
FLOAT_1(radians, a * 0.017453292519943295769f, a * 0.017453292519943295769)
FLOAT_1(sign, a != a ? 0.0f : a > 0 ? 1.0f : a < 0 ? -1.0f : a, a != a ? 0.0 : a > 0 ? 1.0 : a < 0 ? -1.0 : a)
FLOAT_3(mix, a + (b - a) * c, a + (b - a) * c)
FLOAT_2(step, b < a ? 0.0f : 1.0f, b < a ? 0.0 : 1.0)
template <class T> INLINE T portatile_smooth(T t) { return t * t * (T(3) - T(2) * t); }
FLOAT_3(smoothstep, portatile_smooth(clamp((c - a) / (b - a), 0.0f, 1.0f)), portatile_smooth(clamp((c - a) / (b - a), 0.0, 1.0)))

// Geometric functions.
INLINE float dot(float a, float b) { return a * b; }
INLINE double dot(double a, double b) { return a * b; }
template <class T, int N> INLINE T dot(vec<T, N> a, vec<T, N> b) {
  T sum = a[0] * b[0];
  for (int i = 1; i < N; i++) sum += a[i] * b[i];
  return sum;
}
template <scalar S, class T, int N> INLINE T dot(S a, vec<T, N> b) { return dot(vec<T, N>(a), b); }
template <class T, int N, scalar S> INLINE T dot(vec<T, N> a, S b) { return dot(a, vec<T, N>(b)); }
template <class T> INLINE vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
  return vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
template <class T> INLINE vec<T, 4> cross(vec<T, 4> a, vec<T, 4> b) {
  return vec<T, 4>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x, T(0));
}
// Scaled by the largest component, so that squares neither overflow nor vanish.
INLINE float length(float a) { return ::fabsf(a); }
INLINE double length(double a) { return ::fabs(a); }
template <class T, int N> INLINE T length(vec<T, N> a) {
  T m = fabs(a[0]);
  for (int i = 1; i < N; i++) m = fmax(m, fabs(a[i]));
  if (m == T(0) || isinf(m)) return m;
  T s = sizeof(T) == 4 ? T(0x1p60f) : T(0x1p500), unit = m > s ? T(1) / s : m < T(1) / s ? s : T(1);
  vec<T, N> b = a * unit;
  return sqrt(dot(b, b)) / unit;
}
#define DISTANCE(name, length) INLINE float name(float a, float b) { return ::fabsf(a - b); } \
  template <class T, int N> INLINE T name(vec<T, N> a, same_t<vec<T, N>> b) { return length(a - b); } \
  template <scalar S, class T, int N> INLINE T name(S a, vec<T, N> b) { return length(vec<T, N>(a) - b); }
DISTANCE(distance, length)
INLINE double distance(double a, double b) { return ::fabs(a - b); }
INLINE float normalize(float a) { return sign(a); }
INLINE double normalize(double a) { return sign(a); }
template <class T, int N> INLINE vec<T, N> normalize(vec<T, N> a) {
  T n = length(a);
  return n == T(0) ? a : a / vec<T, N>(n);
}
INLINE float fast_length(float a) { return ::fabsf(a); }
template <class T, int N> INLINE T fast_length(vec<T, N> a) { return portatile_sqrt(dot(a, a)); }
DISTANCE(fast_distance, fast_length)
INLINE float fast_normalize(float a) { return sign(a); }
template <class T, int N> INLINE vec<T, N> fast_normalize(vec<T, N> a) {
  T d = dot(a, a);
  return d == T(0) ? a : a * vec<T, N>(portatile_rsqrt(d));
}
}  // namespace ocl
