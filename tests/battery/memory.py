"""Address spaces: local variables and arguments, constants, pointers to helper functions, structures."""

from __future__ import annotations

import numpy as np
from battery.case import Case, In, Local, Out, floats, integers

_A = floats(64)
_I = integers(64)
_R = np.arange(64)

CASES: list[Case] = [
    Case("local_array", "__kernel void k(__global const float *a, __global float *o) { __local float t[64]; int i = get_local_id(0);"
         " t[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); o[i] = t[63 - i]; }", (In(_A), Out(_A[::-1].copy())), (64, 1, 1), (64, 1, 1)),
    Case("local_2d_padded", "#define T 8\n__kernel __attribute__((reqd_work_group_size(T, T, 1))) void k(__global const float *a, __global float *o) {\n"
         " __local float t[T][T + 1]; int x = get_local_id(0), y = get_local_id(1); t[y][x] = a[y * T + x];\n"
         " barrier(CLK_LOCAL_MEM_FENCE); o[y * T + x] = t[x][y]; }", (In(_A), Out(_A.reshape(8, 8).T.copy().reshape(-1))), (8, 8, 1), (8, 8, 1)),
    Case("local_scalar", "__kernel void k(__global int *o) { __local int n, m; if (get_local_id(0) == 0) { n = 5; m = get_group_id(0); }"
         " barrier(CLK_LOCAL_MEM_FENCE); o[get_global_id(0)] = n + m; }", (Out((5 + _R // 16).astype(np.int32)),), (64, 1, 1), (16, 1, 1)),
    Case("local_vectors", "__kernel void k(__global const float4 *a, __global float4 *o) { __local float4 t[16]; int i = get_local_id(0);"
         " t[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); o[i] = t[15 - i]; }", (In(_A), Out(_A.reshape(16, 4)[::-1].copy().reshape(-1))), (16, 1, 1), (16, 1, 1)),
    Case("local_cast", "__kernel void k(__global const float4 *a, __global float *o) { __local float t[64]; int i = get_local_id(0);"
         " ((__local float4 *)t)[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); __local const float *p = &t[4 * i];\n"
         " for (int j = 0; j < 4; j++, p++) o[j * 16 + i] = *p; }", (In(_A), Out(_A.reshape(16, 4).T.copy().reshape(-1))), (16, 1, 1), (16, 1, 1)),
    Case("local_arguments", "__kernel void k(__global const float *a, __local float *s, __global float *o, __local double *d, __local char *c) {"
         " int i = get_local_id(0); s[i] = a[i]; d[i] = 2.0 * a[i]; c[i] = i; barrier(CLK_LOCAL_MEM_FENCE);"
         " o[i] = s[31 - i] + d[(i + 1) & 31] + c[i ^ 1]; }",
         (In(_A), Local(32 * 4 + 4), Out((_A[:32][::-1] + 2.0 * np.roll(_A[:32], -1) + (np.arange(32) ^ 1)).astype(np.float32), tolerance=1e-6, floor=1e-6),
          Local(32 * 8), Local(32))),
    Case("local_argument_vectors", "__kernel void k(__global const float *a, __global float *o, __local float4 *s) { int i = get_local_id(0);"
         " __local float *f = (__local float *)s; f[2 * i] = a[2 * i]; f[2 * i + 1] = a[2 * i + 1]; barrier(CLK_LOCAL_MEM_FENCE);"
         " if (i < 16) { float4 v = s[15 - i]; vstore4(v, i, o); } }", (In(_A), Out(_A.reshape(16, 4)[::-1].copy().reshape(-1)), Local(256))),
    Case("local_array_argument", "__kernel void k(__global const float *a, __global float *o, __local float (*t)[17]) { int x = get_local_id(0), y = get_local_id(1);"
         " t[y][x] = a[y * 16 + x]; barrier(CLK_LOCAL_MEM_FENCE); o[y * 16 + x] = t[y ^ 1][15 - x]; }",
         (In(_A), Out(_A.reshape(4, 16)[[1, 0, 3, 2], ::-1].copy().reshape(-1)), Local(4 * 17 * 4)), (16, 4, 1), (16, 4, 1)),
    Case("local_struct", "typedef struct { float v; int i; } pair;\n__kernel void k(__global const float *a, __global float *o) { __local pair t[32];"
         " int i = get_local_id(0); t[i].v = a[i]; t[i].i = i; barrier(CLK_LOCAL_MEM_FENCE); pair p = t[31 - i]; o[i] = p.v + p.i; }",
         (In(_A), Out(_A[:32][::-1] + np.arange(31, -1, -1, dtype=np.float32), tolerance=1e-6, floor=1e-6))),
    Case("local_in_two_kernels", "__kernel void other(__global float *o) { __local float t[8]; t[get_local_id(0)] = 1; barrier(1); o[0] = t[1]; }\n"
         "__kernel void k(__global const float *a, __global float *o) { __local float t[32]; int i = get_local_id(0); t[i] = a[i];"
         " barrier(CLK_LOCAL_MEM_FENCE); o[i] = t[i ^ 3]; }", (In(_A), Out(_A[np.arange(32) ^ 3]))),
    Case("constant_table", "__constant float c[4] = {1.5f, -2.0f, 3.25f, 8};\n__constant int n = 3;\n"
         "__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); o[i] = a[i] * c[i & n]; }",
         (In(_A), Out(_A[:32] * np.tile(np.array([1.5, -2, 3.25, 8], np.float32), 8)))),
    Case("constant_2d", "constant const int c[2][3] = {{1, 2, 3}, {4, 5, 6}};\n__kernel void k(global int *o) { int i = get_global_id(0); o[i] = c[i & 1][i % 3]; }",
         (Out(np.array([[1, 2, 3], [4, 5, 6]], np.int32)[np.arange(32) & 1, np.arange(32) % 3]),)),
    Case("constant_argument", "float at(__constant float *c, int i) { return c[i & 3]; }\n"
         "__kernel void k(__constant float *c, __global float *o, __constant const int *d) { int i = get_global_id(0); __constant float *p = c + 4;"
         " o[i] = at(p, i) + d[i]; }", (In(_A[:8].copy()), Out(_A[4:8][np.arange(32) & 3] + np.arange(32, dtype=np.float32), tolerance=1e-6, floor=1e-6),
                                        In(np.arange(32, dtype=np.int32)))),
    Case("constant_in_function", "__kernel void k(__global float *o) { __constant float c[3] = {1, 4, 9}; int i = get_global_id(0); o[i] = c[i % 3]; }",
         (Out(np.array([1, 4, 9], np.float32)[np.arange(32) % 3]),)),
    Case("constant_structs", "typedef struct { float4 v; int n; } row;\n__constant row t[2] = {{(float4)(1, 2, 3, 4), 5}, {(float4)(6), 7}};\n"
         "__kernel void k(__global float *o) { int i = get_global_id(0); o[i] = t[i & 1].v.z * t[i & 1].n; }",
         (Out(np.tile(np.array([15, 42], np.float32), 16)),)),
    Case("helper_pointers", "float sum(__local const float *l, __global const float *restrict g, __private float *p, int n)\n{\n"
         "  float s = 0; for (int i = 0; i < n; i++) s += l[i] * g[i] + p[i & 1]; return s;\n}\n"
         "__kernel void k(__global const float *a, __global float *o) { __local float t[32]; float p[2]; int i = get_local_id(0); t[i] = i; p[0] = 1; p[1] = 2;"
         " barrier(CLK_LOCAL_MEM_FENCE); o[i] = sum(t, a + i, p, 4); }",
         (In(_A), Out(np.array([sum(j * _A[i + j] for j in range(4)) + 6 for i in range(32)], np.float32), tolerance=1e-5, floor=1e-5))),
    Case("helper_writes", "void put(__global float *o, int i, float v);\nvoid put(__global float *o, int i, float v) { o[i] = v; }\n"
         "static inline void swap(float *a, float *b) { float t = *a; *a = *b; *b = t; }\n"
         "__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); float x = a[i], y = a[i + 32]; swap(&x, &y); put(o, i, x - y); }",
         (In(_A), Out(_A[32:] - _A[:32]))),
    Case("kernel_calls_kernel", "__kernel void inner(__global const float *a, __global float *o, float f) { int i = get_global_id(0); o[i] = a[i] * f; }\n"
         "__kernel void k(__global const float *a, __global float *o) { inner(a, o, 3.0f); o[get_global_id(0)] += 1; }",
         (In(_A), Out(_A[:32] * 3 + 1, tolerance=1e-6, floor=1e-6))),
    Case("aligned_attribute", "__kernel void k(__global const float *a, __global float *o) { __local float t[32] __attribute__((aligned(64)));"
         " __attribute__((aligned(16))) float r[4]; int i = get_local_id(0); t[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); r[i & 3] = t[31 - i];"
         " o[i] = r[i & 3]; }", (In(_A), Out(_A[:32][::-1].copy()))),
    Case("packed_struct", "typedef struct __attribute__((packed)) { char c; int n; } small;\n"
         "__kernel void k(__global const small *a, __global int *o) { int i = get_global_id(0); o[i] = a[i].n + a[i].c + sizeof(small); }",
         (In(np.array([(i - 9, i * 1000) for i in range(32)], [("c", "i1"), ("n", "<i4")]).view(np.uint8)), Out(np.array([i * 1001 - 4 for i in range(32)], np.int32)))),
    Case("struct_argument", "typedef struct { int n; float f; float4 v; } params;\n"
         "__kernel void k(params p, __global float *o) { int i = get_global_id(0); o[i] = p.n * i + p.f + p.v.y; }",
         (np.array((3, 0.5, (0, 0), (1, 2, 3, 4)), [("n", "<i4"), ("f", "<f4"), ("pad", "<f4", 2), ("v", "<f4", 4)])[()],
          Out((3 * np.arange(32) + 2.5).astype(np.float32)))),
    Case("scalar_arguments", "__kernel void k(char a, ushort b, uint c, long d, float e, double f, __global double *o) {"
         " o[get_global_id(0)] = f + a + b + c + d + e; }",
         (np.int8(-5), np.uint16(60000), np.uint32(4000000000), np.int64(-(2**40)), np.float32(0.5), np.float64(0.25),
          Out(np.full(32, -5.0 + 60000 + 4000000000 - 2**40 + 0.75)))),
    Case("atomics_local", "__kernel void k(__global const int *a, __global int *o) { __local int h[8]; int i = get_local_id(0); if (i < 8) h[i] = 0;"
         " barrier(CLK_LOCAL_MEM_FENCE); atomic_inc(&h[a[i] & 7]); atomic_add(h + (i & 7), 10); barrier(CLK_LOCAL_MEM_FENCE); if (i < 8) o[i] = h[i]; }",
         (In(_I), Out((np.bincount(_I & 7, minlength=8) + 80).astype(np.int32))), (64, 1, 1), (64, 1, 1)),
    Case("async_copy", "__kernel void k(__global const float *a, __global float *o) { __local float t[64]; __local float s[8];\n"
         " event_t e = async_work_group_copy(t, a, 64, 0); e = async_work_group_strided_copy(s, a, 8, 8, e); wait_group_events(1, &e);\n"
         " int i = get_local_id(0); t[i] = t[i] + s[i & 7]; barrier(CLK_LOCAL_MEM_FENCE); e = async_work_group_copy(o, (__local const float *)t, 64, 0);\n"
         " wait_group_events(1, &e); }",
         (In(_A), Out(np.concatenate([_A[:32] + np.tile(_A[::8], 4), _A[32:]])))),
    Case("size_t_index", "__kernel void k(__global const float *a, __global float *o, ulong n) { size_t i = get_global_id(0); const size_t last = n - 1;"
         " o[last - i] = a[i]; }", (In(_A), Out(_A[:32][::-1].copy()), np.uint64(32))),
    Case("double_constants", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n__constant double fil[4] = {8.4334247333529341e-07, -1.29e-05, 0.99404156978340035, 0.5};\n"
         "__kernel void k(__global const double *a, __global double *o) { int i = get_global_id(0); double s = 0.0;\n#pragma unroll\n"
         " for (int j = 0; j < 4; j++) s = fma(fil[j], a[i + j], s);\n o[i] = s; }",
         (In(_A.astype(float)), Out(np.convolve(_A.astype(float), [0.5, 0.99404156978340035, -1.29e-05, 8.4334247333529341e-07])[3:35], tolerance=1e-14, floor=1e-14))),
]  # fmt: skip
