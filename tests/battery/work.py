"""Work-items, barriers, fences and atomic functions."""

from __future__ import annotations

import numpy as np
from battery.case import Case, In, Out, floats, integers

_I = integers(96)
_U = integers(96, "uint32")
_L = integers(96, "int64")
_G = np.arange(96)


def _indices() -> np.ndarray:
    """The fourteen numbers that the kernel ``index_functions`` writes per work-item, over 8 x 6 x 2 in groups of 4 x 3 x 2."""
    rows = []
    for gz in range(2):
        for gy in range(6):
            for gx in range(8):
                rows.append([gx, gy, gz, gx % 4, gy % 3, gz, gx // 4, gy // 3, 0, 8, 6, 3, 2, 2])
    return np.array(rows, np.int32).reshape(-1)


CASES: list[Case] = [
    Case("index_functions", "__kernel void k(__global int *o) {\n"
         " int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);\n __global int *p = o + 14 * ((z * 6 + y) * 8 + x);\n"
         " p[0] = x; p[1] = y; p[2] = z; p[3] = get_local_id(0); p[4] = get_local_id(1); p[5] = get_local_id(2);\n"
         " p[6] = get_group_id(0); p[7] = get_group_id(1); p[8] = get_group_id(2); p[9] = get_global_size(0); p[10] = get_global_size(1);\n"
         " p[11] = get_local_size(1); p[12] = get_num_groups(0); p[13] = get_num_groups(1) + get_global_offset(0); }",
         (Out(_indices()),), (8, 6, 2), (4, 3, 2)),
    Case("index_beyond_three", "__kernel void k(__global int *o) { o[get_global_id(0)] = get_global_id(3) + get_local_size(4) + get_num_groups(5) * 2"
         " + get_work_dim() * 0; }", (Out(np.full(32, 3, np.int32)),), without={"Portable Computing Language": "it gives 0 for sizes beyond the third"}),
    Case("index_by_variable", "__kernel void k(__global int *o) { int n = 0; for (uint d = 0; d < 2; d++) n = n * 100 + get_local_id(d);"
         " o[get_global_id(1) * 8 + get_global_id(0)] = n; }", (Out((100 * (np.arange(32) % 8) + np.arange(32) // 8).astype(np.int32)),), (8, 4, 1), (8, 4, 1)),
    Case("required_work_group", "#define W 16\n__attribute__((reqd_work_group_size(W * 2, 1, 1)))\n__kernel void k(__global int *o)\n{\n"
         " o[get_global_id(0)] = get_local_size(0) * 100 + get_local_id(0); }", (Out((3200 + np.arange(64) % 32).astype(np.int32)),), (64, 1, 1), (32, 1, 1)),
    Case("barrier_loop", "__kernel void k(__global const int *a, __global int *o) { __local int t[96]; int i = get_local_id(0); t[i] = a[i];\n"
         " for (int s = 1; s < 96; s *= 2) { barrier(CLK_LOCAL_MEM_FENCE); int v = i >= s ? t[i - s] : 0; barrier(CLK_LOCAL_MEM_FENCE); t[i] += v; }\n"
         " barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); o[i] = t[i]; }", (In(_I), Out(np.cumsum(_I, dtype=np.int32))), (96, 1, 1), (96, 1, 1)),
    Case("fences", "__kernel void k(__global int *o) { int i = get_global_id(0); o[i] = i; mem_fence(CLK_GLOBAL_MEM_FENCE); read_mem_fence(CLK_LOCAL_MEM_FENCE);"
         " write_mem_fence(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE); o[i] += 1; }", (Out(np.arange(1, 33, dtype=np.int32)),)),
    Case("atomic_arithmetic", "__kernel void k(__global const int *a, volatile __global int *o) { int i = get_global_id(0); int v = a[i];\n"
         " atomic_add(o, v); atomic_sub(o + 1, v); atomic_inc(o + 2); atomic_dec(o + 3); atomic_min(o + 4, v); atomic_max(o + 5, v);\n"
         " atomic_and(o + 6, v | 0xff); atomic_or(o + 7, v & 0xff0); atomic_xor(o + 8, v); }",
         (In(_I), Out(np.array([_I.sum(dtype=np.int32), -_I.sum(dtype=np.int32), 96, -96, _I.min(), _I.max(), np.bitwise_and.reduce(_I | 255),
                                np.bitwise_or.reduce(_I & 0xFF0), np.bitwise_xor.reduce(_I)], np.int32),
                      before=np.array([0, 0, 0, 0, 2**31 - 1, -(2**31), -1, 0, 0], np.int32))), (96, 1, 1), (32, 1, 1)),
    Case("atomic_unsigned", "__kernel void k(__global const uint *a, __global uint *o) { int i = get_global_id(0); atomic_min(o, a[i]); atomic_max(&o[1], a[i]);"
         " atomic_add(&o[2], 3u); }", (In(_U), Out(np.array([_U.min(), _U.max(), 288], np.uint32), before=np.array([2**32 - 1, 0, 0], np.uint32))), (96, 1, 1), (32, 1, 1)),
    Case("atomic_old_value", "__kernel void k(__global int *n, __global int *o) { int i = atomic_inc(n); o[i] = 7; }",
         (Out(np.array([96], np.int32), before=np.zeros(1, np.int32)), Out(np.full(96, 7, np.int32))), (96, 1, 1), (32, 1, 1)),
    Case("atomic_exchange", "__kernel void k(__global float *f, __global int *n, __global float *o) { if (get_global_id(0) == 0) { o[0] = atomic_xchg(f, 2.5f);"
         " o[1] = atomic_cmpxchg(n, 3, 9); o[2] = atomic_cmpxchg(n, 3, 11); } }",
         (Out(np.array([2.5], np.float32), before=np.array([1.5], np.float32)), Out(np.array([9], np.int32), before=np.array([3], np.int32)),
          Out(np.array([1.5, 3, 9], np.float32)))),
    Case("atomic_float_loop", "void add(volatile __global float *p, float v) { union { uint u; float f; } old, sum;\n"
         " do { old.f = *p; sum.f = old.f + v; } while (atomic_cmpxchg((volatile __global uint *)p, old.u, sum.u) != old.u); }\n"
         "__kernel void k(__global const float *a, __global float *o) { add(o, a[get_global_id(0)]); }",
         (In(np.round(floats(32) * 8) / 8), Out(np.array([np.sum(np.round(floats(32) * 8) / 8)], np.float32), before=np.zeros(1, np.float32)))),
    Case("atomic_long", "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n"
         "__kernel void k(__global const long *a, __global long *o) { int i = get_global_id(0); atom_add(o, a[i]); atom_max(o + 1, a[i]); atom_inc(o + 2);"
         " atom_xor(o + 3, a[i]); }",
         (In(_L), Out(np.array([_L.sum(), _L.max(), 96, np.bitwise_xor.reduce(_L)], np.int64), before=np.array([0, -(2**63), 0, 0], np.int64))), (96, 1, 1), (32, 1, 1),
         ),
]  # fmt: skip
