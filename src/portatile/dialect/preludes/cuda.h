/* What the preprocessor knows before the kernel text when it is built for CUDA: the device switches of opencl.h,
   whose comment says what they do, and the macros that OpenCL C 1.2 defines. The functions behind them are in cuda_*.h. */
#define PORTATILE_CUDA 1
#define PORTATILE_NVIDIA 1
#define HAVE_SHUFFLE 1
#define HAVE_COPY_ASYNC 1
#define WARP_SIZE 32

#define LDG(p) portatile_ldg(p)
#define LDS(p) portatile_lds(p)
#define LOCAL_ADDRESS(p) portatile_local_address(p)
#define COPY_ASYNC_4(l, g) portatile_copy_async<4>(l, g)
#define COPY_ASYNC_8(l, g) portatile_copy_async<8>(l, g)
#define COPY_ASYNC_16(l, g) portatile_copy_async<16>(l, g)
#define COPY_ASYNC_4_IF(l, g, c) portatile_copy_async_if<4>(l, g, c)
#define COPY_ASYNC_8_IF(l, g, c) portatile_copy_async_if<8>(l, g, c)
#define COPY_ASYNC_16_IF(l, g, c) portatile_copy_async_if<16>(l, g, c)
#define COPY_ASYNC_COMMIT() portatile_copy_async_commit()
#define COPY_ASYNC_WAIT(n) portatile_copy_async_wait<(n)>()
#define SHUFFLE(x, lane) portatile_shuffle(x, lane)
#define SHUFFLE_XOR(x, mask) portatile_shuffle_xor(x, mask)
#define SHUFFLE_DOWN(x, d) portatile_shuffle_down(x, d)
#define SHUFFLE_UP(x, d) portatile_shuffle_up(x, d)
#define RSQRT_APPROX(x) portatile_rsqrt_approx(x)
#define WARP_BARRIER() portatile_warp_barrier()
#define WGMMA_WAIT(n) wgmma_wait<(n)>()
#define WARP_REGISTERS_LESS(n) warp_registers_less<(n)>()
#define WARP_REGISTERS_MORE(n) warp_registers_more<(n)>()
#define PORTATILE_LATER ""
#define WARP_GROUP_BARRIER(group) portatile_warp_group_barrier(group)
#define TENSOR_AT(map, place) (map)
#define AFTER_PREVIOUS() portatile_after_previous()
#define NEXT_MAY_START() portatile_next_may_start()
#define MIN_GROUPS(n) __attribute__((min_groups(n)))
#define CLUSTER(n) __attribute__((cluster_groups(n)))

#define __OPENCL_VERSION__ 120
#define __OPENCL_C_VERSION__ 120
#define CL_VERSION_1_0 100
#define CL_VERSION_1_1 110
#define CL_VERSION_1_2 120
#define __ENDIAN_LITTLE__ 1
#define __IMAGE_SUPPORT__ 1
#define __kernel_exec(X, typen) __kernel __attribute__((work_group_size_hint(X, 1, 1))) __attribute__((vec_type_hint(typen)))
#define kernel_exec(X, typen) __kernel_exec(X, typen)
#define FP_FAST_FMA 1
#define FP_FAST_FMAF 1
#define cl_khr_fp64 1
#define cl_khr_fp16 1
#define cl_khr_byte_addressable_store 1
#define cl_khr_global_int32_base_atomics 1
#define cl_khr_global_int32_extended_atomics 1
#define cl_khr_local_int32_base_atomics 1
#define cl_khr_local_int32_extended_atomics 1
#define cl_khr_int64_base_atomics 1
#define cl_khr_int64_extended_atomics 1
#define cl_khr_subgroups 1
#define cl_khr_subgroup_ballot 1
#define cl_khr_subgroup_clustered_reduce 1
#define cl_khr_subgroup_rotate 1
#define cl_khr_subgroup_shuffle 1
#define cl_khr_subgroup_shuffle_relative 1
#define cl_nv_pragma_unroll 1

#define ATOMIC_VAR_INIT(x) (x)
#define ATOMIC_FLAG_INIT 0

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define CLK_IMAGE_MEM_FENCE 4
#define CLK_NORMALIZED_COORDS_FALSE 0
#define CLK_NORMALIZED_COORDS_TRUE 1
#define CLK_ADDRESS_NONE 0
#define CLK_ADDRESS_CLAMP_TO_EDGE 2
#define CLK_ADDRESS_CLAMP 4
#define CLK_ADDRESS_REPEAT 6
#define CLK_ADDRESS_MIRRORED_REPEAT 8
#define CLK_FILTER_NEAREST 0
#define CLK_FILTER_LINEAR 16
#define CLK_R 0x10B0
#define CLK_A 0x10B1
#define CLK_RG 0x10B2
#define CLK_RA 0x10B3
#define CLK_RGB 0x10B4
#define CLK_RGBA 0x10B5
#define CLK_BGRA 0x10B6
#define CLK_ARGB 0x10B7
#define CLK_INTENSITY 0x10B8
#define CLK_LUMINANCE 0x10B9
#define CLK_SNORM_INT8 0x10D0
#define CLK_SNORM_INT16 0x10D1
#define CLK_UNORM_INT8 0x10D2
#define CLK_UNORM_INT16 0x10D3
#define CLK_UNORM_SHORT_565 0x10D4
#define CLK_UNORM_SHORT_555 0x10D5
#define CLK_UNORM_INT_101010 0x10D6
#define CLK_SIGNED_INT8 0x10D7
#define CLK_SIGNED_INT16 0x10D8
#define CLK_SIGNED_INT32 0x10D9
#define CLK_UNSIGNED_INT8 0x10DA
#define CLK_UNSIGNED_INT16 0x10DB
#define CLK_UNSIGNED_INT32 0x10DC
#define CLK_HALF_FLOAT 0x10DD
#define CLK_FLOAT 0x10DE

#define NULL 0
#define true 1
#define false 0
#define MAXFLOAT 0x1.fffffep127f
#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000)
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000l)
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 0xffffffffu
#define LONG_MAX 0x7fffffffffffffffl
#define LONG_MIN (-0x7fffffffffffffffl - 1)
#define ULONG_MAX 0xfffffffffffffffful
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX_10_EXP 308
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MIN_EXP (-1021)
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1.0p-1022
#define DBL_EPSILON 0x1.0p-52
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX 65504.0f
#define HALF_MIN 0x1.0p-14f
#define HALF_EPSILON 0x1.0p-10f
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN (-2147483647 - 1)
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
