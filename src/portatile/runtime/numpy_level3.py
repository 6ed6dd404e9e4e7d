"""Products of level 3 on small NumPy arrays, computed by NumPy's own BLAS where that takes less time than a few launches.

A triangle is mirrored, or filled with zeros, and multiplied as a matrix. NumPy has no BLAS for triangular systems: LAPACK's general solver
takes longer than a launch of ``trsm``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.arguments.described import Library, Maker
from portatile.records import Problem
from portatile.runtime import numpy_products

_LAUNCHES = 2  # launches, at least, that these routines take on a device
_COMPLEX = 10  # the same of complex matrices, whose kernels are slower beside BLAS
_BESIDE = 16  # multiply-adds that take as long as what is done for each element beside them

_Array = NDArray[Any]


class _Call(NamedTuple):
    """The arrays of a call, its factors and letters, and where the result goes; ``fresh`` tells that this is a new array."""

    arrays: Sequence[Any]
    factors: tuple[Any, ...]
    options: tuple[Any, ...]
    result: _Array
    fresh: bool


def small(routine: str, arrays: Sequence[Any], options: tuple[Any, ...]) -> bool:
    """Whether NumPy computes a call of a routine: on matrices of one type that it has for its BLAS, with little to do."""
    a = arrays[0]
    if any(type(array) is not np.ndarray or array.ndim != 2 or array.dtype != a.dtype for array in arrays):
        return False
    if routine in _UPDATES:
        n, k = a.shape if options[1] == "N" else a.shape[::-1]
        return _brief(n * n * k, n * n + a.size, a.dtype)
    return _brief(len(a) * arrays[1].size, a.size + arrays[1].size, a.dtype)


def _brief(multiply_adds: int, elements: int, dtype: np.dtype[Any]) -> bool:
    work, launches = multiply_adds + _BESIDE * elements, _COMPLEX if dtype.kind == "c" else _LAUNCHES
    return multiply_adds > 0 and numpy_products.at_once(-(-work // launches), dtype)


def note(problem: Problem) -> str:
    """A sentence for ``explain`` about NumPy arrays of a problem's size; empty where a device computes."""
    routine, sizes = problem.workload, problem.sizes
    if routine not in _COMPUTING or problem.dtype not in map(str, numpy_products.DTYPES):
        return ""
    if routine in _UPDATES:
        n, k = sizes["n"], sizes["k"]
        brief = _brief(n * n * k, n * (n + k), np.dtype(problem.dtype))
    else:
        order, elements = sizes["m" if problem.options["side"] == "L" else "n"], sizes["m"] * sizes["n"]
        brief = _brief(order * elements, order * order + elements, np.dtype(problem.dtype))
    return f"NumPy arrays of this size are left to {numpy_products.BY_NUMPY}" if brief else ""


def compute(routine: str, arrays: Sequence[Any], factors: tuple[Any, ...], options: tuple[Any, ...], result: _Array, fresh: bool) -> None:
    """Compute a call into ``result``, which is known to fit; ``fresh`` as in ``_Call``."""
    numpy_products.silently(_COMPUTING[routine], _Call(arrays, factors, options, result, fresh))


class RoutineByNumpy:
    """A call of a ``routine`` that NumPy computes again on other arrays like those of a first one, which were checked."""

    def __init__(self, routine: str, options: tuple[Any, ...], factors: tuple[Any, ...], make: Maker) -> None:
        self._routine, self._options, self._make = routine, options, make
        self._kinds = kinds(factors)

    def apart_from(self, places: Sequence[int]) -> bool:
        """Not known from addresses alone."""
        return False

    def again(self, library: Library, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; None, with nothing done, where the call has to be planned anew."""
        if kinds(factors) != self._kinds:
            return None
        fresh = out is None
        if fresh:
            result = self._make(arrays[0])[0]
        else:
            result, arrays = out, arrays[:-1]
            if any(array is not out and np.may_share_memory(array, out) for array in arrays):
                return None
        compute(self._routine, arrays, factors, self._options, result, fresh)
        return result


def kinds(factors: tuple[Any, ...]) -> tuple[type, ...]:
    """The types of factors: some routines, and all of real matrices, refuse complex ones."""
    return tuple(map(type, factors))


def _triangle(a: _Array, uplo: str, trans: str, diag: str) -> _Array:
    """op of a triangle, with zeros beside it."""
    triangle = _half(a, uplo)
    if diag == "U":
        np.fill_diagonal(triangle, 1)
    return numpy_products.transposed(triangle, trans)


def _half(a: _Array, uplo: str, strict: bool = False) -> _Array:
    """A copy with one triangle of a matrix, without its diagonal if that is ``strict``, and zeros beside it."""
    copy = a.copy()
    np.copyto(copy, 0, where=_mask(len(a), "U" if uplo == "L" else "L", not strict))
    return copy


@lru_cache(maxsize=32)
def _mask(order: int, uplo: str, strict: bool = False) -> _Array:
    """Which elements of a square belong to a triangle. ``numpy.tril`` makes it in each call, for most of its time."""
    lower = np.tri(order, k=-1 if strict else 0, dtype=bool)
    return lower if uplo == "L" else lower.T


def _scaled(values: _Array, alpha: Any) -> _Array:
    return values if alpha == 1 else np.multiply(values, values.dtype.type(alpha))


def _trmm(call: _Call) -> None:
    (a, b), (alpha,), (side, *letters, _) = call.arrays, call.factors, call.options
    if alpha == 0:
        call.result[...] = 0
        return
    triangle = _triangle(a, *letters)
    call.result[...] = _scaled(triangle @ b if side == "L" else b @ triangle, alpha)


def _symm(call: _Call) -> None:
    (a, b, *_), (alpha, beta), (side, uplo, mirror, _) = call.arrays, call.factors, call.options
    values: Any = 0
    if alpha != 0:
        whole = _half(a, uplo) + numpy_products.transposed(_half(a, uplo, True), mirror)
        if mirror == "C":
            _make_real(whole)
        values = _scaled(whole @ b if side == "L" else b @ whole, alpha)
    call.result[...] = values if beta == 0 else values + _scaled(call.arrays[2], beta)


def _update(call: _Call, count: int) -> None:
    """The triangle of a sum of products of so many factors; what is beside it stays as it is, and is zero or c's in a new array."""
    factors, (alpha, beta), (uplo, trans, mirror, _), result = call.arrays[:count], call.factors, call.options, call.result
    values: Any = np.zeros(result.shape, result.dtype)
    if alpha != 0:
        first, last = (numpy_products.transposed(factors[at], trans) for at in (0, -1))
        values = _scaled(first @ numpy_products.transposed(last, mirror), alpha)
        if count > 1:
            values = values + numpy_products.transposed(values, mirror)
    if beta != 0:
        values = values + _scaled(call.arrays[count], beta)
    if mirror == "C":
        _make_real(values)
    if call.fresh:
        result[...] = 0 if beta == 0 else call.arrays[count]
    np.copyto(result, values, where=_mask(len(result), uplo))


def _make_real(matrix: _Array) -> None:
    """Drop what is imaginary on the diagonal."""
    if matrix.dtype.kind == "c":
        matrix.imag.flat[:: len(matrix) + 1] = 0


_UPDATES: Mapping[str, int] = {"syrk": 1, "syr2k": 2}
"""The routines of one triangle, and how many factors each has."""
_COMPUTING: Mapping[str, Callable[[_Call], None]] = {
    "trmm": _trmm,
    "symm": _symm,
    **{name: partial(_update, count=count) for name, count in _UPDATES.items()},
}
