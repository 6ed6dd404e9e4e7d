/* Functions of a whole sub-group (a warp) or work-group of OpenCL C 2 in CUDA C++: reductions, scans, broadcasts, votes.

   Every work-item of the group calls them. The last warp of a work-group may have fewer than 32. */
namespace ocl {
INLINE uint portatile_count() { return blockDim.x * blockDim.y * blockDim.z; }
INLINE uint get_max_sub_group_size() { return 32; }
INLINE uint get_sub_group_id() { return uint(get_local_linear_id()) / 32; }
INLINE uint get_sub_group_local_id() { return uint(get_local_linear_id()) & 31; }
INLINE uint get_num_sub_groups() { return (portatile_count() + 31) / 32; }
INLINE uint get_sub_group_size() { return ::min(32u, portatile_count() - get_sub_group_id() * 32); }
INLINE uint portatile_lanes() { return 0xffffffffu >> (32 - get_sub_group_size()); }
INLINE void sub_group_barrier(cl_mem_fence_flags, int = 0) { __syncwarp(portatile_lanes()); }

#define SHUFFLED(name, function, by) template <class T> INLINE T name(T x, uint by) { \
  if constexpr (oclt::shape<T>::width == 1) return function(portatile_lanes(), x, by); \
  else { T r; for (int i = 0; i < oclt::shape<T>::width; i++) r[i] = function(portatile_lanes(), x[i], by); return r; } }
SHUFFLED(sub_group_broadcast, __shfl_sync, lane) SHUFFLED(sub_group_shuffle, __shfl_sync, lane)
SHUFFLED(sub_group_shuffle_xor, __shfl_xor_sync, mask) SHUFFLED(sub_group_shuffle_up, __shfl_up_sync, d)
SHUFFLED(sub_group_shuffle_down, __shfl_down_sync, d)
template <class T> INLINE T intel_sub_group_shuffle(T x, uint lane) { return sub_group_shuffle(x, lane); }
template <class T> INLINE T intel_sub_group_shuffle_xor(T x, uint mask) { return sub_group_shuffle_xor(x, mask); }
template <class T> INLINE T intel_sub_group_shuffle_down(T x, T next, uint d) {
  T mine = sub_group_shuffle(x, get_sub_group_local_id() + d), other = sub_group_shuffle(next, get_sub_group_local_id() + d - get_sub_group_size());
  return get_sub_group_local_id() + d < get_sub_group_size() ? mine : other;
}
template <class T> INLINE T intel_sub_group_shuffle_up(T before, T x, uint d) {
  T mine = sub_group_shuffle(x, get_sub_group_local_id() - d), other = sub_group_shuffle(before, get_sub_group_local_id() - d + get_sub_group_size());
  return get_sub_group_local_id() >= d ? mine : other;
}
template <class T> INLINE T sub_group_rotate(T x, int d) { return sub_group_shuffle(x, (get_sub_group_local_id() + d) % get_sub_group_size()); }
template <class T> INLINE T sub_group_broadcast_first(T x) { return __shfl_sync(__activemask(), x, __ffs(int(__activemask())) - 1); }
template <class T> INLINE T sub_group_non_uniform_broadcast(T x, uint lane) { return __shfl_sync(__activemask(), x, lane); }
INLINE int sub_group_elect() { return get_sub_group_local_id() == uint(__ffs(int(__activemask())) - 1); }
INLINE int sub_group_non_uniform_all(int x) { return __all_sync(__activemask(), x); }
INLINE int sub_group_non_uniform_any(int x) { return __any_sync(__activemask(), x); }
// A ballot has a bit for each work-item; one of 32 fills the first component.
INLINE vec<uint, 4> sub_group_ballot(int x) { return vec<uint, 4>(__ballot_sync(__activemask(), x), 0u, 0u, 0u); }
INLINE uint portatile_below() { return (1u << get_sub_group_local_id()) - 1; }
INLINE int sub_group_ballot_bit_extract(vec<uint, 4> b, uint lane) { return b.x >> (lane & 31) & 1; }
INLINE int sub_group_inverse_ballot(vec<uint, 4> b) { return sub_group_ballot_bit_extract(b, get_sub_group_local_id()); }
INLINE uint sub_group_ballot_bit_count(vec<uint, 4> b) { return __popc(b.x); }
INLINE uint sub_group_ballot_exclusive_scan(vec<uint, 4> b) { return __popc(b.x & portatile_below()); }
INLINE uint sub_group_ballot_inclusive_scan(vec<uint, 4> b) { return sub_group_ballot_exclusive_scan(b) + sub_group_inverse_ballot(b); }
INLINE uint sub_group_ballot_find_lsb(vec<uint, 4> b) { return __ffs(int(b.x)) - 1; }
INLINE uint sub_group_ballot_find_msb(vec<uint, 4> b) { return 31 - __clz(int(b.x)); }
INLINE vec<uint, 4> portatile_ballot(uint mask) { return vec<uint, 4>(mask & portatile_lanes(), 0u, 0u, 0u); }
INLINE vec<uint, 4> get_sub_group_eq_mask() { return portatile_ballot(1u << get_sub_group_local_id()); }
INLINE vec<uint, 4> get_sub_group_lt_mask() { return portatile_ballot(portatile_below()); }
INLINE vec<uint, 4> get_sub_group_le_mask() { return portatile_ballot(portatile_below() * 2 + 1); }
INLINE vec<uint, 4> get_sub_group_ge_mask() { return portatile_ballot(~portatile_below()); }
INLINE vec<uint, 4> get_sub_group_gt_mask() { return portatile_ballot(~(portatile_below() * 2 + 1)); }
INLINE int sub_group_all(int x) { return __all_sync(portatile_lanes(), x); }
INLINE int sub_group_any(int x) { return __any_sync(portatile_lanes(), x); }

