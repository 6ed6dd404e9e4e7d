"""Fast repetition of calls: a description of the arrays (types, shapes, strides, alignments) is the key to prepared launches.

The first call with a description is planned, with every check, and performed. It is recorded if the same steps can run on arrays at other
addresses. Later calls with an equal description run these steps, and check only that arrays do not overlap and factors are in range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from portatile import settings
from portatile.arguments import described, host_tensors
from portatile.arguments.described import Guard, Library
from portatile.device import Selector
from portatile.device.foreign_arrays import resolved
from portatile.runtime.host import host_blas, numpy_products
from portatile.runtime.host.host_blas import faster
from portatile.runtime.host.host_calls import Forms, HostCall, HostRoutine
from portatile.runtime.host.host_race import RecordedCall
from portatile.runtime.one_device import memory_limit
from portatile.runtime.perform import forgetting, perform
from portatile.runtime.repeated.recorded_shares import record_shared
from portatile.runtime.repeated.recorded_steps import RecordedSteps, addresses, record
from portatile.runtime.repeated.replayed import Replays
from portatile.runtime.request import Request, RoutineCall

_MOST = 4096  # recorded calls of one routine that are kept
_HEAD = 4  # items of a key before the descriptions of arrays
_OFTEN = 8  # consecutive equal look-ups after which a guard is made, which takes as long as several look-ups
_FACTORS = 64  # tuples of factors for which a routine caches which of them are 0


class Planned(NamedTuple):
    """A planned call: the array that the caller gets, and the requests that fill it, in order; no requests if it is filled already.

    Each scalar of a request is either one of the call's factors or follows from the call's options.
    """

    result: Any
    requests: Sequence[Request]


class Converted(NamedTuple):
    """An equivalent call on arrays that kernels can read; ``finish`` turns its result into that of the original call."""

    plan: Plan
    call: RoutineCall
    finish: Callable[[Any], Any]


Plan = Callable[[RoutineCall], Planned | Converted]
"""A routine's planner: checks the arguments of a call, and raises ArgumentError if they do not fit together."""


