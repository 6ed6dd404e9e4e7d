"""Small products of arrays on the host: left to NumPy's BLAS where that takes less time than a launch does on this machine.

The first product of a shape for which no device is named runs a few times each way. The faster way computes such products from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from portatile import settings
from portatile.records import Problem

_TYPES = ("float32", "float64", "complex64", "complex128")
_LARGEST = 1 << 27  # operations of a product that is raced: a millisecond or two of one core, of which a launch takes a few per cent
_RUNS = 4
_MOST = 4096  # entries of each table below
_raced: dict[tuple[int, ...], tuple[float, float]] = {}
"""m, n, k and bytes of an element -> seconds by NumPy, and on the device."""

_Computing = Callable[[Any, Any, Any], Any]  # a, b, and out or None
_by_numpy: dict[tuple[object, ...], _Computing] = {}
"""Shapes, strides and dtypes of the arrays of plain products (alpha 1, beta 0, nothing transposed) that NumPy computes -> its function."""


def product(a: Any, b: Any, out: Any) -> Any:
    """``a @ b`` by NumPy if NumPy was faster for arrays of these shapes, strides and dtypes; None where ``matmul`` has to look further.

    ``out`` is the caller's, or None. For calls that name no device.
    """
    if out is None:
        key: tuple[object, ...] = (a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype)
    elif type(out) is np.ndarray:
        key = (a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, out.shape, out.strides, out.dtype)
    else:
        return None
    compute = _by_numpy.get(key)
    if compute is None or settings.selection() != (None, None) or (out is not None and not out.flags.behaved):
        return None
    return compute(a, b, out)


def takes(call: Any, result: Any) -> bool:
    """Whether NumPy may compute a call: its BLAS has the type, so that results keep the same bound, and no precision is asked for."""
    if any(call.options[4:]):
        return False
    return result.dtype == call.arrays[0].dtype and result.dtype.name in _TYPES


def forget() -> None:
    """Forget which products NumPy computes, so that they are timed again."""
    _by_numpy.clear()


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without NumPy's warnings of overflows and invalid operations, as kernels compute."""
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        return np.errstate(all="ignore")(function)

    def called(*given: Any) -> Any:  # there the decorator keeps the caller's state where threads overwrite each other's
        with np.errstate(all="ignore"):
            return function(*given)

    return called


_dot, _matmul, _multiply = _quietly(np.dot), _quietly(np.matmul), _quietly(np.multiply)


def _computing(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any] | None) -> _Computing:
    """NumPy's function for a product of arrays that lie so: ``dot``, which takes less time than ``matmul``, where it computes the same."""
    plain = a.ndim <= 2 and b.ndim <= 2 and (out is None or out.flags.c_contiguous)
    return _dot if plain else _matmul


class Again(Protocol):
    """A recorded call: ``again`` computes it once more, or gives None where the call has to be planned anew."""

    def again(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; the output is the last of ``arrays``, unless it is None."""

    def apart_from(self, places: Sequence[int]) -> bool:
        """Whether an output, the last, overlaps none of the arrays."""


class ByNumpy:
    """A product that NumPy computes, in place of the ``recorded`` call, on arrays that were checked when that was recorded."""

    def __init__(self, recorded: Again, trans: tuple[str, ...]) -> None:
        self._recorded, self._trans = recorded, trans

    def apart_from(self, places: Sequence[int]) -> bool:
        """Whether the arrays are apart, as for a recorded call."""
        return self._recorded.apart_from(places)

    def again(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The product; None where the output is not the caller's own."""
        a, b = _op(arrays[0], self._trans[0]), _op(arrays[1], self._trans[1])
        if out is not None and not self._recorded.apart_from(places):
            return None
        out = _computing(a, b, out)(a, b, out)
        return out if factors[0] == 1 else _multiply(out, out.dtype.type(factors[0]), out)


def _op(array: NDArray[Any], trans: str) -> NDArray[Any]:
    operand = array if trans == "N" else array.swapaxes(-1, -2)
    return operand.conj() if trans == "C" and operand.dtype.kind == "c" else operand


def faster(recorded: Again, library: Any, call: Any, result: NDArray[Any], places: Sequence[int]) -> Again:
    """``recorded``, a product on host arrays that was just computed, or a ``ByNumpy`` where that is faster here.

    ``beta`` is 0 and ``alpha`` is not. Afterwards ``result`` holds what the chosen one computes, so that repeated calls give equal bits.
    """
    a, trans = call.arrays[0], call.options
    k = a.shape[-1] if trans[0] == "N" else a.shape[-2]
    if 2 * result.size * k > _LARGEST:
        return recorded
    rival = ByNumpy(recorded, trans[:2])

    def seconds(way: Again) -> float:
        def run() -> float:
            start = time.perf_counter()
            way.again(library, (*call.arrays, result), call.factors, result, list(places))
            return time.perf_counter() - start

        return min(run() for _ in range(_RUNS))

    on_device, by_numpy = seconds(recorded), seconds(rival)
    if result.ndim == 2:
        if len(_raced) >= _MOST:
            _raced.clear()
        _raced[(*result.shape, k, a.itemsize)] = by_numpy, on_device
    if by_numpy < on_device:
        _remember(call)
        return rival
    recorded.again(library, (*call.arrays, result), call.factors, result, list(places))
    return recorded


def _remember(call: Any) -> None:
    """Let ``product`` compute calls like this one, if it is a plain product."""
    if len(call.arrays) != 2 or call.factors != (1.0, 0.0) or call.options != ("N", "N"):
        return
    if len(_by_numpy) >= _MOST:
        _by_numpy.clear()
    _by_numpy[_form(call)] = _computing(call.arrays[0], call.arrays[1], call.out)


def follow(call: Any, converted: Any) -> None:
    """Let ``product`` compute calls like ``call`` too, if it computes the call that this was ``converted`` to, with the same dtypes."""
    arrays, converted_arrays = (*call.arrays, call.out), (*converted.arrays, converted.out)
    for array, as_read in zip(arrays, converted_arrays, strict=True):
        if (array is not None or as_read is not None) and (type(array) is not np.ndarray or getattr(as_read, "dtype", None) != array.dtype):
            return
    if _form(converted) in _by_numpy:
        _by_numpy[_form(call)] = _computing(call.arrays[0], call.arrays[1], call.out)


def _form(call: Any) -> tuple[object, ...]:
    """The key of a call in ``_by_numpy``, as ``product`` makes it."""
    arrays = call.arrays if call.out is None else (*call.arrays, call.out)
    return tuple(fact for array in arrays for fact in (array.shape, array.strides, array.dtype))


def note(problem: Problem) -> str:
    """A sentence for ``explain`` about the race between NumPy and the device for a product; empty where there was none."""
    if problem.workload != "gemm" or problem.dtype not in _TYPES:
        return ""
    m, n, k = (problem.sizes[name] for name in ("m", "n", "k"))
    if not 0 < 2 * m * n * k <= _LARGEST:
        return ""
    times = _raced.get((m, n, k, problem.itemsize))
    if times is None:
        return "NumPy arrays of this size are raced against NumPy's BLAS at their first call where no device is named"
    rates = f"{1e6 * times[0]:.0f} us, where the device takes {1e6 * times[1]:.0f}"
    how = "are left to NumPy's BLAS where no device is named" if times[0] < times[1] else "were raced against NumPy's BLAS"
    return f"NumPy arrays of this size {how}: {rates}"
