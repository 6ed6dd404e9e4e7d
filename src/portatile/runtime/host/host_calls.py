"""Calls that are computed on the host in place of a device, kept by the types, shapes and strides of their arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from portatile import settings
from portatile.arguments.described import Library
from portatile.device.copies import address

_ANY = (None, None)  # the selector where no device is named
_MOST = 4096  # forms of one routine that are kept
_ALIGNED, _OWNED, _WRITEABLE = 0x100, 0x4, 0x400  # NumPy's flags as numbers

Compute = Callable[[Sequence[Any], tuple[Any, ...]], None]
"""Computes a call from its arrays (the output last) and its factors."""


class HostRoutine(Protocol):
    """The part of a routine that can run on the host. A ``call`` is a planned ``RoutineCall`` with its ``result``."""

    def on_host(self, call: Any, result: Any, forms: Forms) -> HostCall | None:
        """The call as computed on the host; None where the host does not compute it."""

    def small(self, call: Any) -> bool:
        """Whether a call is so small that a kernel launch would take longer."""

    def operations(self, call: Any) -> int:
        """Its floating-point operations; a multiply-add counts as two."""


class Forms:
    """The host calls of one routine by the layout of their arrays: a shorter look-up than that of recorded calls."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], HostCall] = {}

    def clear(self) -> None:
        """Forget all calls."""
        self._known.clear()

    def remember(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any, call: HostCall) -> None:
        """Have ``call`` compute calls with arguments like these."""
        looks = _call_form(arrays, factors, options, out)
        if looks is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[looks[0]] = call

    def follow(self, call: Any, converted: Any, shape: tuple[int, ...]) -> None:
        """Have calls like ``call`` computed on the host if the call that it was ``converted`` to is, and both use the same elements.

        Both are a ``RoutineCall``; ``shape`` is that of the result.
        """
        looks = _call_form(converted.arrays, converted.factors, converted.options, converted.out)
        known = None if looks is None else self._known.get(looks[0])
        given, views = (*call.arrays, call.out), (*converted.arrays, converted.out)
        if known is not None and call.device is None and all(map(_same_elements, given, views)):
            self.remember(call.arrays, call.factors, call.options, call.out, known.shaped(shape))

    def again(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any) -> Any:
        """The result of a call that names no device; None, with nothing done, where the recorded calls have to be searched."""
        looks = _call_form(arrays, factors, options, out)
        if looks is None:
            return None
        form, flags = looks
        try:
            call = self._known.get(form)
        except TypeError:  # unhashable options
            return None
        if call is None or not flags & _ALIGNED or settings.selection() != _ANY:
            return None
        if out is not None and not (
            out.flags.num & _WRITEABLE and ((flags & _OWNED and _is_separate(arrays, out)) or not _overlaps(arrays, out))
        ):
            return None
        return call.run(arrays, factors, out)


def _call_form(
    arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any
) -> tuple[tuple[object, ...], int] | None:
    """What decides how the host computes a call, and the flags that all arrays share; None where some arrays are not NumPy's.

    The key holds everything but addresses and values; of the factors it holds their types and whether they are 0.
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
    """Whether a view of another array has all of its elements."""
    if type(array) is not np.ndarray or type(view) is not np.ndarray:
        return array is None and view is None
    return array.dtype == view.dtype and array.size == view.size and address(array) == address(view)


def _is_separate(arrays: tuple[Any, ...], out: Any) -> bool:
    """Whether the output is a different object than all arrays but the last."""
    return all(array is not out for array in arrays[:-1])


def _overlaps(arrays: tuple[Any, ...], out: Any) -> bool:
    """Whether the output may overlap an array other than itself; only the last array may be the output."""
    return any(np.may_share_memory(array, out) for array in (arrays[:-1] if out is arrays[-1] else arrays))


class HostCall:
    """A call that the host computes, and repeats on other arrays with the same properties as the checked arrays of the first call."""

    def __init__(self, compute: Compute, call: Any, result: Any, forms: Forms, fastest: float) -> None:
        """``call`` is the first one, a ``RoutineCall``; ``remember`` adds it to ``forms``.

        ``fastest``: the plausible limit of the speedup over the host that a device can have if it is the host's own processor.
        """
        self.fastest = fastest
        self._forms, self._options, self._kinds = forms, call.options, kinds(call.factors)
        self._shape, self._dtype = result.shape, result.dtype
        self._compute = compute

    def shaped(self, shape: tuple[int, ...]) -> HostCall:
        """The same call with another shape of new results."""
        other = copy.copy(self)
        other._shape = shape
        return other

    def disjoint(self, places: Sequence[int]) -> bool:
        """False: addresses alone do not tell whether arrays overlap."""
        return False

    def repeat(self, library: Library, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; None, with nothing done, where the call has to be planned again."""
        operands = arrays if out is None else arrays[:-1]
        if kinds(factors) != self._kinds or (out is not None and _overlaps(operands, out)):
            return None
        return self.run(operands, factors, out)

    def run(self, operands: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The result, for operands that are known not to overlap the output and factors of the same types as in the first call."""
        result = np.empty(self._shape, self._dtype) if out is None else out
        self._compute((*operands, result), factors)
        return result

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The result of arrays that are known not to overlap; the output is the last of them unless it is None."""
        return self.run(arrays if out is None else arrays[:-1], factors, out)

    def remember(self, arrays: tuple[Any, ...], out: Any, factors: tuple[Any, ...]) -> None:
        """Have the host compute calls with arguments like these, without searching the recorded calls."""
        self._forms.remember(arrays, factors, self._options, out, self)


def kinds(factors: tuple[Any, ...]) -> tuple[type, ...]:
    """The types of the factors; routines of real matrices, and some others, refuse complex ones."""
    return tuple(map(type, factors))
