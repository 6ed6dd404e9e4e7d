/* Functions of Clang's own that programs in OpenCL C call, in CUDA C++. */
namespace ocl {
INLINE int __builtin_popcount(uint a) { return __popc(a); }
INLINE int __builtin_popcountl(ulong a) { return __popcll(a); }
INLINE int __builtin_popcountll(ulong a) { return __popcll(a); }
INLINE int __builtin_parity(uint a) { return __popc(a) & 1; }
INLINE int __builtin_clz(uint a) { return __clz(int(a)); }
INLINE int __builtin_clzl(ulong a) { return __clzll((long long)a); }
INLINE int __builtin_clzll(ulong a) { return __clzll((long long)a); }
INLINE int __builtin_ctz(uint a) { return __ffs(int(a)) - 1; }
INLINE int __builtin_ctzl(ulong a) { return __ffsll((long long)a) - 1; }
INLINE int __builtin_ctzll(ulong a) { return __ffsll((long long)a) - 1; }
INLINE int __builtin_ffs(int a) { return __ffs(a); }
INLINE int __builtin_ffsl(long a) { return __ffsll(a); }
INLINE int __builtin_abs(int a) { return a < 0 ? -a : a; }
INLINE ushort __builtin_bswap16(ushort a) { return ushort(a << 8 | a >> 8); }
INLINE uint __builtin_bswap32(uint a) { return __byte_perm(a, 0, 0x0123); }
INLINE ulong __builtin_bswap64(ulong a) { return ulong(__builtin_bswap32(uint(a))) << 32 | __builtin_bswap32(uint(a >> 32)); }
INLINE float __builtin_fabsf(float a) { return ::fabsf(a); }
INLINE double __builtin_fabs(double a) { return ::fabs(a); }
INLINE float __builtin_sqrtf(float a) { return ::sqrtf(a); }
INLINE double __builtin_sqrt(double a) { return ::sqrt(a); }
INLINE float __builtin_fmaf(float a, float b, float c) { return ::fmaf(a, b, c); }
INLINE double __builtin_fma(double a, double b, double c) { return ::fma(a, b, c); }
INLINE float __builtin_fminf(float a, float b) { return ::fminf(a, b); }
INLINE float __builtin_fmaxf(float a, float b) { return ::fmaxf(a, b); }
INLINE float __builtin_floorf(float a) { return ::floorf(a); }
INLINE float __builtin_ceilf(float a) { return ::ceilf(a); }
INLINE float __builtin_copysignf(float a, float b) { return ::copysignf(a, b); }
INLINE float __builtin_huge_valf() { return __builtin_bit_cast(float, 0x7f800000); }
INLINE float __builtin_inff() { return __builtin_bit_cast(float, 0x7f800000); }
INLINE float __builtin_nanf(const char *) { return __builtin_bit_cast(float, 0x7fc00000); }
template <class T> INLINE int __builtin_isnan(T a) { return a != a; }
template <class T> INLINE void __builtin_prefetch(const T *, int = 0, int = 0) {}
INLINE void __builtin_trap() { __trap(); }
template <class T> INLINE void portatile_fill(T *to, int byte, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((uchar *)to)[i] = uchar(byte);
}
template <class T, class U> INLINE void portatile_copy(T *to, const U *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((uchar *)to)[i] = ((const uchar *)from)[i];
}
template <int... I, class T, int N> INLINE auto portatile_shufflevector(vec<T, N> a, vec<T, N> b) {
  return vec<T, sizeof...(I)>((I < N ? a[I & (N - 1)] : b[(I - N) & (N - 1)])...);
}
}  // namespace ocl
