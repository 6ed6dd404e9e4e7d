/* Functions of OpenCL C that most kernels call, in CUDA C++: fma, mad, select, and min, max, clamp of all types.
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

FLOAT_3(fma, ::fmaf(a, b, c), ::fma(a, b, c))
FLOAT_3(mad, ::fmaf(a, b, c), ::fma(a, b, c))
template <scalar T, integer C> INLINE T select(T a, same_t<T> b, C c) { return c ? b : a; }
template <class T, int N, class C> INLINE vec<T, N> select(vec<T, N> a, same_t<vec<T, N>> b, vec<C, N> c) {
  return lanes<N>::each([](T e, T g, C h) { return h < 0 || (C(-1) > C(0) && h >> (sizeof(C) * 8 - 1)) ? g : e; }, a, b, c);
}
template <scalar S, class T, int N, class C> INLINE vec<T, N> select(S a, vec<T, N> b, vec<C, N> c) { return select(vec<T, N>(a), b, c); }

// Operands of two types take their common type.
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
}  // namespace ocl
