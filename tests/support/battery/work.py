"""Work-items, barriers, fences and atomic functions."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Out, floats, integers, texts

TEXT = texts("work.cl")

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


_OLD = {"Portable Computing Language": "functions of OpenCL C 2", "NVIDIA": "functions of OpenCL C 2", "Intel": "functions of OpenCL C 2"}


def _sub_groups() -> np.ndarray:
    """Work-groups of 40: a whole warp and one of 8."""
    result = []
    for first in (0, 40):
        for low, high in ((0, 32), (32, 40)):
            x, n = _I[first + low : first + high].astype(np.int64), high - low
            before = np.concatenate([[0], np.cumsum(x & 7)[:-1]])
            s = (x & 15).sum() + np.maximum.accumulate(x & 63) + before
            s = s + (x[3] & 31) + 1000 * (x & 1).all() + 2000 * (x == 5).any() + (np.arange(low, high) ^ 1)
            result.append(s + 200000 + 10000 * (low // 32) + n * 1000000)
    return np.concatenate(result).astype(np.int32)


def _group_functions() -> tuple[np.ndarray, np.ndarray]:
    whole, real = [], []
    for x, b in zip(_I[:80].reshape(2, 40).astype(np.int64), floats(80).reshape(2, 40), strict=True):
        before = np.concatenate([[0], np.cumsum(x & 3)[:-1]])
        whole.append((x & 15).sum() + 1000 * before + 1000000 * (x | 1).all() + 2000000 * (x & 1).any() + (x[5] & 31))
        real.append(b.max() + np.minimum.accumulate(b))
    return np.concatenate(whole).astype(np.int32), np.concatenate(real).astype(np.float32)


def _ballots() -> np.ndarray:
    """Two work-groups of 32, a sub-group each."""
    rows = []
    for g in range(2):
        x, lanes = _I[32 * g : 32 * g + 32].astype(np.int64), np.arange(32)
        b = (x > 0).astype(np.int64)
        every = np.ones(32, np.int64)
        rows.append(
            [
                every * int((b << lanes).sum()), every * b.sum(), lanes == 0, every * x[0], every * x[3], np.cumsum(b) - b, np.cumsum(b),
                every * b.argmax(), b, np.repeat((x & 31).reshape(4, 8).sum(1), 8), np.repeat(x.reshape(2, 16).max(1), 16), np.roll(x, -1),
                every * b.sum(), every * (x & 255).sum(), np.cumsum(b) - b, np.concatenate([x[3:], 32 * g + lanes[:3]]),
            ]
        )  # fmt: skip
    return np.concatenate([np.stack(row, 1).reshape(-1) for row in rows]).astype(np.int32)


CASES: list[Case] = [
    Case(
        "explicit_atomics",
        TEXT["explicit_atomics"],
        (
            In(_I),
            Out(
                np.array([(_I & 3).sum(), -_I.sum(dtype=np.int32), _I.min(), _I.max(), 9, 4], np.int32),
                before=np.array([0, 0, 2**31 - 1, -(2**31), 3, 6], np.int32),
            ),
            Out(
                np.array([np.bitwise_and.reduce(_I | 255), np.bitwise_or.reduce(_I & 0xFF0), np.bitwise_xor.reduce(_I)], np.int32).view(
                    np.uint32
                ),
                before=np.array([2**32 - 1, 0, 0], np.uint32),
            ),
            Out(np.array([1, 0, 69, 300], np.float32)),
        ),
        (96, 1, 1),
        (32, 1, 1),
        options=("-cl-std=CL3.0",),
        without={"NVIDIA": "functions of OpenCL C 2"},
    ),
    Case("ballots", TEXT["ballots"], (In(_I), Out(_ballots())), (64, 1, 1), (32, 1, 1), without=_OLD),
    Case("sub_groups", TEXT["sub_groups"], (In(_I), Out(_sub_groups())), (80, 1, 1), (40, 1, 1), without=_OLD),
    Case(
        "work_group_functions",
        TEXT["work_group_functions"],
        (In(_I), In(floats(80)), *map(Out, _group_functions())),
        (80, 1, 1),
        (40, 1, 1),
        without=_OLD,
    ),
    Case("index_functions", TEXT["index_functions"], (Out(_indices()),), (8, 6, 2), (4, 3, 2)),
    Case(
        "index_beyond_three",
        TEXT["index_beyond_three"],
        (Out(np.full(32, 3, np.int32)),),
        without={"Portable Computing Language": "it gives 0 for sizes beyond the third"},
    ),
    Case(
        "index_by_variable",
        TEXT["index_by_variable"],
        (Out((100 * (np.arange(32) % 8) + np.arange(32) // 8).astype(np.int32)),),
        (8, 4, 1),
        (8, 4, 1),
    ),
    Case("required_work_group", TEXT["required_work_group"], (Out((3200 + np.arange(64) % 32).astype(np.int32)),), (64, 1, 1), (32, 1, 1)),
    Case("barrier_loop", TEXT["barrier_loop"], (In(_I), Out(np.cumsum(_I, dtype=np.int32))), (96, 1, 1), (96, 1, 1)),
    Case("fences", TEXT["fences"], (Out(np.arange(1, 33, dtype=np.int32)),)),
    Case(
        "atomic_arithmetic",
        TEXT["atomic_arithmetic"],
        (
            In(_I),
            Out(
                np.array(
                    [
                        _I.sum(dtype=np.int32),
                        -_I.sum(dtype=np.int32),
                        96,
                        -96,
                        _I.min(),
                        _I.max(),
                        np.bitwise_and.reduce(_I | 255),
                        np.bitwise_or.reduce(_I & 0xFF0),
                        np.bitwise_xor.reduce(_I),
                    ],
                    np.int32,
                ),
                before=np.array([0, 0, 0, 0, 2**31 - 1, -(2**31), -1, 0, 0], np.int32),
            ),
        ),
        (96, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "atomic_unsigned",
        TEXT["atomic_unsigned"],
        (In(_U), Out(np.array([_U.min(), _U.max(), 288], np.uint32), before=np.array([2**32 - 1, 0, 0], np.uint32))),
        (96, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "atomic_old_value",
        TEXT["atomic_old_value"],
        (Out(np.array([96], np.int32), before=np.zeros(1, np.int32)), Out(np.full(96, 7, np.int32))),
        (96, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "atomic_exchange",
        TEXT["atomic_exchange"],
        (
            Out(np.array([2.5], np.float32), before=np.array([1.5], np.float32)),
            Out(np.array([9], np.int32), before=np.array([3], np.int32)),
            Out(np.array([1.5, 3, 9], np.float32)),
        ),
    ),
    Case(
        "atomic_float_loop",
        TEXT["atomic_float_loop"],
        (
            In(np.round(floats(32) * 8) / 8),
            Out(np.array([np.sum(np.round(floats(32) * 8) / 8)], np.float32), before=np.zeros(1, np.float32)),
        ),
    ),
    Case(
        "atomic_long",
        TEXT["atomic_long"],
        (
            In(_L),
            Out(np.array([_L.sum(), _L.max(), 96, np.bitwise_xor.reduce(_L)], np.int64), before=np.array([0, -(2**63), 0, 0], np.int64)),
        ),
        (96, 1, 1),
        (32, 1, 1),
    ),
]
