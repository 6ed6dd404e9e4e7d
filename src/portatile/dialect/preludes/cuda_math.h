/* The arithmetic functions of OpenCL C in CUDA C++: math, integer, common, geometric and relational functions.
   Scalar functions first; vectors apply them to each component. A scalar beside a vector widens, as OpenCL C has it. */
namespace ocl {
#define EACH_1(f) template <class T, int N> INLINE auto f(vec<T, N> a) { return lanes<N>::each([](T e) { return f(e); }, a); }
#define EACH_2(f) template <class T, int N> INLINE auto f(vec<T, N> a, same_t<vec<T, N>> b) { \
  return lanes<N>::each([](T e, T g) { return f(e, g); }, a, b); } \
  template <scalar S, class T, int N> INLINE auto f(S a, vec<T, N> b) { return f(vec<T, N>(a), b); }
#define EACH_3(f) template <class T, int N> INLINE auto f(vec<T, N> a, same_t<vec<T, N>> b, same_t<vec<T, N>> c) { \
  return lanes<N>::each([](T e, T g, T h) { return f(e, g, h); }, a, b, c); } \
  template <scalar S, class T, int N> INLINE auto f(S a, vec<T, N> b, same_t<vec<T, N>> c) { return f(vec<T, N>(a), b, c); } \
  template <scalar S, scalar U, class T, int N> INLINE auto f(S a, U b, vec<T, N> c) { return f(vec<T, N>(a), vec<T, N>(b), c); }
// The second argument may be of another type, or a scalar for all components: ldexp, pown, rootn, rotate.
#define EACH_INT(f) template <class T, int N> INLINE auto f(vec<T, N> a, vec<int, N> b) { \
  return lanes<N>::each([](T e, int g) { return f(e, g); }, a, b); } \
  template <class T, int N> INLINE auto f(vec<T, N> a, int b) { return f(a, vec<int, N>(b)); }

#define FLOAT_1(f, single, wide) INLINE float f(float a) { return single; } INLINE double f(double a) { return wide; } EACH_1(f)
#define FLOAT_2(f, single, wide) \
  INLINE float f(float a, float b) { return single; } INLINE double f(double a, double b) { return wide; } EACH_2(f)
#define FLOAT_3(f, single, wide) INLINE float f(float a, float b, float c) { return single; } \
  INLINE double f(double a, double b, double c) { return wide; } EACH_3(f)
#define SAME_1(name) FLOAT_1(name, ::name##f(a), ::name(a))
#define SAME_2(name) FLOAT_2(name, ::name##f(a, b), ::name(a, b))

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
FLOAT_3(fma, ::fmaf(a, b, c), ::fma(a, b, c))
FLOAT_3(mad, ::fmaf(a, b, c), ::fma(a, b, c))

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

// Relational functions: 1 for scalars, -1 in vectors (whose operators already give -1).
#define RELATION_2(f, test) \
  INLINE int f(float a, float b) { return test; } INLINE int f(double a, double b) { return test; } \
  template <class T, int N> INLINE vec<int_of<T>, N> f(vec<T, N> a, same_t<vec<T, N>> b) { \
    typedef int_of<T> I; return lanes<N>::each([](T e, T g) { return I(-f(e, g)); }, a, b); } \
  template <scalar S, class T, int N> INLINE auto f(S a, vec<T, N> b) { return f(vec<T, N>(a), b); }
#define RELATION_1(f, test) template <floating T> INLINE int f(T a) { return test; } \
  template <class T, int N> INLINE vec<int_of<T>, N> f(vec<T, N> a) { \
    typedef int_of<T> I; return lanes<N>::each([](T e) { return I(-f(e)); }, a); }
RELATION_2(isequal, a == b) RELATION_2(isnotequal, a != b) RELATION_2(isgreater, a > b) RELATION_2(isgreaterequal, a >= b)
RELATION_2(isless, a < b) RELATION_2(islessequal, a <= b) RELATION_2(islessgreater, a < b || a > b)
RELATION_2(isordered, a == a && b == b) RELATION_2(isunordered, a != a || b != b)
RELATION_1(isnan, a != a)
INLINE int isfinite(float a) { return (__float_as_uint(a) & 0x7f800000u) != 0x7f800000u; }
INLINE int isfinite(double a) { return (__double2hiint(a) & 0x7ff00000) != 0x7ff00000; }
INLINE int isinf(float a) { return (__float_as_uint(a) << 1) == 0xff000000u; }
INLINE int isinf(double a) { return (ulong(__double_as_longlong(a)) << 1) == 0xffe0000000000000ul; }
INLINE int isnormal(float a) { uint e = __float_as_uint(a) & 0x7f800000u; return e != 0 && e != 0x7f800000u; }
INLINE int isnormal(double a) { int e = __double2hiint(a) & 0x7ff00000; return e != 0 && e != 0x7ff00000; }
INLINE int signbit(float a) { return __float_as_uint(a) >> 31; }
INLINE int signbit(double a) { return uint(__double2hiint(a)) >> 31; }
#define EACH_TEST(f) template <class T, int N> INLINE vec<int_of<T>, N> f(vec<T, N> a) { \
  typedef int_of<T> I; return lanes<N>::each([](T e) { return I(-f(e)); }, a); }
