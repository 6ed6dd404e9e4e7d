"""Products of arrays on the host: left to NumPy's BLAS where that takes less time than the device does on this machine.

The first product of a shape for which no device is named runs a few times each way. The faster way computes such products from then on.
A long product on a processor is raced at its second call, so that who multiplies but once waits for one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.runtime import numpy_level3, numpy_products
from portatile.runtime.host_race import Again, Held, Race, seconds_to_find
from portatile.runtime.numpy_products import DTYPES, computing, finished, of_transposed, scaled_form, silently, transposed

_LARGEST = 1 << 27  # operations of a product that is raced: a millisecond or two of one core, of which a launch takes a few per cent
_TOO_LONG = 3.0  # seconds of a product that nobody waits for twice more
_MOST = 4096  # entries of the table below
_raced: dict[tuple[int, int, int, str], Held] = {}
"""m, n, k and dtype -> what the race told."""


def takes(call: Any, result: Any) -> bool:
    """Whether NumPy may compute a call: its BLAS has the type, so that results keep the same bound, and no precision is asked for."""
    if any(call.options[4:]):
        return False
    return result.dtype == call.arrays[0].dtype and result.dtype in DTYPES


class ByNumpy:
    """A product that NumPy computes, in place of the ``recorded`` call, on arrays that were checked when that was recorded."""

    def __init__(self, recorded: Again, trans: tuple[str, ...]) -> None:
        self._recorded, self._trans = recorded, trans

    def apart_from(self, places: Sequence[int]) -> bool:
        """Whether the arrays are apart, as for a recorded call."""
        return self._recorded.apart_from(places)

    def again(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The product; None where the output is not the caller's own."""
        if out is not None and not self._recorded.apart_from(places):
            return None
        return self.computed(arrays, factors, out)

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The product of arrays that are known to lie apart."""
        a, b = transposed(arrays[0], self._trans[0]), transposed(arrays[1], self._trans[1])
        c = arrays[2] if factors[1] != 0 else None
        return silently(finished, computing(a, b, out if c is None else None), a, b, c, factors, out)


class Recorded(Again, Protocol):
    """One that ``perform`` has computed once, on a device."""

    @property
    def on_processor(self) -> bool:
        """Whether that is a processor, of which NumPy's BLAS has the same cores."""


