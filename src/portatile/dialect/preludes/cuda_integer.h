/* The functions of integers of OpenCL C in CUDA C++. */
namespace ocl {
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
}  // namespace ocl
