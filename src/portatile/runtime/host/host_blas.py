"""Products and level-3 routines on host arrays are left to NumPy's BLAS where it is faster than the device on this machine.

The first call of a shape for which no device is named runs a few times on each side. The faster side computes such calls from then on. On a
processor a long call is raced at its second call instead, so that a user who multiplies only once waits for one product. So is a short call
for which BLAS took implausibly long, because other programs may be using its cores. If BLAS is still as slow at the second call, NumPy
computes the product.
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

_LARGEST = 1 << 27  # operations of the largest product that is raced: one core takes 1-2 ms, and a launch adds a few per cent
_TOO_LONG = 3.0  # seconds; a product that takes longer is not repeated for a race
_TRIES: tuple[int, ...] = (8, 64)  # calls after a race at which NumPy is timed again
_AT_A_TRY = 2  # runs of NumPy at each of these calls
_MOST = 4096  # entries in the table below
_raced: dict[Hashable, RaceResult] = {}
"""Race results by workload, sizes and dtype."""


def takes(call: Any, result: Any) -> bool:
    """Whether NumPy may compute a call: BLAS supports the dtype, so error bounds stay the same, and no precision is asked for."""
    if any(call.options[4:]):
        return False
    return result.dtype == call.arrays[0].dtype and result.dtype in DTYPES


class NumpyProduct:
    """A product that NumPy computes in place of the ``recorded`` call; the arrays were checked when that call was recorded."""

    fastest = 3.0  # on one quiet core our products were up to 2.3 times as fast as OpenBLAS

    def __init__(self, recorded: RecordedCall, trans: tuple[str, ...]) -> None:
        self._recorded, self._trans = recorded, trans

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the output overlaps no operand; the recorded call decides."""
        return self._recorded.disjoint(places)

    def repeat(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The product; None where the output overlaps an operand."""
        if out is not None and not self._recorded.disjoint(places):
            return None
        return self.computed(arrays, factors, out)

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The product of arrays that are known not to overlap."""
        a, b = transposed(arrays[0], self._trans[0]), transposed(arrays[1], self._trans[1])
        c = arrays[2] if factors[1] != 0 else None
        return silently(finished, computing(a, b, out if c is None else None), a, b, c, factors, out)

    def remember(self, arrays: tuple[Any, ...], out: Any, factors: tuple[Any, ...]) -> None:
        """Have NumPy compute calls with arguments like these, without searching the recorded calls."""
        _remember(arrays, out, self._trans, factors[1] != 0)


class HostAlternative(RecordedCall, Protocol):
    """A way to compute a recorded call on the host."""

    @property
    def fastest(self) -> float:
        """The plausible limit of the speedup over the host that a device can have if it is the host's own processor."""

    def computed(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any) -> Any:
        """The result of arrays that are known not to overlap; the output is the last of them unless it is None."""

    def remember(self, arrays: tuple[Any, ...], out: Any, factors: tuple[Any, ...]) -> None:
        """Have the host compute calls with arguments like these, where possible without searching the recorded calls."""


class DeviceCall(RecordedCall, Protocol):
    """A recorded call that ``perform`` has computed once, on a device."""

    @property
    def on_processor(self) -> bool:
        """Whether that device is a processor, which shares its cores with NumPy's BLAS."""


class RacedProblem(NamedTuple):
    """A computation to be raced: the key under which its result is kept (None: it is not kept), and its number of multiply-adds."""

    key: Hashable
    operations: int


class RacedCall:
    """A ``recorded`` call on a processor. It is raced against ``on_host`` at its next call, unless ``outcome`` says that it has already
    won.

    The winner computes all later calls, so that repeated calls give equal bits. Where the kernels have won, NumPy is timed again at a few
    later calls, because other programs may have used its cores throughout the race: if NumPy takes no longer then, the race is repeated.
    """

    def __init__(self, recorded: DeviceCall, on_host: HostAlternative, key: Hashable, outcome: RaceResult | None = None) -> None:
        self._recorded, self._on_host, self._key = recorded, on_host, key
        self._chosen: RecordedCall | None = None if outcome is None else recorded
        self._outcome, self._calls, self._tries = outcome, 0, _TRIES

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the output overlaps no operand; the recorded call decides."""
        return self._recorded.disjoint(places)

    def repeat(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; None where the call has to be planned again."""
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
            out.copy() if _is_operand(operands, out) else None,
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
        """Whether NumPy wins a new race; products that take too long are not raced."""
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
    """``recorded``, a product on host arrays that was just computed, or a ``NumpyProduct`` where NumPy is faster on this machine.

    ``alpha`` must not be 0. Afterwards ``result`` holds what the chosen side computes, so that repeated calls give equal bits; a ``result``
    that is also an operand keeps the values of ``recorded``. Long products become a ``RacedCall`` on processors, and stay with any other
    device.
    """
    a, trans = call.arrays[0], call.options
    k = a.shape[-1] if trans[0] == "N" else a.shape[-2]
    key = ("gemm", (*result.shape, k), str(result.dtype)) if call.factors[1] == 0 and result.ndim == 2 else None
    return faster_than(recorded, NumpyProduct(recorded, trans[:2]), RacedProblem(key, 2 * result.size * k), library, call, (result, places))


def faster_than(
    recorded: DeviceCall, on_host: HostAlternative, raced: RacedProblem, library: Any, call: Any, output: tuple[NDArray[Any], Sequence[int]]
) -> RecordedCall:
    """As ``faster``, for any recorded call and its alternative ``on_host``. ``output`` is the result and the addresses of all arrays."""
    if raced.operations > _LARGEST:
        return RacedCall(recorded, on_host, raced.key) if recorded.on_processor else recorded
    result, places = output
    kept = result.copy() if _is_operand(call.arrays, result) else None
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


def _is_operand(operands: Sequence[Any], result: Any) -> bool:
    """Whether the result is also one of the operands."""
    return any(operand is result for operand in operands)


def _note(key: Hashable, outcome: RaceResult) -> None:
    """Keep how long each side took, for ``note``."""
    if key is not None:
        if len(_raced) >= _MOST:
            _raced.clear()
        _raced[key] = outcome._replace(numpy_result=None)


def _remember(arrays: tuple[Any, ...], out: Any, trans: tuple[str, ...], reads_c: bool) -> None:
    """Have NumPy compute calls with arguments like these, without searching the recorded calls."""
    a, b, c = arrays if len(arrays) == 3 else (*arrays, None)
    op_a, op_b = transposed(a, trans[0]), transposed(b, trans[1])
    if trans == ("N", "N") and c is None:
        numpy_products.remember(a, b, out)
    plain = computing(op_a, op_b, None if reads_c else out)
    scaled = of_transposed(plain, trans, a.ndim == b.ndim == 2)
    numpy_products.remember_scaled(scaled_form(a, b, c, reads_c, trans, out), scaled)


def converted_product(call: Any) -> Any:
    """The product of arrays that were converted from lists, vectors, integers or strided arrays, if NumPy may compute it; else None."""
    a, b, *rest = call.arrays
    plain = not rest and call.device is None and call.options[:2] == ("N", "N") and not any(call.options[2:]) and call.factors == (1.0, 0.0)
    return numpy_products.product(a, b, call.out) if plain and type(a) is np.ndarray and type(b) is np.ndarray else None


def follow(call: Any, converted: Any) -> None:
    """Have NumPy compute calls like ``call`` if NumPy computes the call that it was ``converted`` to, and the dtypes are equal."""
    arrays, converted_arrays = (*call.arrays, call.out), (*converted.arrays, converted.out)
    for array, as_read in zip(arrays, converted_arrays, strict=True):
        if (array is not None or as_read is not None) and (type(array) is not np.ndarray or getattr(as_read, "dtype", None) != array.dtype):
            return
    if numpy_products.computes(*converted_arrays):
        numpy_products.remember(*arrays)


def note(problem: Problem, on_processor: bool) -> str:
    """A sentence for ``explain`` about what NumPy computes and about a race; empty where neither applies."""
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