struct portatile_add { template <class T> static INLINE T of(T a, T b) { return T(a + b); } };
struct portatile_min { template <class T> static INLINE T of(T a, T b) { return min(a, b); } };
struct portatile_max { template <class T> static INLINE T of(T a, T b) { return max(a, b); } };

// Inclusive: lane i holds the elements 0 to i. The last lane's is the reduction.
template <class F, class T> INLINE T portatile_warp_scan(T x) {
  for (uint d = 1; d < 32; d *= 2) {
    T other = __shfl_up_sync(portatile_lanes(), x, d);
    if (get_sub_group_local_id() >= d) x = F::of(other, x);
  }
  return x;
}
template <class F, class T> INLINE T portatile_warp_exclusive(T x, T zero) {
  T before = __shfl_up_sync(portatile_lanes(), portatile_warp_scan<F>(x), 1);
  return get_sub_group_local_id() ? before : zero;
}
template <class F, class T> INLINE T portatile_warp_reduce(T x) {
  return __shfl_sync(portatile_lanes(), portatile_warp_scan<F>(x), get_sub_group_size() - 1);
}
// ``totals`` are those of the warps; a barrier before lets the one of the call before go, a barrier after shows them.
template <class F, class T> INLINE T portatile_group_scan(T x, T zero, bool exclusive, T &total) {
  __shared__ T totals[32];
  T inclusive = portatile_warp_scan<F>(x), mine = exclusive ? T(__shfl_up_sync(portatile_lanes(), inclusive, 1)) : inclusive;
  if (exclusive && get_sub_group_local_id() == 0) mine = zero;
  __syncthreads();
  if (get_sub_group_local_id() == get_sub_group_size() - 1) totals[get_sub_group_id()] = inclusive;
  __syncthreads();
  T before = zero;
  total = zero;
  for (uint w = 0; w < get_num_sub_groups(); w++) {
    if (w == get_sub_group_id()) before = total;
    total = F::of(total, totals[w]);
  }
  return F::of(before, mine);
}
// The value that changes nothing: 0, the greatest, the least of a type.
template <class F, class T> INLINE T portatile_zero() {
  constexpr bool least = equal<F, portatile_min>;
  if constexpr (equal<F, portatile_add>) return T(0);
  else if constexpr (equal<T, float>) return __uint_as_float(least ? 0x7f800000u : 0xff800000u);
  else if constexpr (equal<T, half>) return __builtin_bit_cast(T, ushort(least ? 0x7c00 : 0xfc00));
  else if constexpr (equal<T, double>) return __longlong_as_double(least ? 0x7ff0000000000000l : 0xfff0000000000000l);
  else return least ? limits<T>::highest() : limits<T>::lowest();
}
// Narrow integers and truth values count as int, as where functions of int are called.
template <class T> struct portatile_promoted { typedef T type; };
template <integer T> struct portatile_promoted<T> { typedef decltype(+T()) type; };
template <class T> using promoted = typename portatile_promoted<T>::type;
#define GROUP(op) \
  template <scalar A> INLINE auto sub_group_reduce_##op(A a) { typedef promoted<A> T; return portatile_warp_reduce<portatile_##op>(T(a)); } \
  template <scalar A> INLINE auto sub_group_scan_inclusive_##op(A a) { typedef promoted<A> T; return portatile_warp_scan<portatile_##op>(T(a)); } \
  template <scalar A> INLINE auto sub_group_scan_exclusive_##op(A a) { typedef promoted<A> T; \
    return portatile_warp_exclusive<portatile_##op>(T(a), portatile_zero<portatile_##op, T>()); } \
  template <scalar A> INLINE auto work_group_reduce_##op(A a) { typedef promoted<A> T; \
    T total; portatile_group_scan<portatile_##op>(T(a), portatile_zero<portatile_##op, T>(), false, total); return total; } \
  template <scalar A> INLINE auto work_group_scan_inclusive_##op(A a) { typedef promoted<A> T; \
    T total; return portatile_group_scan<portatile_##op>(T(a), portatile_zero<portatile_##op, T>(), false, total); } \
  template <scalar A> INLINE auto work_group_scan_exclusive_##op(A a) { typedef promoted<A> T; \
    T total; return portatile_group_scan<portatile_##op>(T(a), portatile_zero<portatile_##op, T>(), true, total); }
GROUP(add) GROUP(min) GROUP(max)
#define CLUSTERED(op, how) template <scalar A> INLINE auto sub_group_clustered_reduce_##op(A a, uint size) { \
  promoted<A> x = a; \
  for (uint d = 1; d < size; d *= 2) { promoted<A> y = __shfl_xor_sync(portatile_lanes(), x, d); x = how; } \
  return x; }
CLUSTERED(add, x + y) CLUSTERED(mul, x * y) CLUSTERED(min, min(x, y)) CLUSTERED(max, max(x, y)) CLUSTERED(and, x & y) CLUSTERED(or, x | y)
CLUSTERED(xor, x ^ y)
INLINE int work_group_all(int x) { return work_group_reduce_min(int(x != 0)); }
INLINE int work_group_any(int x) { return work_group_reduce_max(int(x != 0)); }
template <scalar T> INLINE T work_group_broadcast(T x, size_t at_x, size_t at_y = 0, size_t at_z = 0) {
  __shared__ T value;
  __syncthreads();
  if (threadIdx.x == at_x && threadIdx.y == at_y && threadIdx.z == at_z) value = x;
  __syncthreads();
  return value;
}
}  // namespace ocl
