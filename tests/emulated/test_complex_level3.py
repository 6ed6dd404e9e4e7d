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


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("uplo", "trans", "lanes"), [("L", "N", 8), ("U", "T", 8), ("L", "N", 4), ("L", "C", 8)])
def test_both_products_of_syr2k_at_once(gpu: Device, uplo: str, trans: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles on the diagonal, of one product and its transpose, and beside it."""
    point, rng = matrix((2, 2), (1, 1), 16, 3, lanes=lanes), np.random.default_rng(7)
    monkeypatch.setattr(zeros, "doubled", lambda called, *_: (point, doubled(2 * called.sizes["n"], point.rows)))
    for order, terms, factors in ((16, 16, FACTORS), (21, 20, FACTORS[1:]), (32, 9, FACTORS[:1]), (10, 33, FACTORS[1:])):
        a, b, c = random(rng, (order, terms)), random(rng, (order, terms)), random(rng, (order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        stored = [one if trans == "N" else one.T if trans == "T" else one.conj().T for one in (a, b)]
        given = [Buffer.from_numpy(np.ascontiguousarray(one), gpu) for one in stored]
        for alpha, beta in factors:
            out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c), gpu)
            portatile.syr2k(*given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type,misc]
            expected = alpha * (a @ b.T + b @ a.T) + (beta * c if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(out.numpy()[~written] == c[~written])


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("uplo", "trans", "lanes"), [("L", "N", 8), ("U", "C", 8), ("L", "C", 4), ("U", "N", 4)])
def test_both_products_of_her2k_at_once(gpu: Device, uplo: str, trans: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first counts alpha times, the second its conjugate: real, imaginary and any; what is imaginary on the diagonal is not read."""
    point, rng = matrix((2, 2), (1, 1), 16, 3, lanes=lanes), np.random.default_rng(7)
    monkeypatch.setattr(zeros, "doubled", lambda called, *_: (point, doubled(2 * called.sizes["n"], point.rows)))
    for order, terms, factors in (
        (16, 16, ((1.5, 0.0), (-2.0 + 1j, 0.5), (3j, -1.0), (0.0, 2.0))),
        (37, 20, ((-2.0 + 1j, 0.5),)),
        (10, 33, ((3j, 0.0),)),
    ):
        a, b, c = random(rng, (order, terms)), random(rng, (order, terms)), random(rng, (order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = [Buffer.from_numpy(np.ascontiguousarray(one if trans == "N" else one.conj().T), gpu) for one in (a, b)]
        for alpha, beta in factors:
            held = np.where(written & (beta == 0), np.nan, c)
            np.fill_diagonal(held.imag, np.nan)
            out = Buffer.from_numpy(held, gpu)
            portatile.her2k(*given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type]
            expected = alpha * (a @ b.conj().T) + np.conj(alpha) * (b @ a.conj().T)
            expected += beta * (c - 1j * np.diag(np.diag(c).imag)) if beta else 0
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12, atol=1e-13)
            assert np.all(np.diag(out.numpy()).imag == 0)
            assert np.all(out.numpy()[~written] == c[~written])
