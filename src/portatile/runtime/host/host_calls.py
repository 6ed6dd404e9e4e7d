"""Calls that are computed on the host, in place of a device: kept by what their arrays look like."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from portatile import settings
from portatile.arguments.described import Library
from portatile.device.copies import address

_ANY = (None, None)  # no device is selected
_MOST = 4096  # forms of one routine
_ALIGNED, _OWNED, _WRITEABLE = 0x100, 0x4, 0x400  # NumPy's flags, by number

Compute = Callable[[Sequence[Any], tuple[Any, ...]], None]
"""Computes a call from its arrays, the output last, and its factors."""


class HostRoutine(Protocol):
    """What of a routine is computed on the host; a ``call`` is a ``RoutineCall`` that was planned, with its ``result``."""

    def on_host(self, call: Any, result: Any, forms: Forms) -> HostCall | None:
        """The call on the host; None where the host does not compute it."""

    def small(self, call: Any) -> bool:
        """Whether such a call has so little to do that no launch is worth it."""

    def operations(self, call: Any) -> int:
        """Its floating-point operations, of which a multiply-add has two."""


class Forms:
    """Calls of a routine that are computed on the host, by what their arrays look like: a shorter way to them than their records."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], HostCall] = {}

    def clear(self) -> None:
        """Forget all calls."""
        self._known.clear()

    def remember(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any, call: HostCall) -> None:
        """Let ``call`` compute calls whose arguments look like these."""
        looks = _looks(arrays, factors, options, out)
        if looks is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[looks[0]] = call

    def follow(self, call: Any, converted: Any, shape: tuple[int, ...]) -> None:
        """Let calls like ``call`` be computed so too, if the call is that it was ``converted`` to, with views of the same elements.

        Both are a ``RoutineCall``; ``shape`` is that of the result.
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
        try:
            call = self._known.get(form)
        except TypeError:  # options of which no hash can be made
            return None
        if call is None or not flags & _ALIGNED or settings.selection() != _ANY:
            return None
        if out is not None and not (out.flags.num & _WRITEABLE and ((flags & _OWNED and _new(arrays, out)) or not _overlaps(arrays, out))):
            return None
        return call.run(arrays, factors, out)


def _looks(arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any) -> tuple[tuple[object, ...], int] | None:
    """What decides how the host computes a call, and the flags that all arrays have; None where they are not all NumPy's.

    That is all but addresses and values, but for types of factors and whether they are 0.
    """
    flags, first, last = -1, factors[0] if factors else None, factors[-1] if factors else None
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


def _new(arrays: tuple[Any, ...], out: Any) -> bool:
    """Whether an output is none of the arrays but the last."""
    return all(array is not out for array in arrays[:-1])


def _overlaps(arrays: tuple[Any, ...], out: Any) -> bool:
    """Whether an output may overlap an array that it is not; the last one alone it may be."""
    return any(np.may_share_memory(array, out) for array in (arrays[:-1] if out is arrays[-1] else arrays))


class HostCall:
    """A call that the host computes, and computes again on other arrays like those of a first one, which were checked."""

    def __init__(self, compute: Compute, call: Any, result: Any, forms: Forms, fastest: float) -> None:
        """``call`` is the first one, a ``RoutineCall``; it is remembered in ``forms`` when ``remember`` is called.

        ``fastest``: how many times as fast a device can be that is the host's processor itself.
        """
        self.fastest = fastest
        self._forms, self._options, self._kinds = forms, call.options, kinds(call.factors)
        self._shape, self._dtype = result.shape, result.dtype
        self._compute = compute

    def shaped(self, shape: tuple[int, ...]) -> HostCall:
        """The same call, whose new results have another shape."""
        other = copy.copy(self)
        other._shape = shape
        return other

    def disjoint(self, places: Sequence[int]) -> bool:
        """Not known from addresses alone."""
        return False

    def repeat(self, library: Library, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
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
