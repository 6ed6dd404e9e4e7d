"""A small call of every public routine, for tests that capture it into a graph."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, NamedTuple

import numpy as np

import portatile
from portatile import wavelets

LEFT_OUT = {"potential_energy": "gives numbers on the host"}
"""Routines that cannot be captured, and why."""

_TAPS = (0.25, -1.0, 0.5)


class Case(NamedTuple):
    """What a call is given, as NumPy arrays, and the call; the output, if it takes one, is the last of them."""

    arrays: tuple[np.ndarray[Any, Any], ...]
    call: Callable[..., Any]


def _drawn(*shape: int, dtype: str = "float32") -> Any:
    return (np.random.default_rng(sum(shape) + len(shape)).random(shape) - 0.5).astype(dtype)


def _triangle(size: int) -> Any:
    return (np.tril(_drawn(size, size)) + size * np.eye(size)).astype("float32")


def cases() -> dict[str, Case]:
    """By the routine's name, and what is special of the call."""
    a, b, square, tall = _drawn(5, 4), _drawn(4, 6), _drawn(6, 6), _drawn(6, 5)
    vectors, voxels = tuple(_drawn(7, dtype="float32") + at for at in range(7)), tuple(_drawn(9) - at for at in range(3))
    lines, cube, batch = _drawn(8, 6), _drawn(4, 4, 4), _drawn(2, 4, 4, 4)
    return {
        "matmul": Case((a, b, np.zeros((5, 6), "float32")), lambda a, b, o: portatile.matmul(a, b, out=o)),
        "matmul, a new result": Case((a, b), portatile.matmul),
        "matmul, stacks": Case((_drawn(2, 3, 4), _drawn(2, 4, 3)), portatile.matmul),
        "gemm": Case((a, b, _drawn(5, 6)), lambda a, b, c: portatile.gemm(a, b, c, alpha=2.0, beta=0.5)),
        "symm": Case((square, tall), portatile.symm),
        "syrk": Case((tall,), portatile.syrk),
        "syr2k": Case((tall, tall + 1), portatile.syr2k),
        "hemm": Case((square, tall), portatile.hemm),
        "herk": Case((tall,), portatile.herk),
        "her2k": Case((tall, tall + 1), portatile.her2k),
        "trmm": Case((_triangle(6), tall), portatile.trmm),
        "trsm": Case((_triangle(6), tall, np.zeros((6, 5), "float32")), lambda a, b, o: portatile.trsm(a, b, out=o)),
        "convolve1d": Case((lines,), lambda x: portatile.convolve1d(x, _TAPS, lower=-1)),
        "filter_bank1d": Case((lines,), lambda x: portatile.filter_bank1d(x, [_TAPS, _TAPS[::-1]], lower=-1, bank="analysis")),
        "convolve3d_separable": Case((cube,), lambda x: portatile.convolve3d_separable(x, _TAPS, lower=-1, boundary="grow")),
        "convolve3d_separable, out": Case(
            (cube, np.zeros_like(cube)), lambda x, o: portatile.convolve3d_separable(x, (_TAPS, (1.0,), _TAPS), lower=0, out=o)
        ),
        "coulomb_potential": Case((_drawn(6, 4),), lambda x: portatile.coulomb_potential(x, (2, 3, 4), 0.3)),
        "mri_q": Case((*vectors[:5], *voxels), portatile.mri_q),
        "mri_fhd": Case((*vectors[:5], *voxels, *vectors[5:]), portatile.mri_fhd),
        "magicfilter": Case((lines,), wavelets.magicfilter),
        "magicfilter3d": Case((batch,), wavelets.magicfilter3d),
        "analysis": Case((lines,), wavelets.analysis),
        "analysis3d": Case((cube,), wavelets.analysis3d),
        "synthesis": Case((lines,), wavelets.synthesis),
        "synthesis3d": Case((batch,), lambda x: wavelets.synthesis3d(x, boundary="grow")),
        "apply_potential": Case((batch, _drawn(4, 4, 4)), wavelets.apply_potential),
        "density": Case((batch,), lambda x: wavelets.density(x, occupation=[2.0, 1.0])),
        "density, one orbital": Case((cube,), wavelets.density),
        "kinetic": Case((batch,), lambda x: wavelets.kinetic(x, spacing=0.5)),
    }


def routines() -> set[str]:
    """The public functions that compute with arrays."""
    found = {name: getattr(portatile, name) for name in portatile.__all__} | {name: getattr(wavelets, name) for name in wavelets.__all__}
    places = ("portatile.routines", "portatile.wavelets")
    return {name for name, one in found.items() if isfunction(one) and one.__module__.startswith(places)} - {"compile"}