EACH_TEST(isfinite) EACH_TEST(isinf) EACH_TEST(isnormal) EACH_TEST(signbit)
template <integer T> INLINE int any(T a) { return a < 0; }
template <integer T> INLINE int all(T a) { return a < 0; }
template <class T, int N> INLINE int any(vec<T, N> a) { int r = 0; for (int i = 0; i < N; i++) r |= a[i] < 0; return r; }
template <class T, int N> INLINE int all(vec<T, N> a) { int r = 1; for (int i = 0; i < N; i++) r &= a[i] < 0; return r; }
template <scalar T> INLINE T bitselect(T a, same_t<T> b, same_t<T> c) {
  typedef uint_of<T> U;
  U x = __builtin_bit_cast(U, a), y = __builtin_bit_cast(U, b), z = __builtin_bit_cast(U, c);
  return __builtin_bit_cast(T, U((x & U(~z)) | (y & z)));
}
EACH_3(bitselect)
template <scalar T, integer C> INLINE T select(T a, same_t<T> b, C c) { return c ? b : a; }
template <class T, int N, class C> INLINE vec<T, N> select(vec<T, N> a, same_t<vec<T, N>> b, vec<C, N> c) {
  return lanes<N>::each([](T e, T g, C h) { return h < 0 || (C(-1) > C(0) && h >> (sizeof(C) * 8 - 1)) ? g : e; }, a, b, c);
}
template <scalar S, class T, int N, class C> INLINE vec<T, N> select(S a, vec<T, N> b, vec<C, N> c) { return select(vec<T, N>(a), b, c); }

