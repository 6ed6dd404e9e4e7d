"""Customs of C that C++ does not share: designators, GNU's extensions, tags, layouts."""

from __future__ import annotations

import numpy as np

from battery.case import Case, In, Local, Out, Picture, floats, texts

TEXT = texts("customs.cl")

_R = np.arange(32)
_A = floats(32)
_F = floats(128)
_I = np.random.default_rng(7).integers(-50, 50, 128).astype(np.int32)
_P = floats(7 * 5 * 4).reshape(5, 7, 4)


def _int(values: np.ndarray) -> Out:
    return Out(values.astype(np.int32))


def _swizzled() -> np.ndarray:
    a, b = _I.reshape(32, 4), _I[::-1].reshape(32, 4)
    o = np.where(a < b, b[:, ::-1], np.stack([a[:, 0], a[:, 0] * 0 + 7] * 2, 1))
    o[:, :2] += np.where(a[:, :2] > b[:, :2], a[:, :2], np.where(a[:, :2] < -5, b[:, ::2], a[:, 1::2]))
    return o.reshape(-1)


def _signs() -> np.ndarray:
    a, b, w = np.array([1, 2, 3, 4])[_R % 4], np.array([100, 200, 300, 400])[_R % 4], np.array([10, 20])[_R % 2]
    a = a + b + _R + w
    return a + b + a + _R + np.array([100, 200])[_R % 2]


def _designated() -> np.ndarray:
    fixed, several, places = 4 + 7 + 90 + 4, np.array([5, 6]), np.array([10, 11, 0, 30, 40])
    ranges = np.array([0, 2, 2, 2, 0, 1])
    return fixed + places[_R % 5] + several[_R & 1] + 8 + 6 + 1 + 0 + ranges[_R % 6] + _R + 2 + 3 + _R * 3


_FOUR = _F.reshape(32, 4)

CASES: list[Case] = [
    Case("designators_in_any_order", TEXT["designators_in_any_order"], (_int(_designated()),)),
    Case("union_designators", TEXT["union_designators"], (Out((5 + _R + 0x3F800000 + 2).astype(np.uint32)),)),
    Case("statement_expressions", TEXT["statement_expressions"], (In(_I), _int(2 * _R + np.minimum(_I[:32], 7 * _R) + 1))),
    Case("case_ranges", TEXT["case_ranges"], (_int(np.select([_R == 0, _R < 10, (_R > 14) & (_R < 21)], [1, 2, 3], 4)),)),
    Case("kernel_named_like_keyword", TEXT["kernel_named_like_keyword"], (In(_I), _int(_I[:32] & 3)), kernel="and"),
    Case("array_parameters", TEXT["array_parameters"], (_int(_R + 7),)),
    Case("volatile_structures", TEXT["volatile_structures"], (_int(_R - 3),)),
    Case("local_structure_without_name", TEXT["local_structure_without_name"], (In(_A), Out((_A + _R).astype(np.float32)[::-1].copy()))),
    Case(
        "scalars_before_vectors",
        TEXT["scalars_before_vectors"],
        (
            In(_F),
            In(_I),
            Out((np.maximum(0.5, _F) + 2.0**_F + np.clip(_F, 0, 1) + 0.5 * _F).astype(np.float32), tolerance=1e-5, floor=1e-5),
            _int(np.maximum(np.repeat(_R, 4), _I) + np.minimum(_I, 3)),
        ),
    ),
    Case("return_through_pointer", TEXT["return_through_pointer"], (Out((9 * _R + 4).astype(np.uint32)),)),
    Case("enumeration_tags", TEXT["enumeration_tags"], (_int(np.where(_R & 1, 5, 0) + 8 + 3),)),
    Case(
        "three_components_in_memory",
        TEXT["three_components_in_memory"],
        (
            In(_F),
            _int(
                np.concatenate(
                    [
                        (2 * np.trunc(_FOUR)[:, :3] + [0, 0, 1]).reshape(-1),
                        np.full(32, 48 + 400 + 8000),
                        np.full(32, 16 + 3200 + 400000),
                    ]
                )
            ),
        ),
    ),
    Case("choices_that_end_in_swizzles", TEXT["choices_that_end_in_swizzles"], (In(_I), In(_I[::-1].copy()), _int(_swizzled()))),
    Case("arrays_of_another_sign", TEXT["arrays_of_another_sign"], (_int(_signs()), Local(128))),
    Case("macros_of_the_language", TEXT["macros_of_the_language"], (_int(np.full(32, 127)),)),
    Case("comments_in_macros", TEXT["comments_in_macros"], (_int(2 * _R + 1 + 13),)),
    Case("image_queries", TEXT["image_queries"], (Picture(_P), _int(np.full(32, 7 + 500 + 1110000)))),
    Case(
        "typedefs_with_attributes",
        TEXT["typedefs_with_attributes"],
        (
            In(_F),
            Out((_FOUR[:, 0] + 3 * _FOUR[:, 2] + 220).astype(np.float32), tolerance=1e-6),
            _int(np.stack([_R + 1, _R * 0 + 2, _R * 0 + 3, _R * 0 + 4], 1).reshape(-1)),
        ),
    ),
]
