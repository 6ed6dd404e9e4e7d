"""The level-3 routines of the BLAS that NumPy multiplies with, in the library that NumPy has loaded. NumPy itself offers products alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

_SPELLINGS = (
    ("scipy_cblas_{}64_", ctypes.c_int64),
    ("cblas_{}64_", ctypes.c_int64),
    ("scipy_cblas_{}", ctypes.c_int),
    ("cblas_{}", ctypes.c_int),
)
"""How libraries name a function of the C interface, and its lengths: those in NumPy's wheels, in distributions, and MKL."""
_PREFIXES = {np.dtype(name): prefix for name, prefix in (("float32", "s"), ("float64", "d"), ("complex64", "c"), ("complex128", "z"))}
_REAL = {4: ctypes.c_float, 8: ctypes.c_double}
_REAL_SCALARS = {"herk": (True, True), "her2k": (False, True)}  # whether alpha and beta are real numbers for complex matrices too

_NUMBERS = {
    "order": {"C": 101, "F": 102},
    "trans": {"N": 111, "T": 112, "C": 113},
    "uplo": {"U": 121, "L": 122},
    "diag": {"N": 131, "U": 132},
    "side": {"L": 141, "R": 142},
}
"""The numbers of the C interface for whether matrices lie by rows (C) or by columns (F), and for the letters of the BLAS."""


class Routine(NamedTuple):
    """A routine of the BLAS. Its arguments are those of the C interface, as objects of ctypes; Python's other threads run meanwhile."""

    function: Callable[..., None]
    length: Callable[[int], Any]
    """Makes one of its lengths and leading dimensions."""
    dtype: np.dtype[Any]
    real: tuple[bool, bool]
    """Whether alpha and beta are real numbers."""

    @property
    def alpha(self) -> Callable[[complex], Any]:
        """Makes the argument alpha."""
        return _scalars(self.dtype, self.real[0])

    @property
    def beta(self) -> Callable[[complex], Any]:
        """Makes the argument beta."""
        return _scalars(self.dtype, self.real[1])


def numbers(**letters: str) -> tuple[Any, ...]:
    """The arguments for letters, each by its kind: order, side, uplo, trans or diag."""
    return tuple(ctypes.c_int(_NUMBERS[kind][letter]) for kind, letter in letters.items())


@cache
def routine(name: str, dtype: np.dtype[Any]) -> Routine | None:
    """A routine such as ``"trsm"`` for matrices of a dtype, one that the BLAS has; None where NumPy's library lacks it."""
    complex_name = name
    if dtype.kind != "c":  # there are no Hermitian routines of real matrices
        name = name.replace("he", "sy", 1)
    for spelling, length in _SPELLINGS:
        function = getattr(_library(), spelling.format(_PREFIXES[dtype] + name), None)
        if function is not None:
            function.restype = None
            return Routine(function, length, dtype, _REAL_SCALARS.get(complex_name, (False, False)))
    return None


def _scalars(dtype: np.dtype[Any], real: bool) -> Callable[[complex], Any]:
    """What makes factors as a routine takes them: complex ones by their address. It keeps some, as most calls have the same."""
    kind: Any = _REAL[dtype.itemsize if dtype.kind != "c" else dtype.itemsize // 2]
    if real or dtype.kind != "c":
        return lru_cache(maxsize=64)(lambda value: kind(value.real))
    return lru_cache(maxsize=64)(lambda value: (kind * 2)(value.real, value.imag))


@cache
def _library() -> Any:
    """NumPy's core, through whose handle the functions of all libraries are found that it is linked with; None where it cannot be had."""
    core = getattr(np, "_core", None) or getattr(np, "core")  # noqa: B009 - its name until NumPy 2
    with suppress(AttributeError, OSError):
        return ctypes.CDLL(core._multiarray_umath.__file__)
    return None
