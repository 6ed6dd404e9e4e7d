"""Random problems of routines on grids: convolutions and wavelets, whose references are dense matrices, potentials and MRI sums."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import portatile
from attack import AttackError
from attack.calls import REAL, Array, Draw, Problems, bound, wide
from portatile import wavelets

_BOUNDARIES = ("periodic", "zero", "grow", "shrink")
_LONGEST = 24  # of the axes of a volume


def _outputs_at(lower: int, taps: int, points: int, boundary: str) -> range:
    """The places of a correlation's results."""
    upper = lower + taps - 1
    return {"grow": range(-upper, points - lower), "shrink": range(-lower, points - upper)}.get(boundary, range(points))


def _dense(taps: Array, lower: int, points: int, boundary: str) -> Array:
    """The matrix of ``convolve1d``: row i has taps[l - lower] at i + l."""
    rows = _outputs_at(lower, len(taps), points, boundary)
    matrix = np.zeros((len(rows), points))
    for row, i in enumerate(rows):
        for at, tap in enumerate(taps, i + lower):
            if boundary == "periodic":
                matrix[row, at % points] += tap
            elif 0 <= at < points:
                matrix[row, at] += tap
    return matrix


def _analysing(points: int, boundary: str) -> Array:
    """The matrix of ``analysis``: c(i) = sum of ch(l) x(2i + l), then d(i) with cg; free axes begin at the point -7."""
    start = 0 if boundary == "periodic" else -7
    rows = {"periodic": range(points // 2), "grow": range(-7, points // 2), "shrink": range(points // 2 - 7)}[boundary]
    matrix = np.zeros((2 * len(rows), points))
    for half, taps in enumerate((wavelets.SCALING, wavelets.WAVELET)):
        for row, i in enumerate(rows):
            for place in range(taps.lower, taps.upper + 1):
                at = 2 * i + place - start
                if boundary == "periodic":
                    matrix[half * len(rows) + row, at % points] += taps(place)
                elif 0 <= at < points:
                    matrix[half * len(rows) + row, at] += taps(place)
    return matrix


def _synthesising(points: int, boundary: str) -> Array:
    """The matrix of ``synthesis``: the transpose of ``analysis`` with the other boundary, which gives as many coefficients."""
    if boundary == "periodic":
        return _analysing(points, boundary).T
    return _analysing(points + 14, "shrink").T if boundary == "grow" else _analysing(points - 14, "grow").T


def received(draw: Draw, result: Any, to: Any, view: Array) -> None:
    """Keep a result that went to no output: in ``to``, or, of another library, in ``view``. Raises AttackError where it does not fit."""
    if draw.library is not None:
        result, to = draw.library.numpy(result), view
    if (result.shape, result.dtype) != (to.shape, to.dtype):
        raise AttackError(f"the result has shape {result.shape} and type {result.dtype}, not {to.shape} and {to.dtype}")
    to[...] = result


def _along_all(matrices: list[Array], volumes: Array) -> Array:
    return np.einsum("ai,bj,ck,nijk->nabc", *matrices, volumes, optimize=True)


def _filtered(draw: Draw, name: str, x: Any, matrices: list[Array], length: int, run: Any) -> Problems:
    """A matrix along each of three axes, or the first of two."""
    given, dtype = wide(x.views), x.views.dtype.name
    absolute = [np.abs(matrix) for matrix in matrices]
    if len(matrices) == 3:
        exact, scale = _along_all(matrices, given), _along_all(absolute, np.abs(given))
    else:
        exact, scale = matrices[0] @ given, absolute[0] @ np.abs(given)
    out = draw.empty(exact.shape[1:], dtype)

    def into(i: int, to: Array) -> None:
        received(draw, run(x[i]), to, out.views[i])

    return Problems(name, out, into, exact, bound(scale, len(matrices) * (length + 1), dtype), (x,))


def _convolution(draw: Draw) -> Problems:
    """Any filter along the first axis."""
    rng, dtype, boundary = draw.rng, draw.rng.choice(REAL), draw.rng.choice(_BOUNDARIES)
    taps = draw.numbers.uniform(-1, 1, rng.choice((1, 2, 3, 5, 16, 29))).astype(dtype)
    n, columns = draw.sizes(2)
    n += len(taps) - 1 if boundary == "shrink" else 0
    lower = -rng.randint(0, len(taps) - 1)
    how: dict[str, Any] = {"lower": lower, "boundary": boundary, "transposed": False, "device": draw.device}
    run = partial(portatile.convolve1d, taps=taps, **how)
    matrix = _dense(wide(taps), lower, n, boundary)
    return _filtered(draw, "convolve1d", draw.filled((n, columns), dtype), [matrix], len(taps), run)


def _volume(draw: Draw) -> Problems:
    """Filters along all axes, with a boundary for each."""
    rng, dtype = draw.rng, draw.rng.choice(REAL)
    taps = draw.numbers.uniform(-1, 1, rng.choice((2, 3, 5, 16))).astype(dtype)
    boundaries, lower = [rng.choice(_BOUNDARIES) for _ in range(3)], -rng.randint(0, len(taps) - 1)
    shape = tuple(min(n, _LONGEST) + (len(taps) - 1) * (kind == "shrink") for n, kind in zip(draw.sizes(3), boundaries, strict=True))
    matrices = [_dense(wide(taps), lower, n, kind) for n, kind in zip(shape, boundaries, strict=True)]
    run = partial(portatile.convolve3d_separable, taps=taps, lower=lower, boundary=boundaries, device=draw.device)
    return _filtered(draw, "convolve3d_separable", draw.filled(shape, dtype), matrices, len(taps), run)


def _magicfilter(draw: Draw) -> Problems:
    dtype, boundary, transpose = draw.rng.choice(REAL), draw.rng.choice(_BOUNDARIES), draw.rng.random() < 0.5
    chosen = wavelets.MAGICFILTER.transposed if transpose else wavelets.MAGICFILTER
    shape = tuple(min(n, _LONGEST) + 15 * (boundary == "shrink") for n in draw.sizes(3))
    matrices = [_dense(np.array(chosen.taps), chosen.lower, n, boundary) for n in shape]
    run = partial(wavelets.magicfilter3d, transpose=transpose, boundary=boundary, device=draw.device)
    return _filtered(draw, "magicfilter3d", draw.filled(shape, dtype), matrices, 16, run)


def _wavelets(draw: Draw) -> Problems:
    """One level there or back, along one axis or three."""
    rng, dtype, axes = draw.rng, draw.rng.choice(REAL), draw.rng.choice((1, 3))
    boundaries, forward = [rng.choice(("periodic", "grow", "shrink")) for _ in range(axes)], rng.random() < 0.5
    shape = [2 * -(-min(n, _LONGEST) // 2) + 14 * (kind == "shrink") for n, kind in zip(draw.sizes(axes), boundaries, strict=True)]
    matrices = [(_analysing if forward else _synthesising)(n, kind) for n, kind in zip(shape, boundaries, strict=True)]
    if axes == 1:
        shape += draw.sizes(1)
    compute: Any = getattr(wavelets, ("analysis" if forward else "synthesis") + ("3d" if axes == 3 else ""))
    run = partial(compute, boundary=boundaries if axes == 3 else boundaries[0], device=draw.device)
    return _filtered(draw, compute.__name__, draw.filled(tuple(shape), dtype), matrices, 16, run)


def _coulomb(draw: Draw) -> Problems:
    atoms = draw.filled((draw.rng.randint(1, 2 * draw.largest), 4), "float32", row_major=True)
    atoms.views[..., 2] += 3  # off the grid
    ny, nx = draw.sizes(2)
    x, y = np.arange(nx) * 0.125, np.arange(ny)[:, None] * 0.125
    x0, y0, z0, charge = np.moveaxis(wide(atoms.views)[:, None, None], -1, 0)
    terms = charge / np.sqrt((x[..., None] - x0) ** 2 + (y[..., None] - y0) ** 2 + z0**2)
    allowed = (atoms.views.shape[1] + 320) * 2.0**-24 * np.abs(terms).sum(-1)
    out = draw.empty((ny, nx), "float32", row_major=True)

    def run(i: int, to: Array) -> object:
        return portatile.coulomb_potential(atoms[i], (ny, nx), 0.125, out=to, device=draw.device)

    return Problems("coulomb_potential", out, run, terms.sum(-1), allowed, (atoms,))


def _mri(draw: Draw) -> Problems:
    """Four turns at most: 6 pi u of a phase for each of three products (see ``Mri.bound``), 24 u for a function, u for each sum."""
    hermitian, (samples, voxels) = draw.rng.random() < 0.5, draw.sizes(2)
    k, x = draw.filled((3, samples), "float32"), draw.filled((3, voxels), "float32")
    x.views[...] *= np.float32(4 / 3)
    phi, data = draw.filled((2, samples), "float32"), draw.filled((2, samples), "float32")
    p = wide(phi.views)[:, 0] + 1j * wide(phi.views)[:, 1]
    d = wide(data.views)[:, 0] + 1j * wide(data.views)[:, 1] if hermitian else p
    turns = np.swapaxes(wide(x.views), 1, 2) @ wide(k.views)
    sums = (np.exp(2j * np.pi * turns) @ (p.conj() * d)[..., None])[..., 0]
    size = (np.abs(p) * np.abs(d)).sum(-1)[:, None, None] * np.ones((1, 2, voxels))
    allowed = (4 * 6 * np.pi + 34 + samples) * 2.0**-24 * size
    compute: Any = portatile.mri_fhd if hermitian else portatile.mri_q

    def run(i: int, to: Array) -> None:
        sums = compute(*k[i], *phi[i], *x[i], *(data[i] if hermitian else ()), device=draw.device)
        for one, part, view in zip(sums, to, out.views[i], strict=True):
            received(draw, one, part, view)

    out = draw.empty((2, voxels), "float32")
    return Problems(compute.__name__, out, run, np.stack([sums.real, sums.imag], 1), allowed, (k, x, phi, data))


ROUTINES = {
    "convolution": _convolution,
    "volume": _volume,
    "magicfilter": _magicfilter,
    "wavelets": _wavelets,
    "coulomb": _coulomb,
    "mri": _mri,
}
