"""Level 3 on NumPy arrays by the BLAS that NumPy is linked with, where no device is named: small problems at once, others after a race."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from portatile import settings
from portatile.arguments.described import Library
from portatile.device.copies import address
from portatile.records import Problem
from portatile.runtime import blas_calls, numpy_products
from portatile.runtime.blas_calls import UPDATES

_LAUNCHES = 2  # launches, at least, that these routines take on a device
_COMPLEX = 10  # the same of complex matrices, whose kernels are slower beside BLAS
_ANY = (None, None)  # no device is selected
_MOST = 4096  # forms of one routine
_ALIGNED, _OWNED, _WRITEABLE = 0x100, 0x4, 0x400  # NumPy's flags, by number
_BESIDE = 16  # multiply-adds that take as long as what is done for each element beside them


def possible(workload: str, arrays: Sequence[Any], result: Any, options: tuple[Any, ...]) -> bool:
    """Whether the BLAS computes a call: on matrices of one type that it has, in no precision but the type's own."""
    dtype = arrays[0].dtype
    if options[-1] or dtype not in numpy_products.DTYPES or not blas_calls.known(workload, dtype):
        return False
    for array in (*arrays, result):
        if type(array) is not np.ndarray or array.ndim != 2 or array.dtype != dtype or not array.flags.aligned or not array.size:
            return False
    return True


class _Work(NamedTuple):
    """What a problem takes: multiply-adds, those beside the triangle too, and elements that are read and written."""

    multiply_adds: int
    elements: int


def _work(workload: str, arrays: Sequence[Any], options: tuple[Any, ...]) -> _Work:
    a = arrays[0]
    if workload in UPDATES:
        n, k = a.shape if options[1] == "N" else a.shape[::-1]
        return _Work(n * n * k, n * n + a.size)
    return _Work(len(a) * arrays[1].size, a.size + arrays[1].size)


def _work_of(problem: Problem) -> _Work:
    sizes = problem.sizes
    if problem.workload in UPDATES:
        n, k = sizes["n"], sizes["k"]
        return _Work(n * n * k, n * (n + k))
    order, elements = sizes["m" if problem.options["side"] == "L" else "n"], sizes["m"] * sizes["n"]
    return _Work(order * elements, order * order + elements)


def small(workload: str, arrays: Sequence[Any], options: tuple[Any, ...]) -> bool:
    """Whether a call that is ``possible`` has so little to do that no launch is worth it."""
    return _brief(_work(workload, arrays, options), arrays[0].dtype)


def brief(problem: Problem) -> bool:
    """The same of NumPy arrays of a problem's size."""
    return _brief(_work_of(problem), np.dtype(problem.dtype))


def multiply_adds(problem: Problem) -> int:
    """The multiply-adds of a problem, those beside the triangle too."""
    return _work_of(problem).multiply_adds


def operations(workload: str, call: Any) -> int:
    """The floating-point operations of a call, of which a multiply-add has two."""
    return 2 * _work(workload, call.arrays, call.options).multiply_adds


