/* printf of OpenCL C in CUDA C++: the translation writes %v4f as %f,%f,%f,%f, and here the vectors become their components. */
namespace ocl {
template <class K> INLINE int portatile_spread(K k) { return k(); }
template <class K, class A, class... R> INLINE int portatile_spread(K k, A a, R... rest) {
  if constexpr (shape<A>::width == 1) return portatile_spread([=](auto... more) { return k(a, more...); }, rest...);
  else if constexpr (shape<A>::width == 2) return portatile_spread([=](auto... more) { return k(a.x, a.y, more...); }, rest...);
  else if constexpr (shape<A>::width == 3) return portatile_spread([=](auto... more) { return k(a.x, a.y, a.z, more...); }, rest...);
  else return portatile_spread([=](auto... more) { return k(a.lo(), a.hi(), more...); }, rest...);
}
INLINE int portatile_print(const char *format) { return ::printf(format); }
template <class... A> INLINE int portatile_print(const char *format, A... a) {
  if constexpr (((shape<A>::width > 1) || ...)) return portatile_spread([=](auto... each) { return portatile_print(format, each...); }, a...);
  else return ::printf(format, a...);
}
template <class... A> INLINE int printf(const char *format, A... a) { return portatile_print(format, a...); }
}  // namespace ocl
