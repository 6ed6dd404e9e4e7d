"""Address spaces: local variables and arguments, constants, pointers to helper functions, structures."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Local, Out, floats, integers, texts

TEXT = texts("memory.cl")

_A = floats(64)
_I = integers(64)
_R = np.arange(64)

CASES: list[Case] = [
    Case("local_array", TEXT["local_array"], (In(_A), Out(_A[::-1].copy())), (64, 1, 1), (64, 1, 1)),
    Case("local_2d_padded", TEXT["local_2d_padded"], (In(_A), Out(_A.reshape(8, 8).T.copy().reshape(-1))), (8, 8, 1), (8, 8, 1)),
    Case("local_scalar", TEXT["local_scalar"], (Out((5 + _R // 16).astype(np.int32)),), (64, 1, 1), (16, 1, 1)),
    Case("local_vectors", TEXT["local_vectors"], (In(_A), Out(_A.reshape(16, 4)[::-1].copy().reshape(-1))), (16, 1, 1), (16, 1, 1)),
    Case("local_cast", TEXT["local_cast"], (In(_A), Out(_A.reshape(16, 4).T.copy().reshape(-1))), (16, 1, 1), (16, 1, 1)),
    Case(
        "local_arguments",
        TEXT["local_arguments"],
        (
            In(_A),
            Local(32 * 4 + 4),
            Out((_A[:32][::-1] + 2.0 * np.roll(_A[:32], -1) + (np.arange(32) ^ 1)).astype(np.float32), tolerance=1e-6, floor=1e-6),
            Local(32 * 8),
            Local(32),
        ),
    ),
    Case("local_argument_vectors", TEXT["local_argument_vectors"], (In(_A), Out(_A.reshape(16, 4)[::-1].copy().reshape(-1)), Local(256))),
    Case(
        "local_array_argument",
        TEXT["local_array_argument"],
        (In(_A), Out(_A.reshape(4, 16)[[1, 0, 3, 2], ::-1].copy().reshape(-1)), Local(4 * 17 * 4)),
        (16, 4, 1),
        (16, 4, 1),
    ),
    Case(
        "local_struct",
        TEXT["local_struct"],
        (In(_A), Out(_A[:32][::-1] + np.arange(31, -1, -1, dtype=np.float32), tolerance=1e-6, floor=1e-6)),
    ),
    Case("local_in_two_kernels", TEXT["local_in_two_kernels"], (In(_A), Out(_A[np.arange(32) ^ 3]))),
    Case("constant_table", TEXT["constant_table"], (In(_A), Out(_A[:32] * np.tile(np.array([1.5, -2, 3.25, 8], np.float32), 8)))),
    Case("constant_2d", TEXT["constant_2d"], (Out(np.array([[1, 2, 3], [4, 5, 6]], np.int32)[np.arange(32) & 1, np.arange(32) % 3]),)),
    Case(
        "constant_argument",
        TEXT["constant_argument"],
        (
            In(_A[:8].copy()),
            Out(_A[4:8][np.arange(32) & 3] + np.arange(32, dtype=np.float32), tolerance=1e-6, floor=1e-6),
            In(np.arange(32, dtype=np.int32)),
        ),
    ),
    Case("constant_in_function", TEXT["constant_in_function"], (Out(np.array([1, 4, 9], np.float32)[np.arange(32) % 3]),)),
    Case("constant_structs", TEXT["constant_structs"], (Out(np.tile(np.array([15, 42], np.float32), 16)),)),
    Case(
        "helper_pointers",
        TEXT["helper_pointers"],
        (In(_A), Out(np.array([sum(j * _A[i + j] for j in range(4)) + 6 for i in range(32)], np.float32), tolerance=1e-5, floor=1e-5)),
    ),
    Case("helper_writes", TEXT["helper_writes"], (In(_A), Out(_A[32:] - _A[:32]))),
    Case("kernel_calls_kernel", TEXT["kernel_calls_kernel"], (In(_A), Out(_A[:32] * 3 + 1, tolerance=1e-6, floor=1e-6))),
    Case("aligned_attribute", TEXT["aligned_attribute"], (In(_A), Out(_A[:32][::-1].copy()))),
    Case(
        "packed_struct",
        TEXT["packed_struct"],
        (
            In(np.array([(i - 9, i * 1000) for i in range(32)], [("c", "i1"), ("n", "<i4")]).view(np.uint8)),
            Out(np.array([i * 1001 - 4 for i in range(32)], np.int32)),
        ),
    ),
    Case(
        "struct_argument",
        TEXT["struct_argument"],
        (
            np.array((3, 0.5, (0, 0), (1, 2, 3, 4)), [("n", "<i4"), ("f", "<f4"), ("pad", "<f4", 2), ("v", "<f4", 4)])[()],
            Out((3 * np.arange(32) + 2.5).astype(np.float32)),
        ),
    ),
    Case(
        "scalar_arguments",
        TEXT["scalar_arguments"],
        (
            np.int8(-5),
            np.uint16(60000),
            np.uint32(4000000000),
            np.int64(-(2**40)),
            np.float32(0.5),
            np.float64(0.25),
            Out(np.full(32, -5.0 + 60000 + 4000000000 - 2**40 + 0.75)),
        ),
    ),
    Case(
        "atomics_local",
        TEXT["atomics_local"],
        (In(_I), Out((np.bincount(_I & 7, minlength=8) + 80).astype(np.int32))),
        (64, 1, 1),
        (64, 1, 1),
    ),
    Case("async_copy", TEXT["async_copy"], (In(_A), Out(np.concatenate([_A[:32] + np.tile(_A[::8], 4), _A[32:]])))),
    Case("size_t_index", TEXT["size_t_index"], (In(_A), Out(_A[:32][::-1].copy()), np.uint64(32))),
    Case(
        "double_constants",
        TEXT["double_constants"],
        (
            In(_A.astype(float)),
            Out(
                np.convolve(_A.astype(float), [0.5, 0.99404156978340035, -1.29e-05, 8.4334247333529341e-07])[3:35],
                tolerance=1e-14,
                floor=1e-14,
            ),
        ),
    ),
]