class Contested:
    """A ``recorded`` product that is raced at its next call. Calls after that one give the bits that it gives."""

    def __init__(self, recorded: Again, trans: tuple[str, ...]) -> None:
        self._recorded, self._trans = recorded, trans
        self._chosen: Again | None = None

    def apart_from(self, places: Sequence[int]) -> bool:
        """Whether the arrays are apart, as for a recorded call."""
        return self._recorded.apart_from(places)

    def again(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The product; None where the call has to be planned anew."""
        if self._chosen is not None:
            return self._chosen.again(library, arrays, factors, out, places)
        reads_c = factors[1] != 0
        kept = out.copy() if reads_c and out is not None and out is arrays[2] else None
        rival = ByNumpy(self._recorded, self._trans)
        race = Race(
            lambda: self._recorded.again(library, arrays, factors, out, list(places)),
            lambda: rival.computed(arrays, factors, out),
            out,
            kept,
        )
        result, on_device = race.run(race.device)
        if result is None:
            return None
        self._chosen = self._recorded
        if max(on_device) > _TOO_LONG:
            return result
        held = race.held(on_device)
        if not reads_c:
            _note(result, arrays[0].shape[-1 if self._trans[0] == "N" else -2], held)
        if held.numpy_wins:
            self._chosen = rival
            _remember(arrays if out is None else arrays[:-1], out, self._trans, reads_c)
            return held.numpys
        return result if out is None else race.run(race.device)[0]


def faster(recorded: Recorded, library: Any, call: Any, result: NDArray[Any], places: Sequence[int]) -> Again:
    """``recorded``, a product on host arrays that was just computed, or a ``ByNumpy`` where that is faster here.

    ``alpha`` is not 0. Afterwards ``result`` holds what the chosen one computes, so that repeated calls give equal bits; but where it was
    an operand too, it holds what it does. Long products are ``Contested`` on processors, and stay with other devices.
    """
    a, trans = call.arrays[0], call.options
    k = a.shape[-1] if trans[0] == "N" else a.shape[-2]
    if 2 * result.size * k > _LARGEST:
        return Contested(recorded, trans[:2]) if recorded.on_processor else recorded
    rival, reads_c = ByNumpy(recorded, trans[:2]), call.factors[1] != 0
    kept = result.copy() if reads_c and result is call.arrays[2] else None
    arrays, factors = (*call.arrays, result), call.factors
    race = Race(lambda: recorded.again(library, arrays, factors, result, list(places)), lambda: rival.computed(arrays, factors, result))
    held = race.held()
    finding = seconds_to_find(library, arrays)
    held = held._replace(on_device=held.on_device + finding, least_on_device=held.least_on_device + finding)
    if not reads_c:
        _note(result, k, held)
    if held.numpy_wins:
        _remember(call.arrays, call.out, trans[:2], reads_c)
    elif kept is None:
        race.device()
    if kept is not None:
        np.copyto(result, kept)
    return rival if held.numpy_wins else recorded


def _note(result: NDArray[Any], k: int, held: Held) -> None:
    """Keep how long a product took each way, for ``note``."""
    if result.ndim == 2:
        if len(_raced) >= _MOST:
            _raced.clear()
        _raced[(*result.shape, k, str(result.dtype))] = held._replace(numpys=None)


def _remember(arrays: tuple[Any, ...], out: Any, trans: tuple[str, ...], reads_c: bool) -> None:
    """Let NumPy compute calls like one with these arguments without looking for a record."""
    a, b, c = arrays if len(arrays) == 3 else (*arrays, None)
    op_a, op_b = transposed(a, trans[0]), transposed(b, trans[1])
    if trans == ("N", "N") and c is None:
        numpy_products.remember(a, b, out)
    plain = computing(op_a, op_b, None if reads_c else out)
    scaled = of_transposed(plain, trans, a.ndim == b.ndim == 2)
    numpy_products.remember_scaled(scaled_form(a, b, c, reads_c, trans, out), scaled)


def converted_product(call: Any) -> Any:
    """The product of arrays that lists, vectors, integers or arrays with steps were converted to, if it is left to NumPy; else None."""
    a, b, *rest = call.arrays
    plain = not rest and call.device is None and call.options[:2] == ("N", "N") and not any(call.options[2:]) and call.factors == (1.0, 0.0)
    return numpy_products.product(a, b, call.out) if plain and type(a) is np.ndarray and type(b) is np.ndarray else None


def follow(call: Any, converted: Any) -> None:
    """Let NumPy compute calls like ``call`` too, if it computes the call that this was ``converted`` to, with the same dtypes."""
    arrays, converted_arrays = (*call.arrays, call.out), (*converted.arrays, converted.out)
    for array, as_read in zip(arrays, converted_arrays, strict=True):
        if (array is not None or as_read is not None) and (type(array) is not np.ndarray or getattr(as_read, "dtype", None) != array.dtype):
            return
    if numpy_products.computes(*converted_arrays):
        numpy_products.remember(*arrays)


def note(problem: Problem, on_processor: bool) -> str:
    """A sentence for ``explain`` about what is left to NumPy, and about the race for a product; empty where there is none."""
    if problem.workload != "gemm":
        return numpy_level3.note(problem)
    if problem.dtype not in map(str, DTYPES):
        return ""
    m, n, k = (problem.sizes[name] for name in ("m", "n", "k"))
    long = 2 * m * n * k > _LARGEST
    if m * n * k == 0 or (long and not on_processor):
        return ""
    if numpy_products.at_once(m * n * k, np.dtype(problem.dtype)):
        return f"NumPy arrays of this size are left to {numpy_products.BY_NUMPY}"
    held = _raced.get((m, n, k, problem.dtype))
    if held is None:
        when = "second" if long else "first"
        return f"NumPy arrays of this size are raced against NumPy's BLAS at their {when} call where no device is named"
    rates = f"{1e6 * held.by_numpy:.0f} us, where the device takes {1e6 * held.on_device:.0f}"
    how = "are left to NumPy's BLAS where no device is named" if held.numpy_wins else "were raced against NumPy's BLAS"
    return f"NumPy arrays of this size {how}: {rates}"