def _brief(work: _Work, dtype: np.dtype[Any]) -> bool:
    launches = _COMPLEX if dtype.kind == "c" else _LAUNCHES
    return numpy_products.at_once(-(-(work.multiply_adds + _BESIDE * work.elements) // launches), dtype)


class Forms:
    """Calls of a workload that the BLAS computes, by what their arrays look like: a shorter way to them than their records."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], ByBlas] = {}

    def clear(self) -> None:
        """Forget all calls."""
        self._known.clear()

    def remember(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any, call: ByBlas) -> None:
        """Let ``call`` compute calls whose arguments look like these."""
        looks = _looks(arrays, factors, options, out)
        if looks is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[looks[0]] = call

    def follow(self, call: Any, converted: Any, shape: tuple[int, ...]) -> None:
        """Let calls like ``call`` be computed so too, if the call is that it was ``converted`` to, with views of the same elements.

        Both are a ``recorded.Call``; ``shape`` is that of the result.
        """
        looks = _looks(converted.arrays, converted.factors, converted.options, converted.out)
        known = None if looks is None else self._known.get(looks[0])
        given, views = (*call.arrays, call.out), (*converted.arrays, converted.out)
        if known is not None and call.device is None and all(map(_same_elements, given, views)):
            self.remember(call.arrays, call.factors, call.options, call.out, known.shaped(shape))

    def again(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any) -> Any:
        """The result of a call that names no device; None, with nothing done, where it has to be looked for among the records."""
        looks = _looks(arrays, factors, options, out)
        if looks is None:
            return None
        form, flags = looks
        call = self._known.get(form)
        if call is None or not flags & _ALIGNED or settings.selection() != _ANY:
            return None
        if out is not None and not (
            out.flags.num & _WRITEABLE and ((flags & _OWNED and out is not arrays[0]) or not _overlaps(arrays, out))
        ):
            return None
        return call.run(arrays, factors, out)


def _looks(arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any) -> tuple[tuple[object, ...], int] | None:
    """What decides how the BLAS computes a call, and the flags that all arrays have; None where they are not all NumPy's.

    That is all but addresses and values, but for types of factors and whether they are 0.
    """
    flags, first, last = -1, factors[0], factors[-1]
    form: list[object] = [options, first != 0, last != 0, type(first), type(last)]
    for array in arrays:
        if type(array) is not np.ndarray:
            return None
        flags &= array.flags.num
        form += (array.shape, array.strides, array.dtype)
    if out is arrays[-1]:
        form.append(True)
    elif out is not None:
        if type(out) is not np.ndarray:
            return None
        flags &= out.flags.num
        form += (out.shape, out.strides, out.dtype)
    return tuple(form), flags


def _same_elements(array: Any, view: Any) -> bool:
    """Whether an array that is a view of another one has all of its elements."""
    if type(array) is not np.ndarray or type(view) is not np.ndarray:
        return array is None and view is None
    return array.dtype == view.dtype and array.size == view.size and address(array) == address(view)


def _overlaps(arrays: tuple[Any, ...], out: Any) -> bool:
    """Whether an output may overlap an array that it is not; the last one alone it may be."""
    return any(np.may_share_memory(array, out) for array in (arrays[:-1] if out is arrays[-1] else arrays))


class ByBlas:
    """A call of a workload that the BLAS computes, and computes again on other arrays like those of a first one, which were checked."""

    def __init__(self, workload: str, call: Any, result: Any, forms: Forms) -> None:
        """``call`` is a ``recorded.Call`` that is ``possible``; it is remembered in ``forms`` when ``remember`` is called."""
        self._forms, self._options, self._kinds = forms, call.options, kinds(call.factors)
        self._shape, self._dtype = result.shape, result.dtype
        self._compute = blas_calls.prepared(workload, call.arrays, call.factors, call.options, result, call.out is None)

    def shaped(self, shape: tuple[int, ...]) -> ByBlas:
        """The same call, whose new results have another shape."""
        other = copy.copy(self)
        other._shape = shape
        return other

    def apart_from(self, places: Sequence[int]) -> bool:
        """Not known from addresses alone."""
        return False

    def again(self, library: Library, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; None, with nothing done, where the call has to be planned anew."""
        operands = arrays if out is None else arrays[:-1]
        if kinds(factors) != self._kinds or (out is not None and _overlaps(operands, out)):
            return None
        return self.run(operands, factors, out)

    def run(self, operands: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The result of operands that are known to lie apart from the output, with factors of the types that the first call had."""
        result = np.empty(self._shape, self._dtype) if out is None else out
        self._compute((*operands, result), factors)
        return result

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The result of arrays that are known to lie apart; the output is the last of them, unless it is None."""
        return self.run(arrays if out is None else arrays[:-1], factors, out)

    def remember(self, arrays: tuple[Any, ...], out: Any, factors: tuple[Any, ...]) -> None:
        """Let calls like one with these arguments be computed so, without looking for a record."""
        self._forms.remember(arrays, factors, self._options, out, self)


def kinds(factors: tuple[Any, ...]) -> tuple[type, ...]:
    """The types of factors: some routines, and all of real matrices, refuse complex ones."""
    return tuple(map(type, factors))
