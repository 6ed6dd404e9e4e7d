"""Customs of C that C++ does not share: designators, GNU's extensions, tags, layouts."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Local, Out, Picture, floats, texts

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
_PLAIN = {"Portable Computing Language": "its array literals are in no address space", "Intel": "the same", "NVIDIA": "not known"}
_TIGHT = np.random.default_rng(11).integers(0, 256, 5 * 32, np.uint8)
_FAR = np.random.default_rng(12).integers(0, 256, 32).astype(np.int32)


def _literals() -> np.ndarray:
    first = _I[:32] + 2 + np.array([1, 2, 4, 8, 16])[_R % 5] + 6 + np.where(_R & 1, 4, _R)
    listed = np.stack([_R * 0, _R, _R * 0, _R * 0 + 7, _R * 0 + 8], 1)[_R, _R % 5]
    return first + listed + ord("a") + _R % 3 + np.where(_R & 1, 3, _R) + _R


def _truth() -> np.ndarray:
    """What the kernel ``counted_truth`` computes."""
    found = []
    for i in range(32):
        f, g, n = [i & 1, (i & 2) // 2], 0, 0
        b = c = (i & 4) // 4
        n += f[0] + 2 * f[1]
        f, g = [1, 1 - f[1]], 1
        b, old = 1, b
        if old:
            n, c = n + 4 * (not c), 1 - c
        c = 1
        n += 8
        found.append(n + f[0] * 16 + f[1] * 32 + g * 64 + b * 128 + c * 256 + 4 * 512)
    return np.array(found)


def _packed() -> np.ndarray:
    items = _TIGHT.view(np.dtype([("c", np.int8), ("n", np.int32)]))
    return (items["n"].astype(np.int64) + items["c"] + 4 + 5 + 16 * 8 + 256 * 8 + 4096 * 16).astype(np.int32)


def _shifted() -> np.ndarray:
    x, n = _I[:32].astype(np.int64), _FAR.astype(np.int64) & 31

    def whole(values: np.ndarray) -> np.ndarray:
        return values.astype(np.int32).astype(np.int64)

    s = (np.where(_R == 8, 5, x) << n) & 0xFFFFFFFF
    by = np.where(_R > 3, n, _R)
    return (
        whole(x << n) + (x >> n) + ((x & 0xFFFFFFFF) >> n) + ((x << 20) >> (_FAR & 63)) + whole(whole(1 << n) << 2) + s + (x >> n)
        + whole(x << n) + np.where(_R & 1, 4, 8) + whole(x << by) + (np.int64(1) << (-_FAR.astype(np.int64) & 63))
    )  # fmt: skip


CASES: list[Case] = [
    Case("designators_in_any_order", TEXT["designators_in_any_order"], (_int(_designated()),)),
    Case("union_designators", TEXT["union_designators"], (Out((5 + _R + 0x3F800000 + 2).astype(np.uint32)),)),
    Case("members_of_types_without_a_name", TEXT["members_of_types_without_a_name"], (_int(2 * _R + 3 + 0x40000000 + 9 + 7 + 20 + 1 + 1),)),
    Case("pointers_through_parentheses", TEXT["pointers_through_parentheses"], (In(_I), _int(_I[:32] + 20 + 1 + 7 + 7 + 1))),
    Case(
        "local_arrays_and_pointers_in_one_declaration",
        TEXT["local_arrays_and_pointers_in_one_declaration"],
        (In(_I), _int(2 * _I[:32] + 3)),
    ),
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
    Case("array_literals", TEXT["array_literals"], (In(_I), _int(_literals()))),
    Case(
        "array_literals_as_pointers",
        TEXT["array_literals_as_pointers"],
        (In(_I), _int(2 * _I[:32] + 4 + (_I[:32] ^ 4) + np.where(_R & 1, 5, 7) + (_R >> 4) + _R + 2 + 1 + _R)),
        without=_PLAIN,
    ),
    Case(
        "parameters_behind_the_bracket",
        TEXT["parameters_behind_the_bracket"],
        (In(_A), Out((3 * _A + _R + 6).astype(np.float32), tolerance=1e-6, floor=1e-5)),
    ),
    Case(
        "overloads_of_address_spaces",
        TEXT["overloads_of_address_spaces"],
        (In(_A), Out((_A + 2 * _A[_R ^ 1] + 1 + _R + 15 + 3 * _R).astype(np.float32), tolerance=1e-6, floor=1e-5)),
    ),
    Case("counted_truth", TEXT["counted_truth"], (_int(_truth()),)),
    Case("attributes_behind_members", TEXT["attributes_behind_members"], (In(_TIGHT), _int(_packed()))),
    Case("shifts_beyond_the_width", TEXT["shifts_beyond_the_width"], (In(_I), In(_FAR), Out(_shifted()))),
    Case(
        "characters_and_comparisons_are_integers",
        TEXT["characters_and_comparisons_are_integers"],
        (
            In(_I),
            _int(
                4 + (_I[:32] > 1) + (_I[:32] > 2) + np.where(_I[:32] < 0, 31, 32) + 1 + ord("x") + np.array([97, 98, 92])[_R % 3],
            ),
        ),
    ),
    Case(
        "layouts",
        TEXT["layouts"],
        (_int(np.array([8, 32, 32, 4, 5, 22, 6, 5, 16, 96, 16, 28, 6, 5, 1, 11, 4, 32])),),
        (1, 1, 1),
        (1, 1, 1),
    ),
]
