/* Half precision of OpenCL C in CUDA C++: a type with arithmetic, and loads and stores of halves as floats.

   Sums and products of two halves are the machine's own; everything else goes through float. */
namespace oclt {
constexpr INLINE ushort portatile_half_bits(float v) {  // to nearest even, for constants
  uint u = __builtin_bit_cast(uint, v), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return ushort(sign | 0x7e00u);
  if (a >= 0x477ff000u) return ushort(sign | 0x7c00u);
  if (a < 0x33000001u) return ushort(sign);
  if (a < 0x38800000u) {
    uint shift = 126 - (a >> 23), m = (a & 0x7fffffu) | 0x800000u, half_unit = 1u << (shift - 1), rest = m & ((1u << shift) - 1);
    uint h = m >> shift;
    return ushort(sign | (h + (rest > half_unit || (rest == half_unit && (h & 1)))));
  }
  uint h = (a - 0x38000000u) >> 13, rest = a & 0x1fffu;
  return ushort(sign | (h + (rest > 0x1000u || (rest == 0x1000u && (h & 1)))));
}
struct half {
  ushort bits;
  half() = default;
  template <class A> requires(kind<A>::rank != 0 && !equal<A, half>)
  INLINE constexpr half(A a) : bits(0) {
    if (__builtin_is_constant_evaluated()) bits = portatile_half_bits(float(a));
    else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(float(a)));
  }
  INLINE operator float() const { float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits)); return v; }
};
template <class A> concept only_half = equal<A, half>;
#define HALF_OPERATOR(op, how) \
  template <only_half A> INLINE half operator op(A a, A b) { half r; asm(how ".f16 %0, %1, %2;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits)); return r; } \
  template <class B> INLINE half &operator op##=(half &a, B b) { return a = half(a op b); }
HALF_OPERATOR(+, "add") HALF_OPERATOR(-, "sub") HALF_OPERATOR(*, "mul")
template <only_half A> INLINE half operator/(A a, A b) { return half(float(a) / float(b)); }
template <class B> INLINE half &operator/=(half &a, B b) { return a = half(a / b); }
template <only_half A> INLINE half operator-(A a) { a.bits ^= 0x8000; return a; }
INLINE half &operator++(half &a) { return a = half(float(a) + 1); }
INLINE half &operator--(half &a) { return a = half(float(a) - 1); }
INLINE half operator++(half &a, int) { half old = a; ++a; return old; }
INLINE half operator--(half &a, int) { half old = a; --a; return old; }
}  // namespace oclt

namespace ocl {
template <portatile_rounding R> INLINE half half_from(float v) {
  half h;
  if constexpr (R == round_rtz) asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(v));
  else if constexpr (R == round_default || R == round_rte) h = half(v);
  else {  // the machine rounds to nearest or to zero: step where that went the wrong way
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(v));
    float back = float(h);
    if (R == round_rtp && back < v) h.bits += 1;
    if (R == round_rtn && back > v) h.bits += 1;
    if (R == round_rtp && v > 0 && back == 0.0f) h.bits = 1;
    if (R == round_rtn && v < 0 && back == 0.0f) h.bits = 0x8001;
  }
  return h;
}

}  // namespace ocl

