/* The scalar and vector types of OpenCL C in CUDA C++.
   Operators take vectors by value, or 128-bit loads are lost; vectors are trivial, so that shared memory, unions and constants hold them. */
#undef assert
#define INLINE __forceinline__
#define EACH2(M, o) M(o, x), M(o, y)
#define EACH3(M, o) EACH2(M, o), M(o, z)
#define EACH4(M, o) EACH3(M, o), M(o, w)
#define EACH8(M, o) EACH4(M, o), M(o, s4), M(o, s5), M(o, s6), M(o, s7)
#define EACH16(M, o) EACH8(M, o), M(o, s8), M(o, s9), M(o, sa), M(o, sb), M(o, sc), M(o, sd), M(o, se), M(o, sf)
#define MEMBERS2 union { T x, s0; }; union { T y, s1; };
#define MEMBERS3 MEMBERS2 union { T z, s2; };
#define MEMBERS4 MEMBERS3 union { T w, s3; };
#define MEMBERS8 MEMBERS4 T s4, s5, s6, s7;
#define MEMBERS16 MEMBERS8 T s8, s9; union { T sa, sA; }; union { T sb, sB; }; union { T sc, sC; }; \
  union { T sd, sD; }; union { T se, sE; }; union { T sf, sF; };
#define MEMBER(o, c) c(T(a_##c))
#define TYPENAME(o, c) class A_##c
#define VALUE(o, c) A_##c a_##c
#define SCALAR(o, c) A_##c
#define SPLAT(o, c) c(T(a))
#define BINARY(o, c) T(a.c o b.c)
#define WRAPPED(o, c) T(W(a.c) o W(b.c))
#define SHIFT(o, c) T(a.c o (b.c & int(sizeof(T) * 8 - 1)))
#define COMPARE(o, c) I(-int(a.c o b.c))
#define UNARY(o, c) T(o a.c)
#define NEGATED(o, c) T(-W(a.c))
#define NOT(o, c) I(-int(!a.c))
#define CALL(o, c) f(a.c...)

