"""Random calls of every routine on NumPy arrays, with the result that each must have and how far it may be from it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import portatile

Array = NDArray[Any]


@dataclass(frozen=True)
class Call:
    """``run(out)`` computes into ``out``, an array like ``empty``; ``exact`` and ``allowed`` are of float64, element by element."""

    name: str
    run: Callable[[Array], object]
    empty: Array
    exact: Array
    allowed: Array


def draw(rng: random.Random, device: str | None, largest: int = 96, data: int = 0) -> Call:
    """A call of a random routine, with sizes up to ``largest``; ``data``: other numbers in arrays that lie alike."""
    made = rng.choice(_ALL)
    return made(rng, np.random.default_rng((rng.getrandbits(32), data)), device, largest)


def draw_named(name: str, rng: random.Random, device: str | None, largest: int) -> Call:
    """A call of one routine."""
    return next(one for one in _ALL if one.__name__ == f"_{name}")(rng, np.random.default_rng(rng.getrandbits(32)), device, largest)


def names() -> list[str]:
    """The routines."""
    return [one.__name__[1:] for one in _ALL]


def _array(rng: random.Random, np_rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Random numbers, in either order, in a wider array at times."""
    wide = [n + rng.choice((0, 0, 3)) for n in shape]
    whole = np_rng.uniform(-1, 1, wide).astype(dtype)
    if len(shape) == 2 and rng.random() < 0.4:
        whole = np.asfortranarray(whole)
    return whole[tuple(slice(0, n) for n in shape)]


def _u(dtype: str) -> float:
    return 2.0**-24 if dtype == "float32" else 2.0**-53


def _sizes(rng: random.Random, count: int, largest: int) -> list[int]:
    return [rng.choice((1, 2, 3, rng.randint(1, 16), rng.randint(1, largest))) for _ in range(count)]


def _triangle(a: Array, uplo: str) -> Array:
    return np.tril(a) if uplo == "L" else np.triu(a)


def _bound(terms: Array, k: int, dtype: str, more: int = 8) -> Array:
    """(k + some) u of the magnitudes of the terms: any order of the sum; Higham, Accuracy and Stability, section 3.1, twice that."""
    return 2 * (k + more) * _u(dtype) * terms + 1e-300