class Recorder:
    """The recorded calls of one routine. ``factors`` names its scalars, in the order of ``RoutineCall.factors``.

    Of the arrays only the last one may itself be the output. ``lasting`` records survive ``perform.forget``, because they depend on no
    tuning result. A ``product`` multiplies the first two arrays, so NumPy may compute it; ``host`` says what else runs on the host.
    ``call`` tries ``replays`` first; a caller that has tried them itself continues with ``look_up``. Safe to call from several threads.
    """

    def __init__(
        self,
        factors: tuple[str, ...],
        lasting: bool = False,
        product: bool = False,
        host: HostRoutine | None = None,
        replays: Replays | None = None,
    ) -> None:
        self._factors, self._product, self._host = factors, product, host
        self._known: dict[tuple[object, ...], RecordedCall] = {}
        # the latest look-up: comparing lists is faster than hashing a tuple
        self._last: tuple[list[object], RecordedCall | None] = [], None
        self._forms = Forms()
        self._in_turn = 0  # consecutive look-ups that were equal to the latest one
        # after many equal look-ups: the head of their key, the guard that recognises the arrays, and the recorded call
        self._guarded: tuple[list[object], Guard, RecordedCall] | None = None
        self.replays = replays or Replays()
        self._nonzero: dict[tuple[float, ...], tuple[bool, ...]] = {}  # by factors
        if not lasting:
            forgetting.append(self._forget)
            if self._product:
                forgetting.append(numpy_products.forget)

    def call(
        self, plan: Plan, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any, device: Selector | None
    ) -> Any:
        """The result of the call that a ``RoutineCall`` of these arguments describes; raises what ``plan`` raises."""
        if out is None:
            if self.replays.made and (made := self.replays.make(arrays, factors, options, device)) is not None:
                return made
        elif self.replays.known and self.replays.run((*arrays, out), factors, options, device):
            return out
        return self.look_up(plan, arrays, factors, options, out, device)

    def look_up(
        self, plan: Plan, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any, device: Selector | None
    ) -> Any:
        """As ``call`` without the replays: looks the call up by the description of its arrays."""
        if self._host is not None and device is None and (result := self._forms.again(arrays, factors, options, out)) is not None:
            return result
        if type(device) is list:
            device = tuple(device)  # hashable, so that the call can be looked up
        kind = type(arrays[0])
        library = described.known.get(kind) or described.library_of(kind)
        if library is None or (library.mixed and host_tensors.is_host_tensor(arrays[0])):
            return self._first(plan, RoutineCall(arrays, factors, options, out, device), None, None)
        all_arrays = arrays if out is None else (*arrays, out)
        try:
            reads = self._nonzero.get(factors)
            if reads is None:
                reads = self._which_nonzero(factors)
            key: list[object] = [options, device, reads, None if out is None else out is arrays[-1]]
            guarded = self._guarded
            places = None if guarded is None or guarded[0] != key else guarded[1].places(all_arrays)
            recorded: RecordedCall | None
            if guarded is not None and places is not None:
                recorded = guarded[2]
            else:
                places = library.describe(all_arrays, key)
                if places is None:
                    return self._first(plan, RoutineCall(arrays, factors, options, out, device), None, None)
                if library.on_host:
                    key += (memory_limit.asked(), settings.selection())
                last, recorded = self._last
                if key != last:
                    recorded = self._known.get(tuple(key))
                    self._keep_last(key, recorded)
                elif library.guards:
                    self._guard(library, key, all_arrays, recorded)
        # an array without the expected attributes, or unhashable options
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
            return self._first(plan, RoutineCall(arrays, factors, options, out, device), None, None)
        if recorded is not None and (result := recorded.repeat(library, all_arrays, factors, out, places)) is not None:
            return result
        if len(key) == _HEAD:  # the guard recognised the arrays, so that they were not described
            library.describe(all_arrays, key)
        return self._first(plan, RoutineCall(arrays, factors, options, out, device), library, tuple(key))

    def _forget(self) -> None:
        self._known.clear()
        self._forms.clear()
        self.replays.clear()
        self._keep_last([], None)

    def _keep_last(self, key: list[object], recorded: RecordedCall | None) -> None:
        self._last, self._in_turn, self._guarded = (key, recorded), 0, None

    def _guard(self, library: Library, key: list[object], arrays: Sequence[Any], recorded: RecordedCall | None) -> None:
        """Have a guard recognise these arrays from now on, if this look-up equals the one before and belongs to a frequent call."""
        self._in_turn += 1
        if not isinstance(recorded, RecordedSteps) or (self._in_turn < _OFTEN and not recorded.guarded):
            return
        if (guard := recorded.guard(library, arrays)) is not None:
            self._guarded = key[:_HEAD], guard, recorded

    def _which_nonzero(self, factors: tuple[Any, ...]) -> tuple[bool, ...]:
        """Which factors are not 0. The key includes this, because operands that are multiplied by 0 are not read."""
        if len(self._nonzero) >= _FACTORS:
            self._nonzero.clear()
        return self._nonzero.setdefault(factors, tuple([factor != 0 for factor in factors]))

    def _first(self, plan: Plan, call: RoutineCall, library: Library | None, key: tuple[object, ...] | None) -> Any:
        """Plan and perform a call that is not recorded; then record it under ``key`` (None: never), or let NumPy compute such calls."""
        if any(map(host_tensors.is_host_tensor, call.arrays)) or host_tensors.is_host_tensor(call.out):
            arrays, factors, options, out, device = call
            return host_tensors.through(
                lambda *arguments: self.call(plan, arguments[:-1], factors, options, arguments[-1], device), *arrays, out
            )
        plain = tuple(map(resolved, call.arrays))
        if any(one is not other for one, other in zip(plain, call.arrays, strict=True)):
            return self.call(plan, plain, *call[1:])
        planned = plan(call)
        if isinstance(planned, Converted):
            computed = host_blas.converted_product(planned.call) if self._product else None
            result = planned.finish(self.call(planned.plan, *planned.call) if computed is None else computed)
            if self._product:
                host_blas.follow(call, planned.call)
            elif self._host is not None and library is not None and library.on_host:
                self._forms.follow(call, planned.call, result.shape)
            return result
        result, requests = planned
        on_host = self._on_host(call, result, requests, library) if key is not None else None
        if on_host is not None and self._host is not None and key is not None and self._host.small(call):
            self._keep(key, on_host)
            on_host.remember(call.arrays, call.out, call.factors)
            return on_host.run(call.arrays, call.factors, result)
        bounds = [perform(request) for request in requests]
        if key is not None and library is not None:
            recorded = record(library, call, result, list(zip(requests, bounds, strict=True)), self._factors)
            if recorded is not None:
                recorded.replays = self.replays
                self._keep(key, self._faster(recorded, on_host, library, call, planned))
            elif (shared := record_shared(library, call, result, requests, self._factors)) is not None:
                self._keep(key, shared)
        return result

    def _keep(self, key: tuple[object, ...], recorded: RecordedCall) -> None:
        if len(self._known) >= _MOST:
            self._forget()
        self._keep_last([], None)
        self._known[key] = recorded

    def _on_host(self, call: RoutineCall, result: Any, requests: Sequence[Request], library: Library | None) -> HostCall | None:
        """A planned call on host arrays as the host computes it; None where it does not, or a device is named."""
        if self._host is None or library is None or not library.on_host or not requests:
            return None
        if call.device is not None or settings.selection() != (None, None):
            return None
        return self._host.on_host(call, result, self._forms)

    def _faster(
        self, recorded: RecordedSteps, on_host: HostCall | None, library: Library, call: RoutineCall, planned: Planned
    ) -> RecordedCall:
        """What computes this call from now on: ``recorded``, which has just run on a device, or NumPy's BLAS if that is faster."""
        result, requests = planned
        any_device = self._product and library.on_host and call.device is None and settings.selection() == (None, None)
        if any_device and host_blas.takes(call, result) and call.factors[0] != 0:
            return faster(recorded, library, call, result, addresses(library, call.arrays, result))
        if on_host is None or self._host is None or 0 in call.factors[:1]:
            return recorded
        key = (requests[0].workload, requests[0].sizes, str(result.dtype)) if len(requests) == 1 else None
        raced = host_blas.RacedProblem(key, self._host.operations(call))
        return host_blas.faster_than(recorded, on_host, raced, library, call, (result, addresses(library, call.arrays, result)))
