/* Conversions, reinterpretation, loads and stores of vectors in CUDA C++: convert_*, as_*, vload*, vstore*, shuffle. */
namespace ocl {
// How a floating-point value becomes an integer, and a double a float: convert_int_rte is convert_<int, round_rte>.
enum portatile_rounding { round_default, round_rte, round_rtz, round_rtp, round_rtn };

template <portatile_rounding R> half half_from(float v);

template <class T> struct limits;
#define LIMITS(T, low, high) template <> struct limits<T> { static constexpr INLINE T lowest() { return low; } \
  static constexpr INLINE T highest() { return high; } };
LIMITS(char, -128, 127) LIMITS(uchar, 0, 255) LIMITS(short, -32768, 32767) LIMITS(ushort, 0, 65535)
LIMITS(int, -2147483647 - 1, 2147483647) LIMITS(uint, 0, 0xffffffffu)
LIMITS(long, -0x7fffffffffffffffl - 1, 0x7fffffffffffffffl) LIMITS(ulong, 0, 0xfffffffffffffffful)

template <portatile_rounding R, class F> INLINE F round_to_integer(F v) {
  if constexpr (R == round_rte) return F(::rint(v));
  else if constexpr (R == round_rtp) return F(::ceil(v));
  else if constexpr (R == round_rtn) return F(::floor(v));
  else return F(::trunc(v));
}
template <class T, portatile_rounding R, bool saturate, class F> INLINE T convert_scalar(F v) {
  if constexpr (kind<T>::rank == 2 && kind<F>::rank == 2) {
    if constexpr (sizeof(T) >= sizeof(F)) return T(v);
    else if constexpr (equal<T, half>) return half_from<R>(float(v));
    else if constexpr (R == round_rtz) return __double2float_rz(v);
    else if constexpr (R == round_rtp) return __double2float_ru(v);
    else if constexpr (R == round_rtn) return __double2float_rd(v);
    else return __double2float_rn(v);
  } else if constexpr (kind<T>::rank == 2) {
    if constexpr (equal<T, half>) return half_from<R>(float(v));
    else if constexpr (equal<T, float> && R != round_default && R != round_rte) {
      double d = double(v);  // exact up to 53 bits; longer integers have the double's own rounding first
      if constexpr (sizeof(F) == 8) {
        if constexpr (equal<F, long>) return R == round_rtz ? __ll2float_rz(v) : R == round_rtp ? __ll2float_ru(v) : __ll2float_rd(v);
        else return R == round_rtz ? __ull2float_rz(v) : R == round_rtp ? __ull2float_ru(v) : __ull2float_rd(v);
      } else return R == round_rtz ? __double2float_rz(d) : R == round_rtp ? __double2float_ru(d) : __double2float_rd(d);
    } else if constexpr (equal<T, double> && sizeof(F) == 8 && R != round_default && R != round_rte) {
      if constexpr (equal<F, long>) return R == round_rtz ? __ll2double_rz(v) : R == round_rtp ? __ll2double_ru(v) : __ll2double_rd(v);
      else return R == round_rtz ? __ull2double_rz(v) : R == round_rtp ? __ull2double_ru(v) : __ull2double_rd(v);
    } else return T(v);
  } else if constexpr (kind<F>::rank == 2) {
    if constexpr (equal<F, half>) return convert_scalar<T, R, saturate>(float(v));
    else {
      F r = round_to_integer<R>(v);
      if constexpr (saturate) {  // F(highest) may round up to a power of two: compare with >=
        if (r != r) return 0;
        if (r <= F(limits<T>::lowest())) return limits<T>::lowest();
        if (r >= F(limits<T>::highest())) return limits<T>::highest();
      }
      if constexpr (sizeof(T) < 4) return T(int(r)); else return T(r);
    }
  } else if constexpr (saturate) {
    constexpr bool from_signed = F(-1) < F(0);
    if constexpr (from_signed) {
      if constexpr (T(-1) > T(0)) { if (v < 0) return 0; }
      else if (long(v) < long(limits<T>::lowest())) return limits<T>::lowest();
      if (v > 0 && ulong(v) > ulong(limits<T>::highest())) return limits<T>::highest();
    } else if (ulong(v) > ulong(limits<T>::highest())) return limits<T>::highest();
    return T(v);
  } else return T(v);
}
template <class V, portatile_rounding R = round_default, bool saturate = false, class A> INLINE V convert_(A a) {
  static_assert(int(shape<V>::width) == int(shape<A>::width), "convert_ keeps the number of components");
  if constexpr (shape<V>::width == 1) return convert_scalar<V, R, saturate>(a);
  else return lanes<shape<V>::width>::each([](element<A> e) { return convert_scalar<element<V>, R, saturate>(e); }, a);
}
template <class V, class A> INLINE V as_(A a) {
  if constexpr (equal<A, bool>) return as_<V>(int(a));  // a comparison, which is an int in C
  else {
    static_assert(sizeof(V) == sizeof(A), "as_ keeps the size");
    return __builtin_bit_cast(V, a);
  }
}

#define VLOAD(N) \
  template <class T> INLINE vec<typename plain<T>::type, N> vload##N(size_t offset, T *p) { \
    vec<typename plain<T>::type, N> v; \
    _Pragma("unroll") for (int i = 0; i < N; i++) v[i] = p[offset * N + i]; \
    return v; \
  } \
  template <class T> INLINE void vstore##N(vec<T, N> v, size_t offset, same_t<T> *p) { \
    _Pragma("unroll") for (int i = 0; i < N; i++) p[offset * N + i] = v[i]; \
  } \
  template <class T> INLINE void vstore##N(vec<T, N> v, size_t offset, volatile same_t<T> *p) { \
    _Pragma("unroll") for (int i = 0; i < N; i++) p[offset * N + i] = v[i]; \
  }
VLOAD(2) VLOAD(3) VLOAD(4) VLOAD(8) VLOAD(16)

template <class T, int N, class U, int M> INLINE vec<T, M> shuffle(vec<T, N> a, vec<U, M> mask) {
  vec<T, M> v;
  for (int i = 0; i < M; i++) v[i] = a[int(mask[i] & (N - 1))];
  return v;
}
template <class T, int N, class U, int M> INLINE vec<T, M> shuffle2(vec<T, N> a, vec<T, N> b, vec<U, M> mask) {
  vec<T, M> v;
  for (int i = 0; i < M; i++) { int k = int(mask[i] & (2 * N - 1)); v[i] = k < N ? a[k] : b[k - N]; }
  return v;
}
template <class V> INLINE constexpr int vec_step(V) { return shape<V>::width == 3 ? 4 : int(shape<V>::width); }
}  // namespace ocl
