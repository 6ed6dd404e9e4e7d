/* Work-items, barriers, atomic functions, copies between work-groups' memory and the device switches of OpenCL C in CUDA C++. */
namespace ocl {
using namespace oclt;
extern __shared__ __align__(128) unsigned char portatile_shared[];

// A __local argument: its byte offset in dynamic shared memory, which becomes a pointer of whatever type the kernel declares.
struct portatile_local {
  uint offset;
  template <class T> INLINE operator T *() const { return (T *)(portatile_shared + offset); }
};

typedef uint cl_mem_fence_flags;
#define DIMENSION(name, at_x, at_y, at_z, elsewhere) \
  INLINE size_t name(uint d) { return d == 0 ? size_t(at_x) : d == 1 ? size_t(at_y) : d == 2 ? size_t(at_z) : size_t(elsewhere); }
DIMENSION(get_local_id, threadIdx.x, threadIdx.y, threadIdx.z, 0)
DIMENSION(get_local_size, blockDim.x, blockDim.y, blockDim.z, 1)
DIMENSION(get_enqueued_local_size, blockDim.x, blockDim.y, blockDim.z, 1)
DIMENSION(get_group_id, blockIdx.x, blockIdx.y, blockIdx.z, 0)
DIMENSION(get_num_groups, gridDim.x, gridDim.y, gridDim.z, 1)
DIMENSION(get_global_id, size_t(blockIdx.x) * blockDim.x + threadIdx.x, size_t(blockIdx.y) * blockDim.y + threadIdx.y,
          size_t(blockIdx.z) * blockDim.z + threadIdx.z, 0)
DIMENSION(get_global_size, size_t(gridDim.x) * blockDim.x, size_t(gridDim.y) * blockDim.y, size_t(gridDim.z) * blockDim.z, 1)
INLINE size_t get_global_offset(uint) { return 0; }
INLINE size_t get_local_linear_id() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
INLINE size_t get_global_linear_id() {
  return (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
}
INLINE uint get_work_dim() { return get_global_size(2) > 1 ? 3 : get_global_size(1) > 1 ? 2 : 1; }

INLINE void barrier(cl_mem_fence_flags) { __syncthreads(); }
INLINE void work_group_barrier(cl_mem_fence_flags) { __syncthreads(); }
INLINE void mem_fence(cl_mem_fence_flags flags) { if (flags & 2) __threadfence(); else __threadfence_block(); }
INLINE void read_mem_fence(cl_mem_fence_flags flags) { mem_fence(flags); }
INLINE void write_mem_fence(cl_mem_fence_flags flags) { mem_fence(flags); }

// Where a pointer points, in OpenCL C 2.
template <class T> INLINE T *to_global(T *p) { return __isGlobal(p) ? p : nullptr; }
template <class T> INLINE T *to_local(T *p) { return __isShared(p) ? p : nullptr; }
template <class T> INLINE T *to_private(T *p) { return __isLocal(p) ? p : nullptr; }
template <class T> INLINE cl_mem_fence_flags get_fence(T *p) { return __isShared(p) ? 1 : __isGlobal(p) ? 2 : 0; }

// CUDA's atomic functions know unsigned 64-bit integers only as unsigned long long.
template <class T> struct atomic_type { typedef T type; };
template <> struct atomic_type<long> { typedef long long type; };
template <> struct atomic_type<ulong> { typedef unsigned long long type; };
template <class T> using atomic_t = typename atomic_type<T>::type;
template <class T> using atomic_bits = atomic_t<uint_of<T>>;
#define ATOMIC(name, function, kind) \
  template <class T> INLINE T atomic_##name(volatile T *p, same_t<T> v) { return T(function((kind<T> *)p, kind<T>(v))); } \
  template <class T> INLINE T atom_##name(volatile T *p, same_t<T> v) { return T(function((kind<T> *)p, kind<T>(v))); }
template <class T> INLINE T atomic_add(volatile T *p, same_t<T> v) {
  if constexpr (sizeof(T) == 8 && kind<T>::rank == 1) return T(::atomicAdd((unsigned long long *)p, (unsigned long long)v));
  else return T(::atomicAdd((T *)p, v));
}
template <class T> INLINE T atomic_sub(volatile T *p, same_t<T> v) { return atomic_add(p, T(-v)); }
template <class T> INLINE T atomic_inc(volatile T *p) { return atomic_add(p, T(1)); }
template <class T> INLINE T atomic_dec(volatile T *p) { return atomic_add(p, T(-1)); }
template <class T> INLINE T atomic_xchg(volatile T *p, same_t<T> v) {
  typedef atomic_bits<T> B;
  return __builtin_bit_cast(T, ::atomicExch((B *)p, __builtin_bit_cast(B, v)));
}
template <class T> INLINE T atomic_cmpxchg(volatile T *p, same_t<T> compare, same_t<T> v) {
  typedef atomic_bits<T> B;
  return T(::atomicCAS((B *)p, B(compare), B(v)));
}
ATOMIC(min, ::atomicMin, atomic_t)
ATOMIC(max, ::atomicMax, atomic_t)
ATOMIC(and, ::atomicAnd, atomic_bits)
ATOMIC(or, ::atomicOr, atomic_bits)
ATOMIC(xor, ::atomicXor, atomic_bits)
template <class T> INLINE T atom_add(volatile T *p, same_t<T> v) { return atomic_add(p, v); }
template <class T> INLINE T atom_sub(volatile T *p, same_t<T> v) { return atomic_sub(p, v); }
template <class T> INLINE T atom_inc(volatile T *p) { return atomic_inc(p); }
template <class T> INLINE T atom_dec(volatile T *p) { return atomic_dec(p); }
template <class T> INLINE T atom_xchg(volatile T *p, same_t<T> v) { return atomic_xchg(p, v); }
template <class T> INLINE T atom_cmpxchg(volatile T *p, same_t<T> c, same_t<T> v) { return atomic_cmpxchg(p, c, v); }

// Every work-item copies its share; the barrier in wait_group_events makes the copy visible.
typedef int event_t;
template <class T> INLINE event_t async_work_group_strided(T *to, const T *from, size_t n, size_t to_stride, size_t from_stride, event_t e) {
  size_t step = size_t(blockDim.x) * blockDim.y * blockDim.z;
  for (size_t i = get_local_linear_id(); i < n; i += step) to[i * to_stride] = from[i * from_stride];
  return e;
}
template <class T> INLINE event_t async_work_group_copy(T *to, const T *from, size_t n, event_t e) {
  return async_work_group_strided(to, from, n, 1, 1, e);
}
// The strided side is the global one: the source where the target is shared memory.
template <class T> INLINE event_t async_work_group_strided_copy(T *to, const T *from, size_t n, size_t stride, event_t e) {
  return __isShared(to) ? async_work_group_strided(to, from, n, 1, stride, e) : async_work_group_strided(to, from, n, stride, 1, e);
}
INLINE void wait_group_events(int, event_t *) { __syncthreads(); }
template <class T> INLINE void prefetch(const T *, size_t) {}

INLINE void portatile_after_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
INLINE void portatile_next_may_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
INLINE uint portatile_local_address(const volatile void *p) { return uint(__cvta_generic_to_shared((const void *)p)); }

// The read-only and the ordered loads move 4, 8 or 16 bytes, whatever their type; registers are of the kind that the type will use.
struct portatile_float2 { float x, y; };
struct portatile_float4 { float x, y, z, w; };
struct portatile_double2 { double x, y; };
#define LOADER(name, space, volatility, A, letter, clobber) \
template <class T> INLINE T name(const T *p) { \
  A a = A(__cvta_generic_to_##space((const void *)p)); \
  if constexpr (sizeof(T) == 4) { \
    float r; \
    asm volatility("ld." PATH ".f32 %0, [%1];" : "=f"(r) : letter(a) : clobber); \
    return __builtin_bit_cast(T, r); \
  } else if constexpr (sizeof(T) == 8 && sizeof(element<T>) == 8) { \
    double r; \
    asm volatility("ld." PATH ".f64 %0, [%1];" : "=d"(r) : letter(a) : clobber); \
    return __builtin_bit_cast(T, r); \
  } else if constexpr (sizeof(T) == 8) { \
    portatile_float2 r; \
    asm volatility("ld." PATH ".v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : letter(a) : clobber); \
    return __builtin_bit_cast(T, r); \
  } else if constexpr (sizeof(element<T>) == 8) { \
    static_assert(sizeof(T) == 16, "LDG and LDS load 4, 8 or 16 bytes"); \
    portatile_double2 r; \
    asm volatility("ld." PATH ".v2.f64 {%0, %1}, [%2];" : "=d"(r.x), "=d"(r.y) : letter(a) : clobber); \
    return __builtin_bit_cast(T, r); \
  } else { \
    static_assert(sizeof(T) == 16, "LDG and LDS load 4, 8 or 16 bytes"); \
    portatile_float4 r; \
    asm volatility("ld." PATH ".v4.f32 {%0, %1, %2, %3}, [%4];" \
                   : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w) : letter(a) : clobber); \
    return __builtin_bit_cast(T, r); \
  } \
}
#define PATH "global.nc"
LOADER(portatile_ldg, global, , size_t, "l", )
#undef PATH
#define PATH "shared"
LOADER(portatile_lds, shared, volatile, uint, "r", "memory")

template <int bytes> struct portatile_bytes { typedef vec<uint, bytes / 4> type; };
template <> struct portatile_bytes<4> { typedef uint type; };
template <int bytes> INLINE void portatile_copy_async_if(volatile void *to, const volatile void *from, bool whether) {
#if __CUDA_ARCH__ >= 800
  size_t source = __cvta_generic_to_global((const void *)from);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(portatile_local_address(to)), "l"(source), "r"(whether ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(portatile_local_address(to)), "l"(source), "n"(bytes), "r"(whether ? bytes : 0) : "memory");
#else
  typedef typename portatile_bytes<bytes>::type T;
  if (whether) *(T *)to = *(const T *)from; else *(T *)to = T(0);
#endif
}
template <int bytes> INLINE void portatile_copy_async(volatile void *to, const volatile void *from) {
#if __CUDA_ARCH__ >= 800
  size_t source = __cvta_generic_to_global((const void *)from);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(portatile_local_address(to)), "l"(source) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(portatile_local_address(to)), "l"(source), "n"(bytes) : "memory");
#else
  typedef typename portatile_bytes<bytes>::type T;
  *(T *)to = *(const T *)from;
#endif
}
INLINE void portatile_copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int n> INLINE void portatile_copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory");
#endif
}
template <class T> INLINE T portatile_shuffle(T x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
template <class T> INLINE T portatile_shuffle_xor(T x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
template <class T> INLINE T portatile_shuffle_down(T x, uint d) { return __shfl_down_sync(0xffffffffu, x, d); }
template <class T> INLINE T portatile_shuffle_up(T x, uint d) { return __shfl_up_sync(0xffffffffu, x, d); }
INLINE float portatile_rsqrt_approx(float x) { float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
}  // namespace ocl
