"""Complex level 3 on matrix units: one triangle of a symmetric matrix read by the product, and both products of SYR2K at once."""

from __future__ import annotations

import numpy as np
import pytest

import portatile
from portatile import Buffer
from portatile.device.base import Device
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.forms.gpu.point import matrix
from portatile.workloads.gemm.forms.gpu.triangle import doubled


def random(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.random(shape) - 0.5 + 1j * (rng.random(shape) - 0.5)


@pytest.mark.parametrize(("side", "uplo"), [("L", "U"), ("R", "L")])
def test_symmetric_matrices(gpu: Device, side: str, uplo: str) -> None:
    """In the default tile; beside the stored triangle is NaN."""
    rng, order = np.random.default_rng(5), 45
    m, n = (order, 20) if side == "L" else (20, order)
    a, b = random(rng, (order, order)), random(rng, (m, n))
    read = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
    half = np.where(read, a, 0)
    whole = half + half.T - np.diag(np.diag(a))
    out = portatile.symm(Buffer.from_numpy(np.where(read, a, np.nan), gpu), Buffer.from_numpy(b, gpu), side=side, uplo=uplo)  # type: ignore[arg-type]
    np.testing.assert_allclose(out.numpy(), whole @ b if side == "L" else b @ whole, rtol=1e-12)


@pytest.mark.parametrize(("uplo", "trans", "lanes"), [("L", "N", 8), ("U", "T", 8), ("L", "N", 4)])
def test_both_products_of_syr2k_at_once(gpu: Device, uplo: str, trans: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles on the diagonal, of one product and its transpose, and beside it."""
    point, rng = matrix((2, 2), (1, 1), 16, 3, lanes=lanes), np.random.default_rng(7)
    monkeypatch.setattr(zeros, "doubled", lambda called, *_: (point, doubled(2 * called.sizes["n"], point.rows)))
    for order, terms in ((16, 16), (37, 20), (10, 33)):
        a, b, c = random(rng, (order, terms)), random(rng, (order, terms)), random(rng, (order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = [Buffer.from_numpy(np.ascontiguousarray(one if trans == "N" else one.T), gpu) for one in (a, b)]
        for alpha, beta in ((1.0, 0.0), (-2.0 + 1j, 0.5j)):
            out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c), gpu)
            portatile.syr2k(*given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type,misc]
            expected = alpha * (a @ b.T + b @ a.T) + (beta * c if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(out.numpy()[~written] == c[~written])
