"""Stacks of level-3 problems on matrix units: complex operands as they lie, and symmetric matrices of which one triangle is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer
from portatile.device.base import Device
from portatile.workloads import blocks, symm
from portatile.workloads.gemm.forms.gpu.point import matrix

TILES = {"rows": matrix((2, 1), (1, 2), 16, 3, lanes=8), "columns": matrix((1, 1), (2, 1), 16, 2, double=2, lanes=4)}


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    values = rng.random(shape) - 0.5
    return values + 1j * (rng.random(shape) - 0.5) if dtype == "complex128" else values


@pytest.mark.drawn(1)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("side", "uplo"), [("L", "L"), ("R", "U")])
def test_symmetric_matrices(gpu: Device, tile: str, dtype: str, side: str, uplo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole tiles and such as end within the matrix; beside the stored triangle is NaN."""
    monkeypatch.setattr(blocks, "in_stacks", lambda *_: TILES[tile])
    rng = np.random.default_rng(5)
    for order, other in ((32, 32), (70, 20), (21, 13)):
        m, n = (order, other) if side == "L" else (other, order)
        a, b, c = (random(rng, (2, *shape), dtype) for shape in ((order, order), (m, n), (m, n)))
        read = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        half = np.where(read, a, 0)
        whole = half + half.swapaxes(1, 2) - np.eye(order) * a
        expected = 0.5 * (whole @ b if side == "L" else b @ whole)
        given = [Buffer.from_numpy(x, gpu) for x in (np.where(read, a, np.nan), b, c)]
        out = portatile.symm(*given, side=side, uplo=uplo, alpha=0.5, beta=2.0)  # type: ignore[arg-type]
        np.testing.assert_allclose(out.numpy(), expected + 2 * c, rtol=1e-12, atol=1e-12)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("trans", ["N", "C"])
def test_complex_updates_and_triangles(gpu: Device, tile: str, trans: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands with k fast are not packed, and what lies beside a triangle becomes zero in local memory."""
    monkeypatch.setattr(blocks, "in_stacks", lambda *_: TILES[tile])
    rng = np.random.default_rng(6)
    for order, terms in ((32, 32), (21, 19)):
        a = random(rng, (2, order, terms) if trans == "N" else (2, terms, order), "complex128")
        op = a if trans == "N" else a.conj().swapaxes(1, 2)
        out = Buffer.from_numpy(np.full((2, order, order), 7j), gpu)
        portatile.herk(Buffer.from_numpy(a, gpu), uplo="L", trans=trans, out=out)  # type: ignore[arg-type]
        np.testing.assert_allclose(np.tril(out.numpy()), np.tril(op @ op.conj().swapaxes(1, 2)), rtol=1e-12, atol=1e-12)
        assert np.all(out.numpy()[:, ~np.tri(order, dtype=bool)] == 7j)
        t, b = random(rng, (2, order, order), "complex128"), random(rng, (2, order, terms), "complex128")
        half = np.tril(t, -1) + np.eye(order)
        half = half if trans == "N" else half.conj().swapaxes(1, 2)
        stored = np.where(np.tri(order, k=-1, dtype=bool), t, np.nan)
        result = portatile.trmm(Buffer.from_numpy(stored, gpu), Buffer.from_numpy(b, gpu), uplo="L", trans=trans, diag="U")  # type: ignore[arg-type]
        np.testing.assert_allclose(result.numpy(), half @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("sharing", [{}, {"SPLIT_K": 2, "JOIN": True}, {"SPLIT_K": 2, "CLUSTER": 2}])
@pytest.mark.parametrize(("side", "uplo"), [("L", "U"), ("R", "L")])
def test_one_symmetric_matrix(gpu: Device, sharing: dict[str, Any], side: str, uplo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one product reads its triangle, by a group for each tile or by several that share k."""
    monkeypatch.setattr(blocks, "in_stacks", lambda *_: replace(TILES["rows" if side == "L" else "columns"], **sharing))
    monkeypatch.setattr(symm, "reads_triangle", lambda *_: True)
    rng = np.random.default_rng(8)
    order, other = 75, 21
    m, n = (order, other) if side == "L" else (other, order)
    a, b, c = (rng.random(shape) - 0.5 for shape in ((order, order), (m, n), (m, n)))
    read = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
    half = np.where(read, a, 0)
    whole = half + half.T - np.diag(np.diag(a))
    given = [Buffer.from_numpy(x, gpu) for x in (np.where(read, a, np.nan), b, c)]
    out = portatile.symm(*given, side=side, uplo=uplo, alpha=0.5, beta=2.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(out.numpy(), 0.5 * (whole @ b if side == "L" else b @ whole) + 2 * c, rtol=1e-12, atol=1e-12)
