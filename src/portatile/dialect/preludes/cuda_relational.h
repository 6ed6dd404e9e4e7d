/* The relational functions of OpenCL C in CUDA C++: 1 for scalars, -1 in vectors (whose operators already give -1). */
namespace ocl {
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
}  // namespace ocl
