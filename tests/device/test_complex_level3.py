"""symm, syrk, syr2k, trmm and trsm of complex matrices, and hemm, herk, her2k, as users call them: against NumPy in complex128."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer
from portatile.device.base import Device
from portatile.errors import ArgumentError
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

TYPES = (np.complex64, np.complex128)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Any:
    """Random, row- or column-major."""
    result = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind)
    return result if rng.random() < 0.5 else np.asfortranarray(result)


def asked(device: Device, kind: Any) -> tuple[np.random.Generator, dict[str, float]]:
    if kind is np.complex128 and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    tolerance = 2e-4 if kind is np.complex64 else 1e-11
    return np.random.default_rng(new_seed(kind.__name__)), {"rtol": tolerance, "atol": tolerance}


def op(a: Any, how: str) -> Any:
    return a if how == "N" else a.T if how == "T" else a.conj().T


def triangle(a: Any, uplo: str, k: int = 0) -> Any:
    return np.tril(a, -k) if uplo == "L" else np.triu(a, k)


def hidden(a: Any, uplo: str) -> Any:
    """With NaN in the triangle that must not be read."""
    result = a.copy(order="A")
    result[triangle(np.ones(a.shape), "U" if uplo == "L" else "L", 1) > 0] = np.nan
    return result


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_products_with_half_a_matrix(device: Device, kind: Any, hermitian: bool) -> None:
    rng, close = asked(device, kind)
    routine = portatile.hemm if hermitian else portatile.symm
    for side in "LR":
        for uplo in "LU":
            m, n = (int(size) for size in rng.integers(2, 60, 2))
            order = m if side == "L" else n
            a, b, c = drawn(rng, (order, order), kind), drawn(rng, (m, n), kind), drawn(rng, (m, n), kind)
            half = triangle(a.astype(complex), uplo, 1)
            diagonal = np.diag(a).real if hermitian else np.diag(a)
            whole = half + (half.conj().T if hermitian else half.T) + np.diag(diagonal)
            want = (2 - 1j) * (whole @ b if side == "L" else b @ whole) + 0.5j * c
            given: dict[str, Any] = {"side": side, "uplo": uplo, "alpha": 2 - 1j, "beta": 0.5j}
            for out in (None, np.full((n, m), np.nan, kind).T):
                result = routine(hidden(a, uplo), b, c, out=out, device=device.info.id, **given)
                assert np.allclose(result, want, **close)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("pair", [False, True])
def test_updates(device: Device, kind: Any, hermitian: bool, pair: bool) -> None:
    """One triangle, in every transposition; the other one stays, also where the output is column-major."""
    rng, close = asked(device, kind)
    routine: Any = {(0, 0): portatile.syrk, (1, 0): portatile.herk, (0, 1): portatile.syr2k, (1, 1): portatile.her2k}[hermitian, pair]
    for trans in "NTC":
        for uplo in "LU":
            n, k = (int(size) for size in rng.integers(2, 50, 2))
            shape = (n, k) if trans == "N" else (k, n)
            a, b, c = drawn(rng, shape, kind), drawn(rng, shape, kind), drawn(rng, (n, n), kind)
            alpha = 0.5 if hermitian and not pair else 0.5 - 1j
            beta = -1.5 if hermitian else 0.25j
            left, right = op(a.astype(complex), trans), op((b if pair else a).astype(complex), trans)
            transposed = (lambda x: x.conj().T) if hermitian else (lambda x: x.T)
            want = alpha * left @ transposed(right)
            if pair:
                want = want + (np.conj(alpha) if hermitian else alpha) * right @ transposed(left)
            old = c - 1j * np.diag(np.diag(c).imag) if hermitian else c
            want = want + beta * old
            out = c.copy(order="A")
            factors = (a, b) if pair else (a,)
            routine(*factors, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out, device=device.info.id)
            assert np.allclose(triangle(out, uplo), triangle(want, uplo), **close)
            assert (triangle(out, "U" if uplo == "L" else "L", 1) == triangle(c, "U" if uplo == "L" else "L", 1)).all()
            if hermitian:
                assert (np.diag(out).imag == 0).all()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("solves", [False, True])
def test_triangles(device: Device, kind: Any, solves: bool) -> None:
    rng, close = asked(device, kind)
    routine = portatile.trsm if solves else portatile.trmm
    for side in "LR":
        for uplo in "LU":
            for trans in "NTC":
                diag = "NU"[int(rng.integers(2))]
                m, n = (int(size) for size in rng.integers(2, 40, 2))
                order = m if side == "L" else n
                a, b = drawn(rng, (order, order), kind), drawn(rng, (m, n), kind)
                a = (a / order + (2 - 1j) * np.eye(order)).astype(kind)
                half = op(triangle(a.astype(complex), uplo, 1) + (np.eye(order) if diag == "U" else np.diag(np.diag(a))), trans)
                matrix = np.linalg.inv(half) if solves else half
                want = (0.5 + 1j) * (matrix @ b if side == "L" else b @ matrix)
                given: dict[str, Any] = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "alpha": 0.5 + 1j}
                shown = hidden(a, uplo)
                if diag == "U":
                    np.fill_diagonal(shown, np.nan)
                assert np.allclose(routine(shown, b, device=device.info.id, **given), want, **close)
                x, y = Buffer.from_numpy(shown, device), Buffer.from_numpy(b, device)
                assert np.allclose(routine(x, y, **given).numpy(), want, **close)


def test_factors_that_are_not_real(device: Device) -> None:
    a = np.ones((3, 3), np.complex64)
    with pytest.raises(ArgumentError, match="not a real number"):
        portatile.herk(a, alpha=1j, device=device.info.id)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="not a real number"):
        portatile.her2k(a, a, a, beta=1j, device=device.info.id)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="not a real number"):
        portatile.trsm(np.ones((3, 3)), np.ones((3, 3)), alpha=1j, device=device.info.id)
    with pytest.raises(ArgumentError, match="float32, float64, complex64"):
        portatile.syrk(np.ones((3, 3), np.float16), device=device.info.id)
