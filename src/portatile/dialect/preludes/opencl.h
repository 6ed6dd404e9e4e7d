/* The device switches that one kernel text may use, as OpenCL C. cuda.h defines the same names for CUDA.

   A switch that a device lacks is not defined, so that #if and #ifdef both work.

   PORTATILE_OPENCL, PORTATILE_CUDA      1 in the back end of that name
   PORTATILE_NVIDIA                      1 in both back ends on NVIDIA devices: inline PTX may be used
   HAVE_COPY_ASYNC                       1 where COPY_ASYNC_* run beside the arithmetic; elsewhere they are plain copies
   HAVE_SHUFFLE, WARP_SIZE               1 and the lanes of a warp, where SHUFFLE* exist

   LDG(p)                                *p through the read-only path; p points to __global memory that no work-item writes
                                         (32, 64 and 128-bit scalars and vectors of int, uint, float, double)
   LDS(p)                                *p from __local memory, in program order (the compiler does not move it); the same types
   LOCAL_ADDRESS(p)                      NVIDIA: the 32-bit shared-space address of a __local pointer, for inline PTX ("r")
   COPY_ASYNC_4(l, g), _8, _16           start a copy of 4, 8 or 16 bytes from __global g to __local l; both aligned to that size
   COPY_ASYNC_4_IF(l, g, c), _8_IF, _16_IF    the same where c is true, zeros to l elsewhere (g is then not read)
   COPY_ASYNC_COMMIT()                   close the group of copies started since the last commit
   COPY_ASYNC_WAIT(n)                    wait until at most n (a literal) of the newest groups are under way; a barrier must follow
   SHUFFLE(x, lane)                      x of that lane of the warp; int, uint, float, double; every lane takes part
   SHUFFLE_XOR(x, mask), SHUFFLE_DOWN(x, d), SHUFFLE_UP(x, d)    x of lane ^ mask, lane + d, lane - d
   RSQRT_APPROX(x)                       1/sqrt(x) of a float as fast as the device can, denormals taken as zero
   MIN_GROUPS(n)                         before a kernel with reqd_work_group_size: keep registers low enough for n work-groups
                                         on one multiprocessor (CUDA only)
   CLUSTER(n)                            before a kernel with reqd_work_group_size: n neighbouring groups run on neighbouring
                                         multiprocessors at the same time (CUDA only, from compute capability 9.0)
   AFTER_PREVIOUS()                      in a kernel of a text with the option -portatile-early-start, which CUDA may start, from compute
                                         capability 9.0 on, before the kernel queued before it has ended: every work-item waits here until
                                         it has, before any reads or writes global memory
   NEXT_MAY_START()                      such a kernel behind this one may start, as far as its AFTER_PREVIOUS
   PORTATILE_SM                          may be set by the host: the compute capability, 90 for 9.0 (assumed: 80 or more)
*/
#define PORTATILE_OPENCL 1

#if defined(__NV_CL_C_VERSION) || defined(cl_nv_pragma_unroll)
#define PORTATILE_NVIDIA 1
#endif

#define AFTER_PREVIOUS()
#define NEXT_MAY_START()
#define MIN_GROUPS(n)
#define CLUSTER(n)

#ifdef PORTATILE_NVIDIA

#define HAVE_SHUFFLE 1
#define WARP_SIZE 32
#define LOCAL_ADDRESS(p) ((uint)(size_t)(p))

#define PORTATILE_LOADERS(T, T2, bits, letter) \
  static inline T __attribute__((overloadable)) portatile_ldg(const __global T *p) { \
    T v; asm("ld.global.nc." bits " %0, [%1];" : "=" letter(v) : "l"(p)); return v; } \
  static inline T2 __attribute__((overloadable)) portatile_ldg(const __global T2 *p) { \
    T2 v; asm("ld.global.nc.v2." bits " {%0, %1}, [%2];" : "=" letter(v.x), "=" letter(v.y) : "l"(p)); return v; } \
  static inline T __attribute__((overloadable)) portatile_lds(const __local T *p) { \
    T v; asm volatile("ld.shared." bits " %0, [%1];" : "=" letter(v) : "r"((uint)(size_t)p) : "memory"); return v; } \
  static inline T2 __attribute__((overloadable)) portatile_lds(const __local T2 *p) { \
    T2 v; asm volatile("ld.shared.v2." bits " {%0, %1}, [%2];" \
                       : "=" letter(v.x), "=" letter(v.y) : "r"((uint)(size_t)p) : "memory"); return v; }
#define PORTATILE_LOADERS_4(T4, bits, letter) \
  static inline T4 __attribute__((overloadable)) portatile_ldg(const __global T4 *p) { \
    T4 v; asm("ld.global.nc.v4." bits " {%0, %1, %2, %3}, [%4];" \
              : "=" letter(v.x), "=" letter(v.y), "=" letter(v.z), "=" letter(v.w) : "l"(p)); return v; } \
  static inline T4 __attribute__((overloadable)) portatile_lds(const __local T4 *p) { \
    T4 v; asm volatile("ld.shared.v4." bits " {%0, %1, %2, %3}, [%4];" \
                       : "=" letter(v.x), "=" letter(v.y), "=" letter(v.z), "=" letter(v.w) : "r"((uint)(size_t)p) : "memory"); return v; }
