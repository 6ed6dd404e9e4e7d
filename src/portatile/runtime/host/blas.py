"""Level-3 BLAS routines called in the library that NumPy has already loaded. NumPy's own interface offers matrix products only."""

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
"""Naming schemes of the CBLAS functions, with the integer type of each: OpenBLAS in NumPy's wheels, Linux distributions, and MKL."""
_PREFIXES = {np.dtype(name): prefix for name, prefix in (("float32", "s"), ("float64", "d"), ("complex64", "c"), ("complex128", "z"))}
_REAL = {4: ctypes.c_float, 8: ctypes.c_double}
_REAL_SCALARS = {"herk": (True, True), "her2k": (False, True)}  # whether alpha and beta are real even when the matrices are complex

_NUMBERS = {
    "order": {"C": 101, "F": 102},
    "trans": {"N": 111, "T": 112, "C": 113},
    "uplo": {"U": 121, "L": 122},
    "diag": {"N": 131, "U": 132},
    "side": {"L": 141, "R": 142},
}
"""The CBLAS enumeration values: row-major (C) or column-major (F) order, and the letters of side, uplo, trans and diag."""


class Routine(NamedTuple):
    """A CBLAS routine. It takes ctypes objects in the order of the C interface, and releases the GIL while it runs."""

    function: Callable[..., None]
    length: Callable[[int], Any]
    """Converts an integer to the routine's type for sizes and leading dimensions."""
    dtype: np.dtype[Any]
    real: tuple[bool, bool]
    """Whether alpha and beta are real numbers."""

    @property
    def alpha(self) -> Callable[[complex], Any]:
        """Converts alpha to the C argument."""
        return _scalar_converter(self.dtype, self.real[0])

    @property
    def beta(self) -> Callable[[complex], Any]:
        """Converts beta to the C argument."""
        return _scalar_converter(self.dtype, self.real[1])


def numbers(**letters: str) -> tuple[Any, ...]:
    """The CBLAS enumeration values of letters, given by keyword: order, side, uplo, trans or diag."""
    return tuple(ctypes.c_int(_NUMBERS[kind][letter]) for kind, letter in letters.items())


@cache
def routine(name: str, dtype: np.dtype[Any]) -> Routine | None:
    """The routine called ``name``, such as ``"trsm"``, for a dtype that BLAS supports; None where NumPy's library lacks it."""
    complex_name = name
    if dtype.kind != "c":  # real matrices have no Hermitian routines
        name = name.replace("he", "sy", 1)
    for spelling, length in _SPELLINGS:
        function = getattr(_library(), spelling.format(_PREFIXES[dtype] + name), None)
        if function is not None:
            function.restype = None
            return Routine(function, length, dtype, _REAL_SCALARS.get(complex_name, (False, False)))
    return None


def _scalar_converter(dtype: np.dtype[Any], real: bool) -> Callable[[complex], Any]:
    """A converter of scalar factors to C arguments; complex ones are passed by address. Recent results are cached."""
    kind: Any = _REAL[dtype.itemsize if dtype.kind != "c" else dtype.itemsize // 2]
    if real or dtype.kind != "c":
        return lru_cache(maxsize=64)(lambda value: kind(value.real))
    return lru_cache(maxsize=64)(lambda value: (kind * 2)(value.real, value.imag))


@cache
def _library() -> Any:
    """A handle of NumPy's core extension, through which the symbols of its linked libraries are found; None where it cannot be loaded."""
    core = getattr(np, "_core", None) or getattr(np, "core")  # noqa: B009 - its name until NumPy 2
    with suppress(AttributeError, OSError):
        return ctypes.CDLL(core._multiarray_umath.__file__)
    return None
