"""C as people write it, where C++ differs: names, types, initialisers, the preprocessor, control flow."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Out, elementwise, floats, integers, texts

TEXT = texts("idioms.cl")

_A = floats(32)
_B = floats(64, seed=7)
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


def _ternary_pointer(a: np.ndarray) -> np.ndarray:
    """What the kernel ``ternary_pointer`` computes."""
    base = np.where(_R & 1, 0, 32)
    x, y = np.where(_R > 3, 1.0, 2.5), np.where(_R, 1.0, 0.0)
    fourth = a[base + (_R & 15) + 1] * x + y
    return np.where(_R & 3, a[base + _R] + np.where(_R & 2, x, y), fourth).astype(np.float32)


def _ints(values: object) -> Out:
    return Out(np.broadcast_to(np.asarray(values), 32).astype(np.int32))


CASES: list[Case] = [
    Case("cpp_keywords", TEXT["cpp_keywords"], (In(_I >> 4), _ints((_I >> 4) + 9))),
    Case("cuda_names", TEXT["cuda_names"], (In(_A), Out(_A * 2 + 8, tolerance=1e-6, floor=1e-6))),
    Case("kernel_named_like_library", TEXT["kernel_named_like_library"], (In(_A), Out(_A + 1)), kernel="round", without=POCL),
    Case(
        "struct_compound_literal",
        TEXT["struct_compound_literal"],
        (In(_A), Out((_A * (_R + 1) + 3 * _R).astype(np.float32), tolerance=1e-6, floor=1e-5)),
    ),
    Case("designated_initialiser", TEXT["designated_initialiser"], (_ints(2 * _R + 5),)),
    Case("enumeration", TEXT["enumeration"], (_ints(np.where(_R & 1, 5, 6) + 2),)),
    Case("narrowing_initialiser", TEXT["narrowing_initialiser"], (In(_A), Out(((_A > 0) + 2 * _R + 46.5).astype(np.float32)))),
    elementwise(
        "ternary_scalar",
        "float x = a[i] > 0 ? a[i] : -a[i]; int n = i < 16 ? i : 2 * i; o[i] = x + n;",
        [_A],
        Out((np.abs(_A) + np.where(_R < 16, _R, 2 * _R)).astype(np.float32), tolerance=1e-6),
    ),
    elementwise(
        "ternary_guards_loads",
        "o[i] = i < 16 ? a[i] : i < 20 ? a[i - 16] : 0;",
        [_A[:16].copy()],
        Out(np.concatenate([_A[:16], _A[:4], np.zeros(12, np.float32)])),
    ),
    elementwise(
        "ternary_vector_values",
        "float4 v = a[i].x > 0 ? a[i] : (float4)(0); float4 u = i & 1 ? v.wzyx : v; o[i] = u;",
        [_V4.reshape(-1)],
        Out((lambda z: np.where((_R & 1)[:, None], z[:, ::-1], z))(np.where(_V4[:, :1] > 0, _V4, np.float32(0))).reshape(-1)),
        "float4 float4",
    ),
    Case("preprocessor", TEXT["preprocessor"], (_ints(21 * (_R + 1) + 4 + 19),), defines={"SCALE": "3"}),
    Case("extension_checks", TEXT["extension_checks"], (_ints(114),)),
    Case("unroll", TEXT["unroll"], (In(_I >> 8), _ints(((_I >> 8) * 6 + 3) ^ 0 ^ 1 ^ 2))),
    Case("control_flow", TEXT["control_flow"], (In(_A), _ints(12 + np.array([1, 110, 110, 100])[_R & 3]))),
    Case("integer_types", TEXT["integer_types"], (In(_I), _ints(200 + 65535 - 3 + (4000000000 >> 20) + 4 + 8 + 1 + 0 + 1 + 8 + 8))),
    Case(
        "integer_promotion",
        TEXT["integer_promotion"],
        (
            In(_I),
            _ints(
                (
                    lambda c: (
                        ((c + 200) & 255) + c.astype(np.uint8).view(np.int8) + (_I << 3).astype(np.int16) + (((c + 200) << 1) & 255) - 4
                    )
                )((_I & 255).astype(np.int32))
            ),
        ),
    ),
    Case(
        "recursive_macros_and_typedefs",
        TEXT["recursive_macros_and_typedefs"],
        (In(_A), Out(np.stack([_A + 2, np.full(32, 3, np.float32)], 1).reshape(-1))),
    ),
    Case(
        "const_and_volatile",
        TEXT["const_and_volatile"],
        (In(_A), Out((_A * 2 + 1).astype(np.float32), tolerance=1e-6, floor=1e-6), np.int32(2), np.float32(1)),
    ),
    Case(
        "plain_qualifiers",
        TEXT["plain_qualifiers"],
        (In(_A), Out(_A[_R ^ 1] * 3, tolerance=1e-6, floor=1e-6), In(np.array([3], np.float32))),
    ),
    Case(
        "pointer_arithmetic",
        TEXT["pointer_arithmetic"],
        (
            In(np.concatenate([_A, _A[:4]]).view(np.uint8)),
            Out((lambda b: b[1:33] + b[2:34] + (_R + 1))(np.concatenate([_A, _A[:4]])).astype(np.float32), tolerance=1e-6, floor=1e-6),
        ),
    ),
    Case("array_of_arrays", TEXT["array_of_arrays"], (In(_A), Out(6 * _A + 15, tolerance=4e-6, floor=1e-5))),
    Case("members_like_swizzles", TEXT["members_like_swizzles"], (In(_A), Out(_A + 10, tolerance=1e-6, floor=1e-6))),
    elementwise("comma_expression", "int x, y; x = (y = a[i], y + 1); o[i] = (x, y) + x;", [_I >> 2], _ints(2 * (_I >> 2) + 1)),
    elementwise(
        "hexadecimal_floats",
        "o[i] = a[i] * 0x1.8p1f + 0x1p-2f + 1.e1f + .5f + 1e-1f;",
        [_A],
        Out((_A * 3 + 0.25 + 10 + 0.5 + 0.1).astype(np.float32), tolerance=1e-6, floor=2e-6),
    ),
    Case("prototypes", TEXT["prototypes"], (In(_A), Out(_A * 2 + 4, tolerance=1e-6, floor=1e-6))),
    elementwise(
        "division_by_zero",
        "float zero = i * 0.0f; o[i] = (isinf(a[i] / zero) ? 1 : 0) + (isnan(zero / zero) ? 2 : 0);",
        [_A],
        Out(np.full(32, 3, np.float32)),
    ),
    Case(
        "ternary_vector_condition",
        TEXT["ternary_vector_condition"],
        (
            In(_V4.reshape(-1)),
            In(floats(128, seed=1)),
            Out(_chosen(_V4, floats(128, seed=1).reshape(32, 4)).reshape(-1), tolerance=2e-6, floor=2e-6),
        ),
    ),
    Case("pointers_of_other_types", TEXT["pointers_of_other_types"], (In(np.arange(3, 35, dtype=np.uint8)), _ints(12 + _R + _R + 6))),
    Case("enumeration_from_integer", TEXT["enumeration_from_integer"], (_ints(np.where((_R & 3) == 0, 1002, ((_R & 3) + 5) * 10 + 10)),)),
    Case("unroll_hint", TEXT["unroll_hint"], (In(_I >> 6), _ints((_I >> 6) * 15 + 2))),
    Case("ternary_pointer", TEXT["ternary_pointer"], (In(_B), Out(_ternary_pointer(_B), tolerance=1e-6, floor=1e-6))),
    Case("type_operators", TEXT["type_operators"], (In(_V4.reshape(-1)), Out(_V4[:, 0] + _V4[:, 3] + 161, tolerance=1e-6))),
    Case(
        "jumps_over_initialisers",
        TEXT["jumps_over_initialisers"],
        (In(_I >> 4), _ints(np.where(_R & 1, 0, 2 * (_I >> 4) + 1 + np.where(_R & 2, -3, 12)))),
    ),
    Case("pointers_to_pointers", TEXT["pointers_to_pointers"], (In(_A), Out(_A + 3 + _R.astype(np.float32), tolerance=1e-6, floor=1e-6))),
    Case(
        "anonymous_members",
        TEXT["anonymous_members"],
        (In(_A), Out((-_A + (_R & 7) + 10 * _R).astype(np.float32), tolerance=1e-6, floor=1e-6)),
    ),
    Case("array_initialisers", TEXT["array_initialisers"], (_ints(np.where(_R & 1, 3, 1) + _R + np.where(_R & 1, _R, 2) + 5 + _R % 3),)),
]
