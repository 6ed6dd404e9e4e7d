"""TRMM and TRSM with a result beside B, as NVIDIA's GPUs compute them: what lies beside the triangle is not used."""

from __future__ import annotations

import numpy as np
import pytest

import portatile
from portatile import Buffer
from portatile.device.base import Device

CASES = [
    *(("trmm", "float64", "LLNU"), ("trmm", "float64", "RLTN"), ("trmm", "float32", "LUTN"), ("trmm", "float32", "RUNU")),
    *(("trsm", "float64", "RUNN"), ("trsm", "float32", "LLTU")),
]


def triangle(order: int, uplo: str, diag: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """A triangle near the identity as it is stored, NaN beside it, and as it counts."""
    rng = np.random.default_rng(order)
    stored = (rng.random((order, order)) / order).astype(dtype) + np.eye(order, dtype=dtype)
    read = np.tri(order, k=-1 if diag == "U" else 0, dtype=bool)
    read = read.T if uplo == "U" else read
    counts = np.where(read, stored, 0).astype(np.float64) + (np.eye(order) if diag == "U" else 0)
    return np.where(read, stored, np.nan).astype(dtype), counts


@pytest.mark.parametrize(("routine", "dtype", "case"), CASES)
def test_a_result_beside_b(gpu: Device, routine: str, dtype: str, case: str) -> None:
    side, uplo, trans, diag = case
    m, n = (40, 12) if side == "L" else (12, 40)
    stored, counts = triangle(40, uplo, diag, dtype)
    b = np.random.default_rng(1).random((m, n)).astype(dtype)
    op = counts.T if trans == "T" else counts
    op = np.linalg.inv(op) if routine == "trsm" else op
    expected = op @ b if side == "L" else b @ op
    a, given, out = (Buffer.from_numpy(x, gpu) for x in (stored, b, np.full_like(b, np.nan)))
    call = getattr(portatile, routine)
    for alpha in (0.5, 0.0):
        assert call(a, given, side=side, uplo=uplo, trans=trans, diag=diag, alpha=alpha, out=out) is out
        np.testing.assert_allclose(out.numpy(), alpha * expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(given.numpy(), b)