def _gemm(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    dtype, (m, n, k) = rng.choice(("float32", "float64")), _sizes(rng, 3, largest)
    ta, tb = rng.choice("NT"), rng.choice("NT")
    a = _array(rng, np_rng, dtype, *((m, k) if ta == "N" else (k, m)))
    b = _array(rng, np_rng, dtype, *((k, n) if tb == "N" else (n, k)))
    c, alpha, beta = _array(rng, np_rng, dtype, m, n), rng.uniform(-2, 2), rng.choice((0.0, 1.0, rng.uniform(-2, 2)))
    x, y = (one.astype(np.float64) if t == "N" else one.T.astype(np.float64) for one, t in ((a, ta), (b, tb)))
    exact = alpha * x @ y + beta * c
    scale = abs(alpha) * np.abs(x) @ np.abs(y) + np.abs(beta * c)
    how: dict[str, Any] = {"alpha": alpha, "beta": beta, "trans_a": ta, "trans_b": tb, "device": device}
    return Call("gemm", lambda out: portatile.gemm(a, b, c, out=out, **how), np.empty((m, n), dtype), exact, _bound(scale, k, dtype))


def _matmul(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    dtype, (m, n, k) = rng.choice(("float32", "float64")), _sizes(rng, 3, largest)
    batch = rng.choice(((), (2,), (3, 2)))
    a, b = np_rng.uniform(-1, 1, (*batch, m, k)).astype(dtype), np_rng.uniform(-1, 1, (*batch, k, n)).astype(dtype)
    x, y = a.astype(np.float64), b.astype(np.float64)
    bound = _bound(np.abs(x) @ np.abs(y), k, dtype)
    return Call("matmul", lambda out: portatile.matmul(a, b, out=out, device=device), np.empty((*batch, m, n), dtype), x @ y, bound)


def _symm(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    dtype, (m, n) = rng.choice(("float32", "float64")), _sizes(rng, 2, largest)
    side, uplo = rng.choice("LR"), rng.choice("LU")
    order = m if side == "L" else n
    a, b = _array(rng, np_rng, dtype, order, order), _array(rng, np_rng, dtype, m, n)
    half = _triangle(a.astype(np.float64), uplo)
    x, y = half + half.T - np.diag(np.diag(half)), b.astype(np.float64)
    exact, scale = (x @ y, np.abs(x) @ np.abs(y)) if side == "L" else (y @ x, np.abs(y) @ np.abs(x))
    how: dict[str, Any] = {"side": side, "uplo": uplo, "device": device}
    return Call("symm", lambda out: portatile.symm(a, b, out=out, **how), np.empty((m, n), dtype), exact, _bound(scale, order, dtype))


def _syr2k(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    return _update(rng, np_rng, device, largest, 2)


def _syrk(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    return _update(rng, np_rng, device, largest, 1)


def _update(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int, factors: int) -> Call:
    dtype, (n, k) = rng.choice(("float32", "float64")), _sizes(rng, 2, largest)
    uplo, trans, beta = rng.choice("LU"), rng.choice("NT"), rng.choice((0.0, 1.0, -0.5))
    given = [_array(rng, np_rng, dtype, *((n, k) if trans == "N" else (k, n))) for _ in range(factors)]
    c = _array(rng, np_rng, dtype, n, n)
    ops = [(one if trans == "N" else one.T).astype(np.float64) for one in given]
    pairs = [(ops[0], ops[0])] if factors == 1 else [(ops[0], ops[1]), (ops[1], ops[0])]
    whole = sum(x @ y.T for x, y in pairs) + beta * c
    scale = sum(np.abs(x) @ np.abs(y).T for x, y in pairs) + np.abs(beta * c)
    written = _triangle(np.ones((n, n), bool), uplo)
    exact, allowed = np.where(written, whole, 7.0), np.where(written, _bound(scale, factors * k, dtype), 0.0)
    compute: Any = portatile.syrk if factors == 1 else portatile.syr2k
    how: dict[str, Any] = {"uplo": uplo, "trans": trans, "beta": beta, "device": device}
    return Call(compute.__name__, lambda out: compute(*given, c, out=out, **how), np.full((n, n), 7, dtype), exact, allowed)


def _trmm(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    a, b, x, how = _triangular(rng, np_rng, device, largest)
    y, left, dtype = b.astype(np.float64), how["side"] == "L", b.dtype.name
    exact, scale = (x @ y, np.abs(x) @ np.abs(y)) if left else (y @ x, np.abs(y) @ np.abs(x))
    return Call("trmm", lambda out: portatile.trmm(a, b, out=out, **how), np.empty(b.shape, dtype), exact, _bound(scale, len(x), dtype))


def _trsm(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    """Right where the residual is small beside the sizes of the factors: Higham, theorem 8.5, with room for the inverses of blocks."""
    a, b, x, how = _triangular(rng, np_rng, device, largest, dominant=True)
    y, left, dtype = b.astype(np.float64), how["side"] == "L", b.dtype.name
    exact = np.linalg.solve(x, y) if left else np.linalg.solve(x.T, y.T).T
    inverse = np.abs(np.linalg.inv(x))
    scale = inverse @ (np.abs(x) @ np.abs(exact)) if left else (np.abs(exact) @ np.abs(x)) @ inverse
    bound = 8 * _bound(scale, len(x), dtype)
    return Call("trsm", lambda out: portatile.trsm(a, b, out=out, **how), np.empty(b.shape, dtype), exact, bound)


def _triangular(
    rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int, dominant: bool = False
) -> tuple[Array, Array, Array, dict[str, Any]]:
    dtype, (m, n) = rng.choice(("float32", "float64")), _sizes(rng, 2, largest)
    how: dict[str, Any] = {"side": rng.choice("LR"), "uplo": rng.choice("LU"), "trans": rng.choice("NT"), "diag": rng.choice("NU")}
    order = m if how["side"] == "L" else n
    a, b = _array(rng, np_rng, dtype, order, order), _array(rng, np_rng, dtype, m, n)
    if dominant:
        a[...] = a / order + 2 * np.eye(order, dtype=dtype)
    x = _triangle(a.astype(np.float64), how["uplo"])
    if how["diag"] == "U":
        np.fill_diagonal(x, 1.0)
    return a, b, x.T if how["trans"] == "T" else x, {**how, "device": device}


def _coulomb(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    atoms = np_rng.uniform(-1, 1, (rng.randint(1, 2 * largest), 4)).astype(np.float32)
    atoms[:, 2] += 3  # off the grid
    ny, nx = _sizes(rng, 2, largest)
    x, y = np.arange(nx) * 0.125, np.arange(ny) * 0.125
    places = atoms.astype(np.float64)
    across = (x[None, :, None] - places[:, 0]) ** 2 + (y[:, None, None] - places[:, 1]) ** 2 + places[:, 2] ** 2
    terms = places[:, 3] / np.sqrt(across)
    allowed = (len(atoms) + 320) * 2.0**-24 * np.abs(terms).sum(-1)
    empty = np.empty((ny, nx), np.float32)
    compute = portatile.coulomb_potential
    return Call("coulomb", lambda out: compute(atoms, (ny, nx), 0.125, out=out, device=device), empty, terms.sum(-1), allowed)


def _convolution(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    dtype, shape = rng.choice(("float32", "float64")), [min(n, 24) for n in _sizes(rng, 3, largest)]
    taps = np_rng.uniform(-1, 1, rng.choice((3, 5, 16))).astype(np.float64)
    volume, lower = np_rng.uniform(-1, 1, shape).astype(dtype), -rng.randint(0, len(taps) - 1)
    exact, scale = volume.astype(np.float64), np.abs(volume.astype(np.float64))
    for axis in range(3):
        moved = [(tap, -(lower + place)) for place, tap in enumerate(taps)]
        exact = sum(tap * np.roll(exact, shift, axis) for tap, shift in moved)
        scale = sum(abs(tap) * np.roll(scale, shift, axis) for tap, shift in moved)
    bound = _bound(scale, 3 * (len(taps) + 1), dtype)

    def run(out: Array) -> None:
        out[...] = portatile.convolve3d_separable(volume, taps, lower=lower, device=device)

    return Call("convolution", run, np.empty(shape, dtype), exact, bound)


def _mri(rng: random.Random, np_rng: np.random.Generator, device: str | None, largest: int) -> Call:
    """Four turns at most: 6 pi u of a phase for each of three products (see ``Mri.bound``), 24 u for a function, u for each sum."""
    samples, voxels = _sizes(rng, 2, 2 * largest)
    k, x = np_rng.uniform(-1, 1, (3, samples)).astype(np.float32), np_rng.uniform(-4 / 3, 4 / 3, (3, voxels)).astype(np.float32)
    phi = np_rng.uniform(-1, 1, (2, samples)).astype(np.float32)
    weights = (phi.astype(np.float64) ** 2).sum(0)
    turns = x.T.astype(np.float64) @ k.astype(np.float64)
    exact = np.stack([np.cos(2 * np.pi * turns) @ weights, np.sin(2 * np.pi * turns) @ weights])
    allowed = np.full(exact.shape, (4 * 6 * np.pi + 30 + samples) * 2.0**-24 * weights.sum())

    def run(out: Array) -> None:
        out[0], out[1] = portatile.mri_q(*k, *phi, *x, device=device)

    return Call("mri_q", run, np.empty(exact.shape, np.float32), exact, allowed)


_ALL = (_gemm, _matmul, _symm, _syrk, _syr2k, _trmm, _trsm, _coulomb, _convolution, _mri)