namespace oclt {
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef decltype(sizeof(0)) size_t;
struct half;

template <class T> struct plain { typedef T type; };
template <class T> struct plain<const T> { typedef T type; };
template <class T> struct plain<volatile T> { typedef T type; };
template <class T> struct plain<const volatile T> { typedef T type; };
template <class T> struct plain<T &> : plain<T> {};
template <class T> using value_of = typename plain<T>::type;
template <class T> struct same { typedef T type; };
template <class T> using same_t = typename same<T>::type;  // not deduced: scalars convert and widen here as they do in OpenCL C
template <class A, class B> struct pair { enum { equal = 0 }; };  // neither concepts nor enumerators make variables in the PTX
template <class A> struct pair<A, A> { enum { equal = 1 }; };
template <class A, class B> concept equal = pair<A, B>::equal == 1;

template <class T> struct kind { enum { rank = 0 }; };  // 1 integer, 2 floating point
template <> struct kind<bool> { enum { rank = 1 }; };
template <> struct kind<char> { enum { rank = 1 }; };
template <> struct kind<signed char> { enum { rank = 1 }; };
template <> struct kind<uchar> { enum { rank = 1 }; };
template <> struct kind<short> { enum { rank = 1 }; };
template <> struct kind<ushort> { enum { rank = 1 }; };
template <> struct kind<int> { enum { rank = 1 }; };
template <> struct kind<uint> { enum { rank = 1 }; };
template <> struct kind<long> { enum { rank = 1 }; };
template <> struct kind<ulong> { enum { rank = 1 }; };
template <> struct kind<long long> { enum { rank = 1 }; };
template <> struct kind<unsigned long long> { enum { rank = 1 }; };
template <> struct kind<half> { enum { rank = 2 }; };
template <> struct kind<float> { enum { rank = 2 }; };
template <> struct kind<double> { enum { rank = 2 }; };
template <class T> concept scalar = kind<T>::rank != 0 || __is_enum(T);
template <class T> concept integer = kind<T>::rank == 1 || __is_enum(T);
template <class T> concept floating = kind<T>::rank == 2;

template <int bytes> struct sized;
template <> struct sized<1> { typedef char type; typedef uchar utype; };
template <> struct sized<2> { typedef short type; typedef ushort utype; };
template <> struct sized<4> { typedef int type; typedef uint utype; };
template <> struct sized<8> { typedef long type; typedef ulong utype; };
template <class T> using int_of = typename sized<sizeof(T)>::type;
template <class T> using uint_of = typename sized<sizeof(T)>::utype;

template <class T, int N> struct vec;
template <class T> struct shape { typedef T type; enum { width = 1 }; };
template <class T, int N> struct shape<vec<T, N>> { typedef T type; enum { width = N }; };
template <class V> using element = typename shape<V>::type;
template <class T, int N> struct vector_of { typedef vec<T, N> type; };
template <class T> struct vector_of<T, 1> { typedef T type; };
template <class V> concept vector = shape<V>::width > 1;
template <class V> concept portatile_components = requires { V::components; };  // what swizzles apply to

// What a swizzle designates, where it is written to: v.swzw<2, 0>() = w is v.zx = w.
template <class T, int... I> struct swizzle {
  T *p;
  enum { components = sizeof...(I) };
  typedef vec<T, components> V;
  constexpr operator V() const { return V(p[I]...); }
  constexpr V operator=(V v) const { int k = 0; ((p[I] = v[k++]), ...); return v; }
  constexpr V operator+=(V v) const { return *this = V(*this) + v; }
  constexpr V operator-=(V v) const { return *this = V(*this) - v; }
  constexpr V operator*=(V v) const { return *this = V(*this) * v; }
  constexpr V operator/=(V v) const { return *this = V(*this) / v; }
  constexpr V operator%=(V v) const { return *this = V(*this) % v; }
  constexpr V operator&=(V v) const { return *this = V(*this) & v; }
  constexpr V operator|=(V v) const { return *this = V(*this) | v; }
  constexpr V operator^=(V v) const { return *this = V(*this) ^ v; }
  constexpr V operator<<=(V v) const { return *this = V(*this) << v; }
  constexpr V operator>>=(V v) const { return *this = V(*this) >> v; }
  constexpr V operator++() const { return *this = V(*this) + V(1); }
  constexpr V operator--() const { return *this = V(*this) - V(1); }
  constexpr V operator++(int) const { V old = *this; *this = old + V(1); return old; }
  constexpr V operator--(int) const { V old = *this; *this = old - V(1); return old; }
  template <int J> static constexpr int at() { constexpr int index[] = {I...}; return index[J]; }
  template <int... J> constexpr decltype(auto) swzw() const {
    if constexpr (sizeof...(J) == 1) return (p[at<J>()], ...); else return swizzle<T, at<J>()...>{p};
  }
  constexpr decltype(auto) lo_w() const { return halves<0, 1>(); }
  constexpr decltype(auto) hi_w() const { return halves<(sizeof...(I) + 1) / 2, 1>(); }
  constexpr decltype(auto) even_w() const { return halves<0, 2>(); }
  constexpr decltype(auto) odd_w() const { return halves<1, 2>(); }
  template <int first, int step> constexpr decltype(auto) halves() const {
    if constexpr (sizeof...(I) == 2) return swzw<first>();
    else if constexpr (sizeof...(I) <= 4) return swzw<first, first + step>();
    else if constexpr (sizeof...(I) == 8) return swzw<first, first + step, first + 2 * step, first + 3 * step>();
    else return swzw<first, first + step, first + 2 * step, first + 3 * step, first + 4 * step, first + 5 * step, first + 6 * step,
                     first + 7 * step>();
  }
};

// What components are added, subtracted and multiplied in: integers of vectors wrap around, as compilers of OpenCL C have it, while
// those of scalars may not.
template <int bytes> struct unsigned_of { typedef uint type; };
template <> struct unsigned_of<8> { typedef ulong type; };
template <class T> struct wrapping { typedef T type; };
template <integer T> struct wrapping<T> : unsigned_of<sizeof(T)> {};
#define OPERATOR(N, op, how) \
  friend INLINE constexpr vec operator op(vec a, vec b) { return vec(EACH##N(how, op)); } \
  friend INLINE constexpr vec &operator op##=(vec &a, vec b) { return a = a op b; }
#define RELATION(N, op) friend INLINE constexpr vec<I, N> operator op(vec a, vec b) { return vec<I, N>(EACH##N(COMPARE, op)); }
#define VECTOR(N, storage) \
template <class T> struct __align__(sizeof(T) * storage) vec<T, N> { \
  MEMBERS##N \
  enum { components = N }; \
  typedef int_of<T> I; \
  typedef typename wrapping<T>::type W; \
  vec() = default; \
  template <scalar A> INLINE constexpr vec(A a) : EACH##N(SPLAT, ) {} \
  template <EACH##N(TYPENAME, )> requires((scalar<A_x> && scalar<A_y>) EXTRA##N) \
  INLINE constexpr vec(EACH##N(VALUE, )) : EACH##N(MEMBER, ) {} \
  template <class A, class B, class... C> requires((shape<A>::width + shape<B>::width + ... + shape<C>::width) == N \
                                                   && sizeof...(C) + 2 != N) \
  INLINE constexpr vec(A a, B b, C... c) { int k = 0; put(k, a); put(k, b); (put(k, c), ...); } \
  template <class V> requires(equal<V, volatile vec> || equal<V, const volatile vec>) \
  INLINE vec(V &v) { const volatile T *p = (const volatile T *)&v; for (int i = 0; i < N; i++) (*this)[i] = p[i]; } \
  template <class V> requires(equal<V, vec>) \
  INLINE void operator=(V v) volatile { volatile T *p = (volatile T *)this; for (int i = 0; i < N; i++) p[i] = v[i]; } \
  INLINE constexpr T &operator[](int i) { return ((T *)this)[i]; } \
  INLINE constexpr const T &operator[](int i) const { return ((const T *)this)[i]; } \
  template <class A> INLINE constexpr void put(int &k, A a) { \
    if constexpr (shape<A>::width == 1) (*this)[k++] = T(a); else for (int i = 0; i < shape<A>::width; i++) (*this)[k++] = a[i]; \
  } \
  template <int... J> INLINE constexpr auto swz() const { \
    if constexpr (sizeof...(J) == 1) return ((*this)[J], ...); else return vec<T, sizeof...(J)>((*this)[J]...); \
  } \
  template <int... J> INLINE constexpr decltype(auto) swzw() { \
    if constexpr (sizeof...(J) == 1) return ((*this)[J], ...); else return swizzle<T, J...>{(T *)this}; \
  } \
  INLINE constexpr auto lo() const { return halves<0, 1>(); } \
  INLINE constexpr auto hi() const { return halves<(N + 1) / 2, 1>(); } \
  INLINE constexpr auto even() const { return halves<0, 2>(); } \
  INLINE constexpr auto odd() const { return halves<1, 2>(); } \
  INLINE constexpr decltype(auto) lo_w() { return halves_w<0, 1>(); } \
  INLINE constexpr decltype(auto) hi_w() { return halves_w<(N + 1) / 2, 1>(); } \
  INLINE constexpr decltype(auto) even_w() { return halves_w<0, 2>(); } \
  INLINE constexpr decltype(auto) odd_w() { return halves_w<1, 2>(); } \
  template <int f, int s> INLINE constexpr auto halves() const { return swz<HALVES##N>(); } \
  template <int f, int s> INLINE constexpr decltype(auto) halves_w() { return swzw<HALVES##N>(); } \
  OPERATOR(N, +, WRAPPED) OPERATOR(N, -, WRAPPED) OPERATOR(N, *, WRAPPED) OPERATOR(N, /, BINARY) OPERATOR(N, %, BINARY) \
  OPERATOR(N, &, BINARY) OPERATOR(N, |, BINARY) OPERATOR(N, ^, BINARY) OPERATOR(N, <<, SHIFT) OPERATOR(N, >>, SHIFT) \
  template <class U> friend INLINE constexpr vec operator<<(vec a, vec<U, N> b) { return vec(EACH##N(SHIFT, <<)); } \
  template <class U> friend INLINE constexpr vec operator>>(vec a, vec<U, N> b) { return vec(EACH##N(SHIFT, >>)); } \
  RELATION(N, ==) RELATION(N, !=) RELATION(N, <) RELATION(N, >) RELATION(N, <=) RELATION(N, >=) RELATION(N, &&) RELATION(N, ||) \
  friend INLINE constexpr vec operator+(vec a) { return a; } \
  friend INLINE constexpr vec operator-(vec a) { return vec(EACH##N(NEGATED, )); } \
  friend INLINE constexpr vec operator~(vec a) { return vec(EACH##N(UNARY, ~)); } \
  friend INLINE constexpr vec<I, N> operator!(vec a) { return vec<I, N>(EACH##N(NOT, )); } \
  friend INLINE constexpr vec &operator++(vec &a) { return a = a + vec(1); } \
  friend INLINE constexpr vec &operator--(vec &a) { return a = a - vec(1); } \
  friend INLINE constexpr vec operator++(vec &a, int) { vec old = a; a = a + vec(1); return old; } \
  friend INLINE constexpr vec operator--(vec &a, int) { vec old = a; a = a - vec(1); return old; } \
};
#define EXTRA2
#define EXTRA3 && scalar<A_z>
#define EXTRA4 && scalar<A_z> && scalar<A_w>
#define EXTRA8 && scalar<A_s7>
#define EXTRA16 && scalar<A_sf>
#define HALVES2 f
#define HALVES3 f, f + s
#define HALVES4 f, f + s
#define HALVES8 f, f + s, f + 2 * s, f + 3 * s
#define HALVES16 f, f + s, f + 2 * s, f + 3 * s, f + 4 * s, f + 5 * s, f + 6 * s, f + 7 * s
VECTOR(2, 2) VECTOR(3, 4) VECTOR(4, 4) VECTOR(8, 8) VECTOR(16, 16)

// lanes<N>::each(f, a, b) is the vector of f(a.x, b.x), f(a.y, b.y) and so on.
template <int N> struct lanes;
template <> struct lanes<1> { template <class F, class... A> static INLINE constexpr auto each(F f, A... a) { return f(a...); } };
#define LANES(N) template <> struct lanes<N> { \
  template <class F, class... A> static INLINE constexpr auto each(F f, A... a) { \
    return vec<decltype(f(a.x...)), N>(EACH##N(CALL, )); } };
LANES(2) LANES(3) LANES(4) LANES(8) LANES(16)

}  // namespace oclt

namespace ocl {
using oclt::uchar;
using oclt::ushort;
using oclt::uint;
using oclt::ulong;
using oclt::size_t;
using oclt::half;
using oclt::vec;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef ulong uintptr_t;
// c ? a : b where c may be a vector: then both values are computed and each component of c chooses by its sign.
template <class C, class A, class B> INLINE constexpr auto portatile_choose(C c, A a, B b) {
  if constexpr (oclt::shape<C>::width == 1) return c ? a() : b();
  else {
    typedef typename oclt::vector_of<oclt::element<decltype(true ? oclt::element<decltype(a())>() : oclt::element<decltype(b())>())>, oclt::shape<C>::width>::type V;
    return oclt::lanes<oclt::shape<C>::width>::each([](auto e, auto f, auto g) { return e < 0 ? f : g; }, c, V(a()), V(b()));
  }
}
// Where one value is written 0, it is a null pointer beside a pointer.
struct portatile_null {};
template <class T> concept portatile_pointer = requires(T p) { *p; };
template <class A, class B> INLINE constexpr auto portatile_or(A a, B b) { return a ? a : b(); }
// How far a scalar is shifted, modulo its width; vectors have operators of their own.
struct portatile_distance {
  uint n;
  template <class T, int N> INLINE constexpr operator vec<T, N>() const { return vec<T, N>(n); }
};
template <class B> INLINE constexpr auto portatile_by(B b) {
  if constexpr (oclt::shape<B>::width == 1) return portatile_distance{uint(b)}; else return b;
}
#define SHIFTED(op) \
  template <oclt::integer T> INLINE constexpr auto operator op(T a, portatile_distance by) { return a op (by.n & (sizeof(+a) * 8 - 1)); } \
  template <class T> INLINE constexpr T &operator op##=(T &a, portatile_distance by) { return a = oclt::value_of<T>(a op by); }
SHIFTED(<<) SHIFTED(>>)
// x++, x--, ++x and --x of what may be a bool.
template <int by, bool before, class T> INLINE constexpr auto portatile_counted(T &&x) {
  if constexpr (oclt::equal<oclt::value_of<T>, bool>) { bool old = x; x = by > 0 || !old; return before ? old : bool(x); }
  else if constexpr (before) { if constexpr (by > 0) return x++; else return x--; }
  else { if constexpr (by > 0) return ++x; else return --x; }
}
// What a literal of an array is kept in.
template <class A> struct portatile_array { A values; };
// A pointer that becomes an integer of any width, or a pointer to another type, whichever is wanted.
template <class T> struct portatile_pointed {
  T p;
  template <class U> INLINE operator U *() const { return (U *)p; }
  INLINE operator size_t() const { return size_t(p); }
};
template <class T> INLINE auto portatile_address(T p) {
  if constexpr (portatile_pointer<T>) return portatile_pointed<T>{p}; else return p;
}
template <class C, class A> INLINE constexpr auto portatile_choose(C c, A a, portatile_null) {
  if constexpr (portatile_pointer<decltype(a())>) return c ? a() : nullptr; else return portatile_choose(c, a, [] { return 0; });
}
template <class C, class B> INLINE constexpr auto portatile_choose(C c, portatile_null, B b) {
  if constexpr (portatile_pointer<decltype(b())>) return c ? nullptr : b(); else return portatile_choose(c, [] { return 0; }, b);
}
#define ALIASES(T) typedef vec<T, 2> T##2; typedef vec<T, 3> T##3; typedef vec<T, 4> T##4; typedef vec<T, 8> T##8; typedef vec<T, 16> T##16;
ALIASES(char) ALIASES(uchar) ALIASES(short) ALIASES(ushort) ALIASES(int) ALIASES(uint) ALIASES(long) ALIASES(ulong)
ALIASES(half) ALIASES(float) ALIASES(double)
}  // namespace ocl
