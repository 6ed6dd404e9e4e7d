"""The device switches that both preludes define: one text must compute the same where they exist and where they fall back."""

from __future__ import annotations

import numpy as np
from battery.case import Case, In, Out, floats

_A = floats(512)
_D = floats(64, dtype="float64")
_V = _A[:128].reshape(32, 4)

CASES: list[Case] = [
    Case("switch_back_end", "__kernel void k(__global int *o) { int n = 0;\n#if PORTATILE_OPENCL\n n += 1;\n#endif\n#ifdef PORTATILE_CUDA\n n += 1;\n#endif\n#if PORTATILE_NVIDIA && !(PORTATILE_CUDA || defined(__NV_CL_C_VERSION))\n n += 5;\n#endif\n o[get_global_id(0)] = n; }",
         (Out(np.ones(32, np.int32)),)),
    Case("ldg", "__kernel void k(__global const float4 *restrict a, __global const float *restrict b, __global const double2 *d, __global const int2 *e, __global float4 *o) { int i = get_global_id(0); float4 v = LDG(a + i);"
         " int2 n = LDG(&e[i]); v.x += LDG(&b[i]); v.y += (float)LDG(d + i).y; v.z += n.x + n.y; o[i] = v; }",
         (In(_A[:128]), In(_A[128:160]), In(_D), In(np.arange(64, dtype=np.int32)),
          Out((_V + np.stack([_A[128:160], _D[1::2].astype(np.float32), 4 * np.arange(32) + 1, np.zeros(32)], 1).astype(np.float32)).reshape(-1), tolerance=1e-6, floor=1e-6))),
    Case("lds", "__kernel void k(__global const float4 *a, __global float4 *o) { __local float4 t[32]; __local double d[32]; __local int2 n[32]; int i = get_local_id(0); t[i] = a[i]; d[i] = i; n[i] = (int2)(i, 1); barrier(CLK_LOCAL_MEM_FENCE);\n"
         " float4 v = LDS(&t[31 - i]); v.x += (float)LDS(d + (i ^ 1)); int2 m = LDS(&n[i ^ 2]); v.y += m.x + m.y; v.z += LDS((__local const float *)t + i); o[i] = v; }",
         (In(_A[:128]), Out((_V[::-1] + np.stack([np.arange(32) ^ 1, (np.arange(32) ^ 2) + 1, _A[:32], np.zeros(32)], 1).astype(np.float32)).reshape(-1), tolerance=1e-6, floor=1e-6))),
    Case("copy_async", "__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void k(__global const float *a, __global float4 *o) { __local float4 t[2][32]; __local float s[32]; __local float2 p[32]; int i = get_local_id(0);\n"
         " COPY_ASYNC_16(&t[0][i], a + 4 * i); COPY_ASYNC_COMMIT(); COPY_ASYNC_16(&t[1][i], a + 128 + 4 * i); COPY_ASYNC_4(s + i, a + i); COPY_ASYNC_8(&p[i], a + 2 * i); COPY_ASYNC_COMMIT();\n"
         " COPY_ASYNC_WAIT(1); barrier(CLK_LOCAL_MEM_FENCE); float4 v = t[0][31 - i]; COPY_ASYNC_WAIT(0); barrier(CLK_LOCAL_MEM_FENCE); o[i] = v + t[1][31 - i] + (float4)(s[i ^ 1], p[i ^ 1], 0); }",
         (In(_A), Out((_V[::-1] + _A[128:256].reshape(32, 4)[::-1] + np.stack([_A[np.arange(32) ^ 1], *_A[:64].reshape(32, 2)[np.arange(32) ^ 1].T, np.zeros(32)], 1).astype(np.float32)).reshape(-1), tolerance=1e-6, floor=1e-6))),
    Case("copy_async_if", "__kernel void k(__global const float *a, __global float4 *o, int n) { __local float4 t[32]; __local float s[32]; __local float2 p[32]; int i = get_local_id(0); t[i] = (float4)(9); s[i] = 9; p[i] = (float2)(9);\n"
         " barrier(CLK_LOCAL_MEM_FENCE); COPY_ASYNC_16_IF(&t[i], a + 4 * i, i < n); if (i >= 0) COPY_ASYNC_4_IF(s + i, a + i, i > n); else s[i] = 1; COPY_ASYNC_8_IF(&p[i], a + 2 * i, i != n); COPY_ASYNC_COMMIT(); COPY_ASYNC_WAIT(0); barrier(CLK_LOCAL_MEM_FENCE);\n"
         " int j = 31 - i; o[i] = t[j] + (float4)(s[j], p[j], 0); }",
         (In(_A), Out((lambda j: (np.where((j < 20)[:, None], _V[j], 0) + np.stack([np.where(j > 20, _A[j], 0), *(np.where((j != 20)[:, None], _A[:64].reshape(32, 2)[j], 0)).T, np.zeros(32)], 1)).astype(np.float32).reshape(-1))(np.arange(31, -1, -1)),
                      tolerance=1e-6, floor=1e-6), np.int32(20))),
    Case("shuffles", "__kernel void k(__global const float *a, __global const double *d, __global float *o) { int i = get_local_id(0); float x = a[i], r;\n#ifdef HAVE_SHUFFLE\n"
         " r = SHUFFLE_XOR(x, 5) + SHUFFLE(i, 3) + (float)SHUFFLE(d[i], i ^ 1); float y = SHUFFLE_DOWN(x, 2), z = SHUFFLE_UP(x, 4); r += (i < 30 ? y : 0) + (i >= 4 ? z : 0);\n#else\n"
         " r = a[i ^ 5] + 3 + (float)d[i ^ 1]; r += (i < 30 ? a[i + 2] : 0) + (i >= 4 ? a[i - 4] : 0);\n#endif\n o[i] = r; }",
         (In(_A[:32]), In(_D[:32]), Out((lambda i: _A[i ^ 5] + 3 + _D[i ^ 1] + np.where(i < 30, _A[(i + 2) % 32], 0) + np.where(i >= 4, _A[i - 4], 0))(np.arange(32)).astype(np.float32), tolerance=2e-6, floor=2e-6))),
    Case("rsqrt_approx", "__kernel void k(__global const float *a, __global float *o) { int i = get_global_id(0); o[i] = RSQRT_APPROX(a[i] * a[i] + 1.0f); }",
         (In(_A[:32]), Out((1 / np.sqrt(_A[:32].astype(float) ** 2 + 1)).astype(np.float32), tolerance=2e-3))),
    Case("inline_ptx", "__kernel void k(__global const float *a, __global float *o) { __local float t[32]; int i = get_local_id(0); t[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); float x;\n#if PORTATILE_NVIDIA\n uint at = LOCAL_ADDRESS(&t[i ^ 1]);\n"
         ' asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");\n#else\n x = t[i ^ 1];\n#endif\n o[i] = x; }', (In(_A[:32]), Out(_A[np.arange(32) ^ 1]))),
    Case("min_groups", "__kernel __attribute__((reqd_work_group_size(32, 1, 1))) MIN_GROUPS(4) void k(__global const float *a, __global float *o) { int i = get_global_id(0); o[i] = a[i] + 1; }", (In(_A[:32]), Out(_A[:32] + 1))),
]  # fmt: skip
