"""Complex SYR2K on matrix units: both of its products at once."""

from __future__ import annotations

import numpy as np
import pytest

import portatile
from portatile import Buffer
from portatile.device.base import Device
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.forms.gpu.point import matrix
from portatile.workloads.gemm.forms.gpu.triangle import doubled

FACTORS = ((1.0, 0.0), (-2.0 + 1j, 0.5j))  # alpha and beta


def random(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.random(shape) - 0.5 + 1j * (rng.random(shape) - 0.5)


@pytest.mark.parametrize(("uplo", "trans", "lanes"), [("L", "N", 8), ("U", "T", 8), ("L", "N", 4)])
def test_both_products_of_syr2k_at_once(gpu: Device, uplo: str, trans: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles on the diagonal, of one product and its transpose, and beside it."""
    point, rng = matrix((2, 2), (1, 1), 16, 3, lanes=lanes), np.random.default_rng(7)
    monkeypatch.setattr(zeros, "doubled", lambda called, *_: (point, doubled(2 * called.sizes["n"], point.rows)))
    for order, terms, factors in ((16, 16, FACTORS), (21, 20, FACTORS[1:]), (32, 9, FACTORS[:1]), (10, 33, FACTORS[1:])):
        a, b, c = random(rng, (order, terms)), random(rng, (order, terms)), random(rng, (order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = [Buffer.from_numpy(np.ascontiguousarray(one if trans == "N" else one.T), gpu) for one in (a, b)]
        for alpha, beta in factors:
            out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c), gpu)
            portatile.syr2k(*given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type,misc]
            expected = alpha * (a @ b.T + b @ a.T) + (beta * c if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(out.numpy()[~written] == c[~written])