PORTATILE_LOADERS(float, float2, "f32", "f")
PORTATILE_LOADERS(double, double2, "f64", "d")
PORTATILE_LOADERS(int, int2, "s32", "r")
PORTATILE_LOADERS(uint, uint2, "u32", "r")
PORTATILE_LOADERS_4(float4, "f32", "f")
PORTATILE_LOADERS_4(int4, "s32", "r")
PORTATILE_LOADERS_4(uint4, "u32", "r")
#undef PORTATILE_LOADERS
#undef PORTATILE_LOADERS_4
#define LDG(p) portatile_ldg(p)
#define LDS(p) portatile_lds(p)

#define PORTATILE_SHUFFLES(name, mode, clamp) \
  static inline uint __attribute__((overloadable)) name(uint x, uint lane) { \
    uint v; asm volatile("shfl.sync." mode ".b32 %0, %1, %2, " clamp ", 0xffffffff;" : "=r"(v) : "r"(x), "r"(lane)); return v; } \
  static inline int __attribute__((overloadable)) name(int x, uint lane) { return as_int(name(as_uint(x), lane)); } \
  static inline float __attribute__((overloadable)) name(float x, uint lane) { return as_float(name(as_uint(x), lane)); } \
  static inline double __attribute__((overloadable)) name(double x, uint lane) { \
    uint2 h = as_uint2(x); return as_double((uint2)(name(h.x, lane), name(h.y, lane))); }
PORTATILE_SHUFFLES(portatile_shuffle, "idx", "0x1f")
PORTATILE_SHUFFLES(portatile_shuffle_xor, "bfly", "0x1f")
PORTATILE_SHUFFLES(portatile_shuffle_down, "down", "0x1f")
PORTATILE_SHUFFLES(portatile_shuffle_up, "up", "0x0")
#undef PORTATILE_SHUFFLES
#define SHUFFLE(x, lane) portatile_shuffle(x, (uint)(lane))
#define SHUFFLE_XOR(x, mask) portatile_shuffle_xor(x, (uint)(mask))
#define SHUFFLE_DOWN(x, d) portatile_shuffle_down(x, (uint)(d))
#define SHUFFLE_UP(x, d) portatile_shuffle_up(x, (uint)(d))

static inline float portatile_rsqrt_approx(float x) { float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#define RSQRT_APPROX(x) portatile_rsqrt_approx(x)

#if !defined(PORTATILE_SM) || PORTATILE_SM >= 80
#define HAVE_COPY_ASYNC 1
#define PORTATILE_COPY(size, mode, l, g) \
  asm volatile("cp.async." mode ".shared.global [%0], [%1], " size ";" :: "r"((uint)(size_t)(l)), "l"(g) : "memory")
#define PORTATILE_COPY_IF(size, bytes, mode, l, g, c) \
  asm volatile("cp.async." mode ".shared.global [%0], [%1], " size ", %2;" \
               :: "r"((uint)(size_t)(l)), "l"(g), "r"((c) ? bytes : 0) : "memory")
#define COPY_ASYNC_4(l, g) PORTATILE_COPY("4", "ca", l, g)
#define COPY_ASYNC_8(l, g) PORTATILE_COPY("8", "ca", l, g)
#define COPY_ASYNC_16(l, g) PORTATILE_COPY("16", "cg", l, g)
#define COPY_ASYNC_4_IF(l, g, c) PORTATILE_COPY_IF("4", 4, "ca", l, g, c)
#define COPY_ASYNC_8_IF(l, g, c) PORTATILE_COPY_IF("8", 8, "ca", l, g, c)
#define COPY_ASYNC_16_IF(l, g, c) PORTATILE_COPY_IF("16", 16, "cg", l, g, c)
#define COPY_ASYNC_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPY_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#endif

#else

#define LDG(p) (*(p))
#define LDS(p) (*(p))
#define RSQRT_APPROX(x) native_rsqrt(x)

#endif

#ifndef HAVE_COPY_ASYNC
#define PORTATILE_COPY(T, l, g) (*(__local T *)(l) = *(const __global T *)(g))
#define PORTATILE_COPY_IF(T, l, g, c) do { if (c) PORTATILE_COPY(T, l, g); else *(__local T *)(l) = (T)(0); } while (0)
#define COPY_ASYNC_4(l, g) PORTATILE_COPY(uint, l, g)
#define COPY_ASYNC_8(l, g) PORTATILE_COPY(uint2, l, g)
#define COPY_ASYNC_16(l, g) PORTATILE_COPY(uint4, l, g)
#define COPY_ASYNC_4_IF(l, g, c) PORTATILE_COPY_IF(uint, l, g, c)
#define COPY_ASYNC_8_IF(l, g, c) PORTATILE_COPY_IF(uint2, l, g, c)
#define COPY_ASYNC_16_IF(l, g, c) PORTATILE_COPY_IF(uint4, l, g, c)
#define COPY_ASYNC_COMMIT() do { } while (0)
#define COPY_ASYNC_WAIT(n) do { } while (0)
#endif
