"""Habits of public programs: what they write in ways of their own, each once the reason why one of them did not build or run."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Out, Picture, floats, texts

TEXT = texts("habits.cl")

_R = np.arange(32)
_INTEGERS = np.random.default_rng(3).integers(-900, 900, 34).astype(np.int32)
_A = floats(128)
_B = floats(128, seed=1)
_V, _W = _A.reshape(32, 4), _B.reshape(32, 4)
_H = _A.astype(np.float16)
_P = floats(8 * 4).reshape(8, 4)


def _smooth(x: np.ndarray) -> np.ndarray:
    t = np.clip(x / 2, 0, 1)
    return t * t * (3 - 2 * t)


def _near(values: np.ndarray) -> Out:
    return Out(values.astype(np.float32).reshape(-1), tolerance=4e-6, floor=4e-6)


def _scalars() -> tuple[Out, Out]:
    one = _V.sum(1) * 2.5 + np.linalg.norm(_V - 1, axis=1) + np.linalg.norm(_V, axis=1) + _smooth(_V[:, 0])
    return _near(one + (_V[:, 1] > 0) + abs(1 - _V[:, 2])), _near(np.where(_V < 1, _V, 0) + _smooth(_V) + (_V < 0.5))


def _moved() -> np.ndarray:
    a = _A[2:]
    return np.concatenate([[7], a[:32] + a[2]]).astype(np.float32)


def _chained() -> np.ndarray:
    result = np.where(_V > _W, _V, np.where(_W > 0, _W * 2, 7))
    result[:, 0] += np.sign(_V[:, 1] - _W[:, 1])
    return result


def _nulls() -> np.ndarray:
    whole = np.where(_V < 0, 0, np.trunc(_V * 8))
    return np.where(_V[:, :1] > 0, _V, _V[0]) + np.maximum(_V[:, 1:2], 0) + whole


def _names() -> tuple[Out, Out]:
    xy = _V[:, :2]
    moved = np.concatenate([xy[:, ::-1] + 2 * xy, _V[:, 2:]], 1)
    moved[:, 1] += 2 * _R + 2
    after = np.stack([moved[:, 0], moved[:, 1], _V[:, 3] + 3, _V[:, 2] + xy[:, 1]], 1)
    wide = np.zeros((32, 6), np.float32)
    wide.view(np.uint32)[:, 0], wide.view(np.uint32)[:, 1] = _R, _R + 2
    wide[:, 2], wide[:, 3], wide[:, 4] = 3, xy[:, 1], _V[:, 2]
    return _near(after), Out(wide.reshape(-1), before=np.zeros(192, np.float32))


def _half_vectors() -> Out:
    a = _H.reshape(32, 4).astype(np.float32)
    found = np.clip(abs(a) + np.sqrt(abs(a)), 0.5, 1.5) + np.maximum(a, 0)
    found[:, 0] = abs(a[:, 0]) + 4 * a[:, 1]
    return Out(found.astype(np.float16).reshape(-1), tolerance=4e-3, floor=4e-3)


def _int(values: np.ndarray) -> Out:
    return Out(values.astype(np.int32))


def _pointers() -> np.ndarray:
    a = _INTEGERS
    return a[1] + a[2] + a[2] + a[2:34] + (a[:32] & 255) + 0x3F800000 + a[0] + a[1] + a[3]


def _jumps() -> np.ndarray:
    s = 3 * _R + 3 + 2 + np.array([100, 10, 3, 3])[_R % 4]
    return np.where(_R > 20, 0, s)


CASES: list[Case] = [
    Case("scalars_in_place_of_vectors", TEXT["scalars_in_place_of_vectors"], (In(_A), *_scalars())),
    Case(
        "parameters_that_move",
        TEXT["parameters_that_move"],
        (In(_A), np.uint32(8), Out(_moved(), before=np.full(33, 7, np.float32), tolerance=1e-6, floor=1e-6)),
    ),
    Case("chained_choices", TEXT["chained_choices"], (In(_A), In(_B), _near(_chained()))),
    Case("null_in_choices", TEXT["null_in_choices"], (In(_A), _near(_nulls()))),
    Case(
        "constants_of_constants",
        TEXT["constants_of_constants"],
        (_near(np.where(_R & 1, 8, 5.2) + np.array([1, 2, 255])[_R % 3] + 9),),
        without={"opencl: NVIDIA": "its compiler takes no constant that is made of others"},
    ),
    Case("members_and_swizzles_of_one_name", TEXT["members_and_swizzles_of_one_name"], (In(_A), *_names())),
    Case("bits_of_another_type", TEXT["bits_of_another_type"], (In(_A), Out((_A + np.float32(1)).view(np.int32)))),
    Case("half_vectors", TEXT["half_vectors"], (In(_H), _half_vectors())),
    Case(
        "image_at_any_integer",
        TEXT["image_at_any_integer"],
        (Picture(_P, type="image1d_buffer_t"), np.uint32(5), _near(_P[_R & 7] + _P[5] + _P[3])),
    ),
    Case("pointers_without_casts", TEXT["pointers_without_casts"], (In(_INTEGERS), _int(_pointers()))),
    Case("names_of_others", TEXT["names_of_others"], (_int(_R + 5 + 2 + 3 + (_R <= 5) + 7 + 1 + _R % 2 + 2 + 6),)),
    Case("structures_as_results", TEXT["structures_as_results"], (_int(3 * _R + 2 + _R + 0x3F800000),)),
    Case("types_inside_types", TEXT["types_inside_types"], (_int(2 * _R + 4 + 3 + 11 + 5 + 10 + _R % 2),)),
    Case("numbers_beside_signs", TEXT["numbers_beside_signs"], (_int(15 + 47 + 2 * _R + _R + 100 - 3 + 12 + (_R & -_R)),)),
    Case("older_designators", TEXT["older_designators"], (_near(_R + 4),)),
    Case("jumps_over_vectors", TEXT["jumps_over_vectors"], (_near(_jumps()),)),
    Case(
        "words_of_gnu",
        TEXT["words_of_gnu"],
        (_int(np.where(_R, _R, 9) + 2 * _R + 4202 + 11 + 2 + 28 + 1 + 2 + 10), np.int32(9), np.uint32(10)),
    ),
]
