"""The device switches that both preludes define: one text must compute the same where they exist and where they fall back."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Out, floats, texts

TEXT = texts("switches.cl")

_A = floats(512)
_D = floats(64, dtype="float64")
_V = _A[:128].reshape(32, 4)

CASES: list[Case] = [
    Case("switch_back_end", TEXT["switch_back_end"], (Out(np.ones(32, np.int32)),)),
    Case(
        "ldg",
        TEXT["ldg"],
        (
            In(_A[:128]),
            In(_A[128:160]),
            In(_D),
            In(np.arange(64, dtype=np.int32)),
            Out(
                (
                    _V + np.stack([_A[128:160], _D[1::2].astype(np.float32), 4 * np.arange(32) + 1, np.zeros(32)], 1).astype(np.float32)
                ).reshape(-1),
                tolerance=1e-6,
                floor=1e-6,
            ),
        ),
    ),
    Case(
        "lds",
        TEXT["lds"],
        (
            In(_A[:128]),
            Out(
                (_V[::-1] + np.stack([np.arange(32) ^ 1, (np.arange(32) ^ 2) + 1, _A[:32], np.zeros(32)], 1).astype(np.float32)).reshape(
                    -1
                ),
                tolerance=1e-6,
                floor=1e-6,
            ),
        ),
    ),
    Case(
        "copy_async",
        TEXT["copy_async"],
        (
            In(_A),
            Out(
                (
                    _V[::-1]
                    + _A[128:256].reshape(32, 4)[::-1]
                    + np.stack([_A[np.arange(32) ^ 1], *_A[:64].reshape(32, 2)[np.arange(32) ^ 1].T, np.zeros(32)], 1).astype(np.float32)
                ).reshape(-1),
                tolerance=1e-6,
                floor=1e-6,
            ),
        ),
    ),
    Case(
        "copy_async_if",
        TEXT["copy_async_if"],
        (
            In(_A),
            Out(
                (
                    lambda j: (
                        (
                            np.where((j < 20)[:, None], _V[j], 0)
                            + np.stack(
                                [np.where(j > 20, _A[j], 0), *(np.where((j != 20)[:, None], _A[:64].reshape(32, 2)[j], 0)).T, np.zeros(32)],
                                1,
                            )
                        )
                        .astype(np.float32)
                        .reshape(-1)
                    )
                )(np.arange(31, -1, -1)),
                tolerance=1e-6,
                floor=1e-6,
            ),
            np.int32(20),
        ),
    ),
    Case(
        "shuffles",
        TEXT["shuffles"],
        (
            In(_A[:32]),
            In(_D[:32]),
            Out(
                (lambda i: _A[i ^ 5] + 3 + _D[i ^ 1] + np.where(i < 30, _A[(i + 2) % 32], 0) + np.where(i >= 4, _A[i - 4], 0))(
                    np.arange(32)
                ).astype(np.float32),
                tolerance=2e-6,
                floor=2e-6,
            ),
        ),
    ),
    Case(
        "rsqrt_approx",
        TEXT["rsqrt_approx"],
        (In(_A[:32]), Out((1 / np.sqrt(_A[:32].astype(float) ** 2 + 1)).astype(np.float32), tolerance=2e-3)),
    ),
    Case("inline_ptx", TEXT["inline_ptx"], (In(_A[:32]), Out(_A[np.arange(32) ^ 1]))),
    Case("min_groups", TEXT["min_groups"], (In(_A[:32]), Out(_A[:32] + 1))),
]
