/* Atomic types and functions of OpenCL C 2 in CUDA C++: orders and scopes are fences around the functions of OpenCL C 1. */
namespace ocl {
typedef int atomic_int;
typedef uint atomic_uint;
typedef long atomic_long;
typedef ulong atomic_ulong;
typedef float atomic_float;
typedef double atomic_double;
typedef size_t atomic_size_t;
typedef ptrdiff_t atomic_ptrdiff_t;
typedef intptr_t atomic_intptr_t;
typedef uintptr_t atomic_uintptr_t;
typedef int atomic_flag;
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum memory_scope {
  memory_scope_work_item, memory_scope_sub_group, memory_scope_work_group, memory_scope_device, memory_scope_all_svm_devices,
  memory_scope_all_devices = memory_scope_all_svm_devices
};
INLINE void portatile_fence(memory_scope scope) {
  if (scope <= memory_scope_work_group) __threadfence_block();
  else if (scope == memory_scope_device) __threadfence();
  else __threadfence_system();
}
INLINE void portatile_before(memory_order order, memory_scope scope) { if (order >= memory_order_release) portatile_fence(scope); }
INLINE void portatile_behind(memory_order order, memory_scope scope) {
  if (order != memory_order_relaxed && order != memory_order_release) portatile_fence(scope);
}
INLINE void atomic_work_item_fence(cl_mem_fence_flags, memory_order order, memory_scope scope) {
  if (order != memory_order_relaxed) portatile_fence(scope);
}
INLINE void work_group_barrier(cl_mem_fence_flags, memory_scope) { __syncthreads(); }

#define ORDERED memory_order order = memory_order_seq_cst, memory_scope scope = memory_scope_device
#define READING(name, call) \
  template <class T> INLINE T name##_explicit(volatile T *p, same_t<T> v, ORDERED) { \
    portatile_before(order, scope); T old = call; portatile_behind(order, scope); return old; } \
  template <class T> INLINE T name(volatile T *p, same_t<T> v) { return name##_explicit(p, v); }
READING(atomic_fetch_add, atomic_add(p, v)) READING(atomic_fetch_sub, atomic_sub(p, v)) READING(atomic_fetch_or, atomic_or(p, v))
READING(atomic_fetch_xor, atomic_xor(p, v)) READING(atomic_fetch_and, atomic_and(p, v)) READING(atomic_fetch_min, atomic_min(p, v))
READING(atomic_fetch_max, atomic_max(p, v)) READING(atomic_exchange, atomic_xchg(p, v))
template <class T> INLINE void atomic_init(volatile T *p, same_t<T> v) { *p = v; }
template <class T> INLINE T atomic_load_explicit(const volatile T *p, ORDERED) {
  if (order == memory_order_seq_cst) portatile_fence(scope);
  T v = *p;
  portatile_behind(order, scope);
  return v;
}
template <class T> INLINE T atomic_load(const volatile T *p) { return atomic_load_explicit(p); }
template <class T> INLINE void atomic_store_explicit(volatile T *p, same_t<T> v, ORDERED) {
  portatile_before(order, scope);
  *p = v;
  if (order == memory_order_seq_cst) portatile_fence(scope);
}
template <class T> INLINE void atomic_store(volatile T *p, same_t<T> v) { atomic_store_explicit(p, v); }
template <class T> INLINE bool atomic_compare_exchange_strong_explicit(
  volatile T *p, same_t<T> *expected, same_t<T> v, memory_order order = memory_order_seq_cst, memory_order = memory_order_seq_cst,
  memory_scope scope = memory_scope_device) {
  typedef atomic_bits<T> B;
  B wanted = __builtin_bit_cast(B, *expected);
  portatile_before(order, scope);
  B found = ::atomicCAS((B *)p, wanted, __builtin_bit_cast(B, T(v)));
  portatile_behind(order, scope);
  *expected = __builtin_bit_cast(T, found);
  return found == wanted;
}
#define EXCHANGING(name) \
  template <class T, class... A> INLINE bool name(volatile T *p, same_t<T> *expected, same_t<T> v, A... a) { \
    return atomic_compare_exchange_strong_explicit(p, expected, v, a...); }
EXCHANGING(atomic_compare_exchange_strong) EXCHANGING(atomic_compare_exchange_weak) EXCHANGING(atomic_compare_exchange_weak_explicit)
INLINE bool atomic_flag_test_and_set_explicit(volatile atomic_flag *p, ORDERED) { return atomic_exchange_explicit(p, 1, order, scope); }
INLINE bool atomic_flag_test_and_set(volatile atomic_flag *p) { return atomic_flag_test_and_set_explicit(p); }
INLINE void atomic_flag_clear_explicit(volatile atomic_flag *p, ORDERED) { atomic_store_explicit(p, 0, order, scope); }
INLINE void atomic_flag_clear(volatile atomic_flag *p) { atomic_flag_clear_explicit(p); }
}  // namespace ocl