// Integer functions.
template <integer T> INLINE T mul_hi(T a, same_t<T> b) {
  if constexpr (equal<T, long>) return __mul64hi(a, b);
  else if constexpr (equal<T, ulong>) return __umul64hi(a, b);
  else if constexpr (T(-1) < T(0)) return T((long(a) * long(b)) >> (sizeof(T) * 8));
  else return T((ulong(a) * ulong(b)) >> (sizeof(T) * 8));
}
EACH_2(mul_hi)
template <integer T> INLINE T mad_hi(T a, same_t<T> b, same_t<T> c) { return T(mul_hi(a, b) + c); }
EACH_3(mad_hi)
template <integer T> INLINE uint_of<T> abs(T a) { typedef uint_of<T> U; return a < 0 ? U(U(0) - U(a)) : U(a); }
EACH_1(abs)
template <integer T> INLINE uint_of<T> abs_diff(T a, same_t<T> b) { typedef uint_of<T> U; return a > b ? U(U(a) - U(b)) : U(U(b) - U(a)); }
EACH_2(abs_diff)
template <integer T> INLINE T add_sat(T a, same_t<T> b) {
  T s = T(uint_of<T>(a) + uint_of<T>(b));
  if constexpr (T(-1) < T(0)) return b < 0 ? (s > a ? limits<T>::lowest() : s) : (s < a ? limits<T>::highest() : s);
  else return s < a ? limits<T>::highest() : s;
}
EACH_2(add_sat)
template <integer T> INLINE T sub_sat(T a, same_t<T> b) {
  T s = T(uint_of<T>(a) - uint_of<T>(b));
  if constexpr (T(-1) < T(0)) return b < 0 ? (s < a ? limits<T>::highest() : s) : (s > a ? limits<T>::lowest() : s);
  else return s > a ? T(0) : s;
}
EACH_2(sub_sat)
template <integer T> INLINE T hadd(T a, same_t<T> b) { return T((a & b) + ((a ^ b) >> 1)); }
EACH_2(hadd)
template <integer T> INLINE T rhadd(T a, same_t<T> b) { return T((a | b) - ((a ^ b) >> 1)); }
EACH_2(rhadd)
template <integer T> INLINE T clz(T a) {
  if constexpr (sizeof(T) == 8) return T(__clzll(a)); else return T(__clz(int(uint(uint_of<T>(a)))) - int(32 - sizeof(T) * 8));
}
EACH_1(clz)
template <integer T> INLINE T ctz(T a) {
  if (a == 0) return T(sizeof(T) * 8);
  if constexpr (sizeof(T) == 8) return T(__ffsll((long long)a) - 1); else return T(__ffs(int(a)) - 1);
}
EACH_1(ctz)
template <integer T> INLINE T popcount(T a) { return T(__popcll(ulong(uint_of<T>(a)))); }
EACH_1(popcount)
INLINE int abs(bool a) { return a; }  // of comparisons, which are ints in C
INLINE int clz(bool a) { return clz(int(a)); }
INLINE int ctz(bool a) { return ctz(int(a)); }
INLINE int popcount(bool a) { return a; }
template <integer T> INLINE T rotate(T a, same_t<T> b) {
  typedef uint_of<T> U;
  constexpr int bits = sizeof(T) * 8;
  int n = int(b & T(bits - 1));
  if constexpr (sizeof(T) == 4) return T(__funnelshift_l(uint(a), uint(a), n));
  else return T(U(U(a) << n) | U(U(a) >> ((bits - n) & (bits - 1))));
}
EACH_2(rotate)
template <integer T> INLINE T mad_sat(T a, same_t<T> b, same_t<T> c) {
  if constexpr (sizeof(T) < 8) {
    if constexpr (T(-1) < T(0)) {
      long r = long(a) * b + c;
      return r < limits<T>::lowest() ? limits<T>::lowest() : r > limits<T>::highest() ? limits<T>::highest() : T(r);
    } else {
      ulong r = ulong(a) * b + c;
      return r > limits<T>::highest() ? limits<T>::highest() : T(r);
    }
  } else {
    T low = T(ulong(a) * ulong(b)), high = mul_hi(a, b), sum = T(ulong(low) + ulong(c));
    if constexpr (T(-1) < T(0)) {  // the exact sum in 128 bits
      high += T(c < 0 ? -1 : 0) + T(ulong(sum) < ulong(low) ? 1 : 0);
      return high == (sum >> 63) ? sum : high < 0 ? limits<T>::lowest() : limits<T>::highest();
    } else return high || sum < low ? limits<T>::highest() : sum;
  }
}
EACH_3(mad_sat)
INLINE int mul24(int a, int b) { return __mul24(a, b); }
INLINE uint mul24(uint a, uint b) { return __umul24(a, b); }
EACH_2(mul24)
INLINE int mad24(int a, int b, int c) { return __mul24(a, b) + c; }
INLINE uint mad24(uint a, uint b, uint c) { return __umul24(a, b) + c; }
EACH_3(mad24)
#define UPSAMPLE(T, H, L) INLINE T upsample(H high, L low) { return T((uint_of<T>(uint_of<H>(high)) << (sizeof(L) * 8)) | low); } \
  template <int N> INLINE vec<T, N> upsample(vec<H, N> high, vec<L, N> low) { \
    return lanes<N>::each([](H h, L l) { return upsample(h, l); }, high, low); }
UPSAMPLE(short, char, uchar) UPSAMPLE(ushort, uchar, uchar) UPSAMPLE(int, short, ushort) UPSAMPLE(uint, ushort, ushort)
UPSAMPLE(long, int, uint) UPSAMPLE(ulong, uint, uint)

// Common functions; min, max and clamp belong to integers too. Operands of two types take their common type.
template <class A, class B> using common = typename plain<decltype(true ? A() : B())>::type;
INLINE float max(float a, float b) { return ::fmaxf(a, b); }
INLINE double max(double a, double b) { return ::fmax(a, b); }
INLINE float min(float a, float b) { return ::fminf(a, b); }
INLINE double min(double a, double b) { return ::fmin(a, b); }
template <integer A, integer B> INLINE common<A, B> max(A a, B b) { typedef common<A, B> T; return T(a) < T(b) ? T(b) : T(a); }
template <integer A, integer B> INLINE common<A, B> min(A a, B b) { typedef common<A, B> T; return T(b) < T(a) ? T(b) : T(a); }
EACH_2(max) EACH_2(min)
template <scalar T> INLINE T clamp(T a, same_t<T> low, same_t<T> high) { return min(max(a, low), high); }
template <class T, int N> INLINE vec<T, N> clamp(vec<T, N> a, same_t<vec<T, N>> low, same_t<vec<T, N>> high) {
  return min(max(a, low), high);
}
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
