"""Products and level 3 on host arrays: left to NumPy's BLAS where that takes less time than the device does on this machine.

The first call of a shape for which no device is named runs a few times each way. The faster way computes such calls from then on.
A long call on a processor is raced at its second call, so that who multiplies but once waits for one product; and so is a short one for
which BLAS took implausibly long, as it does while other programs have its cores. Where that is so at a second call NumPy computes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.runtime.host import blas_calls, numpy_level3, numpy_products
from portatile.runtime.host.host_race import HostRace, RaceResult, RecordedCall, clearly, seconds_to_find
from portatile.runtime.host.numpy_products import DTYPES, computing, finished, of_transposed, scaled_form, silently, transposed

_LARGEST = 1 << 27  # operations of a product that is raced: a millisecond or two of one core, of which a launch takes a few per cent
_TOO_LONG = 3.0  # seconds of a product that is not computed twice more for a race
_TRIES: tuple[int, ...] = (8, 64)  # calls after a race at which NumPy tries again
_AT_A_TRY = 2  # runs of NumPy then
_MOST = 4096  # entries of the table below
_raced: dict[Hashable, RaceResult] = {}
"""Results of races, by workload, sizes and dtype."""


def takes(call: Any, result: Any) -> bool:
    """Whether NumPy may compute a call: its BLAS has the type, so that results keep the same bound, and no precision is asked for."""
    if any(call.options[4:]):
        return False
    return result.dtype == call.arrays[0].dtype and result.dtype in DTYPES


class NumpyProduct:
    """A product that NumPy computes, in place of the ``recorded`` call, on arrays that were checked when that was recorded."""

    fastest = 3.0  # products on one quiet core were up to 2.3 times as fast as those of OpenBLAS

    def __init__(self, recorded: RecordedCall, trans: tuple[str, ...]) -> None:
        self._recorded, self._trans = recorded, trans

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the arrays are apart, as for a recorded call."""
        return self._recorded.disjoint(places)

    def repeat(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The product; None where the output is not the caller's own."""
        if out is not None and not self._recorded.disjoint(places):
            return None
        return self.computed(arrays, factors, out)

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The product of arrays that are known to lie apart."""
        a, b = transposed(arrays[0], self._trans[0]), transposed(arrays[1], self._trans[1])
        c = arrays[2] if factors[1] != 0 else None
        return silently(finished, computing(a, b, out if c is None else None), a, b, c, factors, out)

    def remember(self, arrays: tuple[Any, ...], out: Any, factors: tuple[Any, ...]) -> None:
        """Let NumPy compute calls like one with these arguments without looking for a record."""
        _remember(arrays, out, self._trans, factors[1] != 0)


class HostAlternative(RecordedCall, Protocol):
    """A way to compute a recorded call on the host."""

    @property
    def fastest(self) -> float:
        """How many times as fast a device can be that is the host's processor itself."""

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The result of arrays that are known to lie apart; the output is the last of them, unless it is None."""

    def remember(self, arrays: tuple[Any, ...], out: Any, factors: tuple[Any, ...]) -> None:
        """Let calls like one with these arguments be computed so, without looking for a record where that can be."""


class DeviceCall(RecordedCall, Protocol):
    """One that ``perform`` has computed once, on a device."""

    @property
    def on_processor(self) -> bool:
        """Whether that is a processor, of which NumPy's BLAS has the same cores."""


class RacedProblem(NamedTuple):
    """A computation that is raced: the key under which its result is kept, None if it is not kept, and its operations."""

    key: Hashable
    operations: int


class RacedCall:
    """A ``recorded`` call on a processor that is raced against its ``on_host`` at the next call, unless ``outcome`` tells that it has won.

    Calls after that one give the bits that it gives. Where the kernels have won NumPy tries again at a few later calls, for other programs
    may have had its cores all through a race: if it takes no longer then, there is another race.
    """

    def __init__(self, recorded: DeviceCall, on_host: HostAlternative, key: Hashable, outcome: RaceResult | None = None) -> None:
        self._recorded, self._on_host, self._key = recorded, on_host, key
        self._chosen: RecordedCall | None = None if outcome is None else recorded
        self._outcome, self._calls, self._tries = outcome, 0, _TRIES

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the arrays are apart, as for a recorded call."""
        return self._recorded.disjoint(places)

    def repeat(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; None where the call has to be planned anew."""
        if self._chosen is not None:
            if self._outcome is None or not self._tries:
                return self._chosen.repeat(library, arrays, factors, out, places)
            self._calls += 1
            if self._calls < self._tries[0]:
                return self._chosen.repeat(library, arrays, factors, out, places)
        operands = arrays if out is None else arrays[:-1]
        race = HostRace(
            lambda: self._recorded.repeat(library, arrays, factors, out, list(places)),
            lambda: self._on_host.computed(arrays, factors, out),
            out,
            out.copy() if _holds(operands, out) else None,
        )
        result, on_device = race.run(race.device)
        if result is None:
            return None
        if not self._raced_again(race, on_device):
            return result if out is None else race.run(race.device)[0]
        self._chosen, self._outcome = self._on_host, None
        self._on_host.remember(operands, out, factors)
        return race.run(race.numpy)[0]

    def _raced_again(self, race: HostRace, on_device: list[float]) -> bool:
        """Whether NumPy wins now; it does not for products that take too long."""
        if self._outcome is not None:
            self._tries = self._tries[1:]
            if clearly(self._outcome.on_device, min(race.run(race.numpy, _AT_A_TRY)[1])):
                return False
        self._chosen = self._recorded
        if max(on_device) > _TOO_LONG:
            return False
        outcome = race.compared(on_device)
        _note(self._key, outcome)
        self._outcome = outcome._replace(numpy_result=None)
        return outcome.numpy_wins or not outcome.plausible(self._on_host.fastest)


def faster(recorded: DeviceCall, library: Any, call: Any, result: NDArray[Any], places: Sequence[int]) -> RecordedCall:
    """``recorded``, a product on host arrays that was just computed, or a ``NumpyProduct`` where that is faster here.

    ``alpha`` is not 0. Afterwards ``result`` holds what the chosen one computes, so that repeated calls give equal bits; but where it was
    an operand too, it holds what it does. Long products are ``RacedCall`` on processors, and stay with other devices.
    """
    a, trans = call.arrays[0], call.options
    k = a.shape[-1] if trans[0] == "N" else a.shape[-2]
    key = ("gemm", (*result.shape, k), str(result.dtype)) if call.factors[1] == 0 and result.ndim == 2 else None
    return faster_than(recorded, NumpyProduct(recorded, trans[:2]), RacedProblem(key, 2 * result.size * k), library, call, (result, places))


def faster_than(
    recorded: DeviceCall, on_host: HostAlternative, raced: RacedProblem, library: Any, call: Any, output: tuple[NDArray[Any], Sequence[int]]
) -> RecordedCall:
    """``recorded``, or its ``on_host`` where that is faster here, as ``faster`` says; ``output`` is the result, and all addresses."""
    if raced.operations > _LARGEST:
        return RacedCall(recorded, on_host, raced.key) if recorded.on_processor else recorded
    result, places = output
    kept = result.copy() if _holds(call.arrays, result) else None
    arrays, factors = (*call.arrays, result), call.factors
    race = HostRace(
        lambda: recorded.repeat(library, arrays, factors, result, list(places)), lambda: on_host.computed(arrays, factors, result)
    )
    outcome = race.compared()
    finding = seconds_to_find(library, arrays)
    outcome = outcome._replace(on_device=outcome.on_device + finding, least_on_device=outcome.least_on_device + finding)
    undecided = recorded.on_processor and not outcome.plausible(on_host.fastest)
    if not undecided:
        _note(raced.key, outcome)
    if outcome.numpy_wins:
        on_host.remember(call.arrays, call.out, factors)
    elif kept is None:
        race.device()
    if kept is not None:
        np.copyto(result, kept)
    if outcome.numpy_wins:
        return on_host
    if not recorded.on_processor:
        return recorded
    return RacedCall(recorded, on_host, raced.key, None if undecided else outcome._replace(numpy_result=None))


def _holds(operands: Sequence[Any], result: Any) -> bool:
    """Whether a result is one of the operands."""
    return any(operand is result for operand in operands)


def _note(key: Hashable, outcome: RaceResult) -> None:
    """Keep how long a call took each way, for ``note``."""
    if key is not None:
        if len(_raced) >= _MOST:
            _raced.clear()
        _raced[key] = outcome._replace(numpy_result=None)


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
    """A sentence for ``explain`` about what is left to NumPy, and about a race; empty where there is none."""
    product = problem.workload == "gemm"
    sizes = {name: problem.sizes[name] for name in "mnk"} if product else problem.sizes
    if problem.dtype not in map(str, DTYPES) or not prod(sizes.values()):
        return ""
    dtype = np.dtype(problem.dtype)
    if not product and not blas_calls.known(problem.workload, dtype):
        return ""
    if numpy_products.at_once(prod(sizes.values()), dtype) if product else numpy_level3.brief(problem):
        return f"NumPy arrays of this size are left to {numpy_products.BY_NUMPY}"
    long = 2 * (prod(sizes.values()) if product else numpy_level3.multiply_adds(problem)) > _LARGEST
    if long and not on_processor:
        return ""
    outcome = _raced.get((problem.workload, tuple(sizes.values()), problem.dtype))
    if outcome is None:
        when = "second" if long else "first"
        return f"NumPy arrays of this size are raced against NumPy's BLAS at their {when} call where no device is named"
    rates = f"{1e6 * outcome.by_numpy:.0f} us, where the device takes {1e6 * outcome.on_device:.0f}"
    how = "are left to NumPy's BLAS where no device is named" if outcome.numpy_wins else "were raced against NumPy's BLAS"
    return f"NumPy arrays of this size {how}: {rates}"