// In the namespace of the type, so that the functions of vectors, which were written before these, find them too.
namespace oclt {
#define HALF_1(f) INLINE half f(half a) { return half(::ocl::f(float(a))); }
#define HALF_2(f) INLINE half f(half a, half b) { return half(::ocl::f(float(a), float(b))); }
#define HALF_3(f) INLINE half f(half a, half b, half c) { return half(::ocl::f(float(a), float(b), float(c))); }
#define HALF_INT(f) INLINE half f(half a, int n) { return half(::ocl::f(float(a), n)); }
HALF_1(acos) HALF_1(acosh) HALF_1(acospi) HALF_1(asin) HALF_1(asinh) HALF_1(asinpi) HALF_1(atan) HALF_1(atanh) HALF_1(atanpi) HALF_1(cbrt)
HALF_1(ceil) HALF_1(cos) HALF_1(cosh) HALF_1(cospi) HALF_1(erf) HALF_1(erfc) HALF_1(exp) HALF_1(exp2) HALF_1(exp10) HALF_1(expm1) HALF_1(fabs)
HALF_1(floor) HALF_1(lgamma) HALF_1(log) HALF_1(log2) HALF_1(log10) HALF_1(log1p) HALF_1(logb) HALF_1(rint) HALF_1(round) HALF_1(rsqrt)
HALF_1(sin) HALF_1(sinh) HALF_1(sinpi) HALF_1(sqrt) HALF_1(tan) HALF_1(tanh) HALF_1(tanpi) HALF_1(tgamma) HALF_1(trunc) HALF_1(degrees)
HALF_1(radians) HALF_1(sign) HALF_1(length) HALF_1(normalize)
HALF_2(atan2) HALF_2(atan2pi) HALF_2(copysign) HALF_2(fdim) HALF_2(fmax) HALF_2(fmin) HALF_2(fmod) HALF_2(hypot) HALF_2(max) HALF_2(maxmag)
HALF_2(min) HALF_2(minmag) HALF_2(pow) HALF_2(powr) HALF_2(remainder) HALF_2(step) HALF_2(dot) HALF_2(distance)
HALF_3(mix) HALF_3(smoothstep)
HALF_INT(ldexp) HALF_INT(pown) HALF_INT(rootn)
INLINE half fma(half a, half b, half c) {
  half r;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
  return r;
}
INLINE half mad(half a, half b, half c) { return fma(a, b, c); }
INLINE int isfinite(half a) { return (a.bits & 0x7c00) != 0x7c00; }
INLINE int isinf(half a) { return (a.bits & 0x7fff) == 0x7c00; }
INLINE int isnormal(half a) { int e = a.bits & 0x7c00; return e != 0 && e != 0x7c00; }
INLINE int signbit(half a) { return a.bits >> 15; }
}  // namespace oclt

namespace ocl {
// C takes pointers to shorts, say, for pointers to halves.
template <class P> INLINE float vload_half(size_t i, P *p) { return float(((const half *)p)[i]); }
#define STORE_HALF(mode, R) \
  template <class P> INLINE void vstore_half##mode(float v, size_t i, P *p) { ((half *)p)[i] = half_from<R>(v); } \
  template <class P> INLINE void vstore_half##mode(double v, size_t i, P *p) { ((half *)p)[i] = half_from<R>(float(v)); } \
  STORE_HALVES(2, 2, mode, R) STORE_HALVES(3, 4, mode, R) STORE_HALVES(4, 4, mode, R) STORE_HALVES(8, 8, mode, R) STORE_HALVES(16, 16, mode, R)
#define STORE_HALVES(N, stride, mode, R) \
  template <class T, class P> INLINE void vstore_half##N##mode(vec<T, N> v, size_t i, P *p) { \
    for (int k = 0; k < N; k++) ((half *)p)[i * N + k] = half_from<R>(float(v[k])); } \
  template <class T, class P> INLINE void vstorea_half##N##mode(vec<T, N> v, size_t i, P *p) { \
    for (int k = 0; k < N; k++) ((half *)p)[i * stride + k] = half_from<R>(float(v[k])); }
#define LOAD_HALVES(N, stride) \
  template <class P> INLINE vec<float, N> vload_half##N(size_t i, P *p) { \
    vec<float, N> v; for (int k = 0; k < N; k++) v[k] = float(((const half *)p)[i * N + k]); return v; } \
  template <class P> INLINE vec<float, N> vloada_half##N(size_t i, P *p) { \
    vec<float, N> v; for (int k = 0; k < N; k++) v[k] = float(((const half *)p)[i * stride + k]); return v; }
LOAD_HALVES(2, 2) LOAD_HALVES(3, 4) LOAD_HALVES(4, 4) LOAD_HALVES(8, 8) LOAD_HALVES(16, 16)
STORE_HALF(, round_default) STORE_HALF(_rte, round_rte) STORE_HALF(_rtz, round_rtz) STORE_HALF(_rtp, round_rtp) STORE_HALF(_rtn, round_rtn)
}  // namespace ocl
