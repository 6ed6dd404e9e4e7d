"""C as people write it, where C++ differs: names, types, initialisers, the preprocessor, control flow."""

from __future__ import annotations

import numpy as np
from battery.case import Case, In, Out, elementwise, floats, integers

_A = floats(32)
_I = integers(32)
_V4 = floats(128).reshape(32, 4)
_R = np.arange(32)
POCL = {"Portable Computing Language": "it renames such kernels"}


def _chosen(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the kernel ``ternary_vector_condition`` computes."""
    v = np.abs(a)
    v = np.where(a > b, np.where(v[:, :1] > 1, v, b), np.float32(7))
    n = np.where(v[:, 0] > 0, v[:, 1], np.float32(2))
    pair = np.where(b[:, :2] < 0, a[:, :2], np.float32(1))
    return v + n[:, None] + np.tile(pair, (1, 2))


def _ints(values: object) -> Out:
    return Out(np.broadcast_to(np.asarray(values), 32).astype(np.int32))


CASES: list[Case] = [
    elementwise("cpp_keywords", "int new = a[i], class = 2, this = 3; int template[2] = {new, class}; int operator = template[0] + template[1] * this; { int delete = 1, and = 2, friend = delete + and; operator += friend; } o[i] = operator;",
                [_I >> 4], _ints((_I >> 4) + 9)),
    Case("cuda_names", "#define N 3\ntypedef struct { int x, y; } dim3;\nfloat norm(float x) { return x * 2; }\nint atomicAdd(int a, int b) { return a + b; }\nfloat __fadd(float a) { return a; }\n"
         "__kernel void k(__global const float *a, __global float *o) { int threadIdx = get_global_id(0), blockDim = 2, warpSize = 5; dim3 g = {blockDim, warpSize};\n"
         " o[threadIdx] = norm(a[threadIdx]) + atomicAdd(g.x, g.y) + __fadd(1.0f); }", (In(_A), Out(_A * 2 + 8, tolerance=1e-6, floor=1e-6))),
    Case("kernel_named_like_library", "__kernel void round(__global const float *a, __global float *o) { int i = get_global_id(0); o[i] = a[i] + 1; }", (In(_A), Out(_A + 1)), kernel="round", without=POCL),
    Case("struct_compound_literal", "typedef struct { int n; float f; } pair;\nstruct triple { int a, b, c; };\npair make(int n, float f) { return (pair){n, f}; }\n"
         "__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); pair p = make(i, a[i]); struct triple t = (struct triple){i, 2, 3}; p = (pair){p.n + 1, p.f};\n"
         " o[i] = p.f * p.n + t.a * t.c; }", (In(_A), Out((_A * (_R + 1) + 3 * _R).astype(np.float32), tolerance=1e-6, floor=1e-5))),
    Case("designated_initialiser", "struct item { int n; float f; int k; };\n__kernel void k(__global int *o) { struct item t = {.n = 2, .k = 5}; int i = get_global_id(0); o[i] = t.n * i + t.k + (int)t.f; }", (_ints(2 * _R + 5),)),
    Case("enumeration", "enum mode { FIRST, SECOND = 5, THIRD };\ntypedef enum { OFF, ON } state;\n__kernel void k(__global int *o) { int i = get_global_id(0); enum mode m = i & 1 ? SECOND : THIRD; state s = ON; int n = m; o[i] = n + s + max(FIRST, 1); }",
         (_ints(np.where(_R & 1, 5, 6) + 2),)),
    elementwise("narrowing_initialiser", "int n = a[i] > 0; float t[3] = {n, i, 2.5}; uchar c[2] = {300 - 256, i}; o[i] = t[0] + t[1] + t[2] + c[0] + c[1];", [_A], Out(((_A > 0) + 2 * _R + 46.5).astype(np.float32))),
    elementwise("ternary_scalar", "float x = a[i] > 0 ? a[i] : -a[i]; int n = i < 16 ? i : 2 * i; o[i] = x + n;", [_A], Out((np.abs(_A) + np.where(_R < 16, _R, 2 * _R)).astype(np.float32), tolerance=1e-6)),
    elementwise("ternary_guards_loads", "o[i] = i < 16 ? a[i] : i < 20 ? a[i - 16] : 0;", [_A[:16].copy()], Out(np.concatenate([_A[:16], _A[:4], np.zeros(12, np.float32)]))),
    elementwise("ternary_vector_values", "float4 v = a[i].x > 0 ? a[i] : (float4)(0); float4 u = i & 1 ? v.wzyx : v; o[i] = u;", [_V4.reshape(-1)],
                Out((lambda z: np.where((_R & 1)[:, None], z[:, ::-1], z))(np.where(_V4[:, :1] > 0, _V4, np.float32(0))).reshape(-1)), "float4 float4"),
    Case("preprocessor", "#define CAT(a, b) a##b\n#define STR(x) #x\n#define MUL(a, b) ((a) * (b))\n#define LOOP(n, body) for (int j = 0; j < n; j++) { body; }\n#if defined(SCALE) && SCALE > 2\n#define F CAT(2, 5)\n#else\n#error wrong\n#endif\n"
         "#ifdef UNSET\nthis is not C\n#elif SCALE == 3\n#undef F\n#define F 7\n#endif\n/* a comment\n over lines */ __kernel void k(__global int *o) { // another\n int i = get_global_id(0), s = 0; LOOP(3, s += MUL(i + 1, F))\n o[i] = s + sizeof(STR(abc)) + __LINE__; }",
         (_ints(21 * (_R + 1) + 4 + 19),), defines={"SCALE": "3"}),
    Case("extension_checks", "#pragma OPENCL EXTENSION cl_khr_global_int32_base_atomics : enable\n#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n#if __OPENCL_VERSION__ < 110\n#error too old\n#endif\n#ifndef M_PI_F\n#define M_PI_F 3\n#endif\n"
         "__kernel void k(__global int *o) { o[get_global_id(0)] = (int)M_PI_F + CL_VERSION_1_1 + (__OPENCL_C_VERSION__ >= 110); }", (_ints(114),)),
    elementwise("unroll", "int s = 0;\n#pragma unroll\n  for (int j = 0; j < 4; j++) s += j * a[i];\n#pragma unroll 2\n  for (int j = 0; j < 3; j++) s += j;\n#define U 3\n#pragma unroll U\n  for (int j = 0; j < U; j++) s ^= j;\n  o[i] = s;", [_I >> 8],
                _ints(((_I >> 8) * 6 + 3) ^ 0 ^ 1 ^ 2)),
    elementwise("control_flow", "int n = 0, j = 0; while (1) { if (j == 5) break; j++; if (j == 2) continue; n += j; } do { n--; } while (n > 12); switch (i & 3) { case 0: n += 1; break; case 1: case 2: n += 10; default: n += 100; } goto end; n = 0; end: o[i] = n + (a[i] != a[i]);",
                [_A], _ints(12 + np.array([1, 110, 110, 100])[_R & 3])),
    elementwise("integer_types", "unsigned char c = 200; unsigned short s = 65535; signed char t = -3; unsigned x = 4000000000u; long l = 1L << 40; unsigned long ul = 1UL << 63; bool b = c; _Bool d = 0; uint q = -1;"
                " o[i] = c + s + t + (int)(x >> 20) + (int)(l >> 38) + (int)(ul >> 60) + b + d + (q == 0xffffffffu) + sizeof(long) + sizeof(size_t) + a[i] * 0;", [_I],
                _ints(200 + 65535 - 3 + (4000000000 >> 20) + 4 + 8 + 1 + 0 + 1 + 8 + 8)),
    elementwise("integer_promotion", "uchar c = a[i]; char s = (char)c; short h = (short)(a[i] << 3); c += 200; o[i] = c + s + h + (uchar)(c << 1) + ~(ushort)3;", [_I],
                _ints((lambda c: ((c + 200) & 255) + c.astype(np.uint8).view(np.int8) + (_I << 3).astype(np.int16) + (((c + 200) << 1) & 255) - 4)((_I & 255).astype(np.int32)))),
    Case("recursive_macros_and_typedefs", "typedef float real;\ntypedef real2x real2y_unused;\n".replace("typedef real2x real2y_unused;\n", "typedef float2 real2;\n") +
         "typedef __global const real *input;\n__kernel void k(input a, __global real2 *o) { int i = get_global_id(0); o[i] = (real2)(a[i], 1) + (real2)2.0f; }",
         (In(_A), Out(np.stack([_A + 2, np.full(32, 3, np.float32)], 1).reshape(-1)))),
    Case("const_and_volatile", "__kernel void k(const __global float * const restrict a, volatile __global float *o, const int n, __const float f) { const int i = get_global_id(0); float x = a[i]; volatile float y = x; o[i] = y * n + f; }",
         (In(_A), Out((_A * 2 + 1).astype(np.float32), tolerance=1e-6, floor=1e-6), np.int32(2), np.float32(1))),
    Case("plain_qualifiers", "kernel void k(global const float *a, global float *o, constant float *c) { local float t[32]; private int i = get_local_id(0); t[i] = a[i] * c[0]; barrier(CLK_LOCAL_MEM_FENCE); o[i] = t[i ^ 1]; }",
         (In(_A), Out(_A[_R ^ 1] * 3, tolerance=1e-6, floor=1e-6), In(np.array([3], np.float32)))),
    Case("pointer_arithmetic", "__kernel void k(__global const uchar *raw, __global float *o) { int i = get_global_id(0); __global const float *p = (__global const float *)(raw + 4); p += i; float4 v; float *q = (float *)&v; q[0] = p[0]; q[3] = *(p + 1);"
         " o[i] = v.x + v.w + (p - (__global const float *)raw); }", (In(np.concatenate([_A, _A[:4]]).view(np.uint8)), Out((lambda b: b[1:33] + b[2:34] + (_R + 1))(np.concatenate([_A, _A[:4]])).astype(np.float32), tolerance=1e-6, floor=1e-6))),
    Case("array_of_arrays", "void fill(float m[2][3], float x) { for (int r = 0; r < 2; r++) for (int c = 0; c < 3; c++) m[r][c] = x + r * 3 + c; }\n"
         "__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); float m[2][3]; fill(m, a[i]); float s = 0; for (int j = 0; j < 6; j++) s += m[j / 3][j % 3]; o[i] = s; }",
         (In(_A), Out(6 * _A + 15, tolerance=4e-6, floor=1e-5))),
    Case("members_like_swizzles", "typedef struct { float lo, hi; int xy; float s01; } range;\n__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); range r; r.lo = a[i]; r.hi = 2; r.xy = 3; r.s01 = 4; __private range *p = &r; o[i] = p->lo + r.hi * r.xy + r.s01; }",
         (In(_A), Out(_A + 10, tolerance=1e-6, floor=1e-6))),
    elementwise("comma_expression", "int x, y; x = (y = a[i], y + 1); o[i] = (x, y) + x;", [_I >> 2], _ints(2 * (_I >> 2) + 1)),
    elementwise("hexadecimal_floats", "o[i] = a[i] * 0x1.8p1f + 0x1p-2f + 1.e1f + .5f + 1e-1f;", [_A], Out((_A * 3 + 0.25 + 10 + 0.5 + 0.1).astype(np.float32), tolerance=1e-6, floor=2e-6)),
    Case("prototypes", "float twice(float);\nint four(void);\n__kernel void k(__global const float *a, __global float *o);\n__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); o[i] = twice(a[i]) + four(); }\nfloat twice(float x) { return 2 * x; }\nint four(void) { return 4; }",
         (In(_A), Out(_A * 2 + 4, tolerance=1e-6, floor=1e-6))),
    elementwise("division_by_zero", "float zero = i * 0.0f; o[i] = (isinf(a[i] / zero) ? 1 : 0) + (isnan(zero / zero) ? 2 : 0);", [_A], Out(np.full(32, 3, np.float32))),
    elementwise("ternary_vector_condition", "int4 m = a[i] > 0.0f; float4 v = m ? a[i] : -a[i]; v = a[i] > b[i] ? (v.x > 1 ? v : b[i]) : (float4)(7); float n = v.x > 0 ? v.y : 2; o[i] = v + n + (b[i].xy < 0.0f ? a[i].xy : 1.0f).xyxy;",
                [_V4.reshape(-1), floats(128, seed=1)], Out(_chosen(_V4, floats(128, seed=1).reshape(32, 4)).reshape(-1), tolerance=2e-6, floor=2e-6), "float4 float4 float4"),
    Case("pointers_of_other_types", "void fill(uint *p, __global const char *c, int n) { for (int i = 0; i < n; i++) p[i] = i + c[0]; }\nint sum(int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }\n"
         "__kernel void k(__global const uchar *a, __global int *o) { int t[4]; uint *q = t; void *v = t; int *w = v; const int *c; c = q; int i = get_global_id(0); fill(t, a, 3); t[3] = i; o[i] = sum(q, 4) + w[3] + c[0] + sum(c, 1); }",
         (In(np.arange(3, 35, dtype=np.uint8)), _ints(12 + _R + _R + 6))),
    Case("enumeration_from_integer", "typedef enum { RED, GREEN = 4, BLUE } colour;\nenum side { LEFT, RIGHT } ;\nint number(colour c, enum side s) { return c * 10 + s; }\n"
         "__kernel void k(__global int *o) { int i = get_global_id(0); colour c = i & 3; enum side s = 1; s++; c = c + BLUE; switch (c) { case BLUE: c = 100; break; default: s |= 8; } o[i] = number(c, s); }",
         (_ints(np.where((_R & 3) == 0, 1002, ((_R & 3) + 5) * 10 + 10)),)),
    elementwise("unroll_hint", "int s = 0; __attribute__((opencl_unroll_hint(2))) for (int j = 0; j < 6; j++) s += j * a[i]; __attribute__((opencl_unroll_hint)) for (int j = 0; j < 2; j++) s++; o[i] = s;", [_I >> 6],
                _ints((_I >> 6) * 15 + 2)),
]  # fmt: skip
