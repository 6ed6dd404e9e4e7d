"""Fast repetition of calls: a description of the arrays (types, shapes, strides, alignments) is the key to launches that lie ready.

The first call of a kind is planned, with every check, and performed. It is recorded if the same steps can run again on arrays at other
addresses; later calls with an equal description run these steps and check nothing but overlaps and factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from portatile import settings
from portatile.arguments import described, host_tensors
from portatile.arguments.described import MASK, Check, Guard, Library
from portatile.device import Selector
from portatile.device.base import Queue
from portatile.device.buffer import Buffer
from portatile.device.foreign_arrays import THREAD_STREAM, resolved
from portatile.device.strides import span
from portatile.runtime import host_blas, memory_limit, numpy_products
from portatile.runtime.crossing import CopiedLaunches, host_launches
from portatile.runtime.engine import BoundProblem, Engine
from portatile.runtime.factors import Types, like, types_of
from portatile.runtime.host_blas import faster
from portatile.runtime.host_calls import Forms, HostCall, HostRoutine
from portatile.runtime.host_race import RecordedCall
from portatile.runtime.perform import forgetting, perform
from portatile.runtime.replayed import Replay, Replays
from portatile.runtime.request import Request
from portatile.runtime.steps import CallArray, Constant, HostLaunches, HostProblem, InitialContentStep, Launches, entire, source_of

_MOST = 4096  # recorded calls of one routine
_HEAD = 4  # what stands in a key before the descriptions of arrays
_OFTEN = 8  # look-ups in turn from which a guard is made: it takes as long as several
Step = Launches | HostLaunches | CopiedLaunches | InitialContentStep
_CHECKS = 4  # of the arrays of one recorded call, in as many modes of their library
_FACTORS = 64  # tuples of factors for which a routine remembers which are 0


class RoutineCall(NamedTuple):
    """The arguments of a call: arrays that are read, factors such as alpha, options such as transpositions, the output, and the device."""

    arrays: tuple[Any, ...]
    factors: tuple[Any, ...]
    options: tuple[Any, ...]
    out: Any
    device: Selector | None


class Planned(NamedTuple):
    """A planned call: the array that the caller gets, and the requests that fill it, in order; none where it is filled already.

    Scalars of a request are the call's factors, or must follow from the call's options.
    """

    result: Any
    requests: Sequence[Request]


class Converted(NamedTuple):
    """Another call that computes the same on arrays that kernels read; ``finish`` turns its result into the original call's."""

    plan: Plan
    call: RoutineCall
    finish: Callable[[Any], Any]


Plan = Callable[[RoutineCall], Planned | Converted]
"""A routine's planner: checks the arguments of a call, and raises ArgumentError for those that do not fit together."""


class Recorder:
    """The recorded calls of one routine. ``factors`` names its scalars, in the order of ``RoutineCall.factors``.

    Only the last of the arrays may be the output itself. ``lasting`` records survive ``perform.forget``, because they depend on no
    tuning result. A ``product`` multiplies the first two arrays, so NumPy may compute it; ``host`` tells what else is computed on the host.
    ``call`` tries ``replays`` first, as may its caller. Safe to call from several threads.
    """

    def __init__(self, factors: tuple[str, ...], lasting: bool = False, product: bool = False, host: HostRoutine | None = None) -> None:
        self._factors, self._product, self._host = factors, product, host
        self._known: dict[tuple[object, ...], RecordedCall] = {}
        # the latest look-up: comparing lists is faster than hashing a tuple
        self._last: tuple[list[object], RecordedCall | None] = [], None
        self._forms = Forms()
        self._in_turn = 0  # look-ups that were equal to the latest
        # after many such look-ups: the beginning of their key, the guard that knows the rest, and the recorded call
        self._guarded: tuple[list[object], Guard, RecordedCall] | None = None
        self.replays = Replays()
        self._nonzero: dict[tuple[float, ...], tuple[bool, ...]] = {}  # by factors
        if not lasting:
            forgetting.append(self._forget)
            if self._product:
                forgetting.append(numpy_products.forget)

    def call(
        self, plan: Plan, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: tuple[Any, ...], out: Any, device: Selector | None
    ) -> Any:
        """The result of the call that a ``RoutineCall`` of these describes; raises what ``plan`` raises."""
        if out is None:
            if self.replays.made and (made := self.replays.make(arrays, factors, options, device)) is not None:
                return made
        elif self.replays.known and self.replays.run((*arrays, out), factors, options, device):
            return out
        if self._host is not None and device is None and (result := self._forms.again(arrays, factors, options, out)) is not None:
            return result
        if type(device) is list:
            device = tuple(device)  # by which a call can be found again
        kind = type(arrays[0])
        library = described.known.get(kind) or described.library_of(kind)
        if library is None:
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
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # an array without these attributes, unhashable options
            return self._first(plan, RoutineCall(arrays, factors, options, out, device), None, None)
        if recorded is not None and (result := recorded.repeat(library, all_arrays, factors, out, places)) is not None:
            return result
        if len(key) == _HEAD:  # a guard knew the arrays
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
        """Have a guard know the calls from now on, if this look-up, equal to the one before, is that of a call that came often."""
        self._in_turn += 1
        if not isinstance(recorded, _Recorded) or (self._in_turn < _OFTEN and not recorded.guarded):
            return
        if (guard := recorded.guard(library, arrays)) is not None:
            self._guarded = key[:_HEAD], guard, recorded

    def _which_nonzero(self, factors: tuple[Any, ...]) -> tuple[bool, ...]:
        """Which factors are not 0. This belongs to the key, because operands that are multiplied by 0 are not read."""
        if len(self._nonzero) >= _FACTORS:
            self._nonzero.clear()
        return self._nonzero.setdefault(factors, tuple([factor != 0 for factor in factors]))

    def _first(self, plan: Plan, call: RoutineCall, library: Library | None, key: tuple[object, ...] | None) -> Any:
        """Plan and perform a call that no record answers; record it under ``key`` (None: never), or let NumPy compute such calls."""
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
            recorded = _record(library, call, result, list(zip(requests, bounds, strict=True)), self._factors)
            if recorded is not None:
                recorded.replays = self.replays
                self._keep(key, self._faster(recorded, on_host, library, call, planned))
        return result

    def _keep(self, key: tuple[object, ...], recorded: RecordedCall) -> None:
        if len(self._known) >= _MOST:
            self._forget()
        self._keep_last([], None)
        self._known[key] = recorded

    def _on_host(self, call: RoutineCall, result: Any, requests: Sequence[Request], library: Library | None) -> HostCall | None:
        """A planned call of host arrays as the host computes it, if it does and no device is named."""
        if self._host is None or library is None or not library.on_host or not requests:
            return None
        if call.device is not None or settings.selection() != (None, None):
            return None
        return self._host.on_host(call, result, self._forms)

    def _faster(self, recorded: _Recorded, on_host: HostCall | None, library: Library, call: RoutineCall, planned: Planned) -> RecordedCall:
        """What computes a call from now on: ``recorded``, which has just done so on a device, or NumPy's BLAS if that is faster."""
        result, requests = planned
        any_device = self._product and library.on_host and call.device is None and settings.selection() == (None, None)
        if any_device and host_blas.takes(call, result) and call.factors[0] != 0:
            return faster(recorded, library, call, result, _places(library, call.arrays, result))
        if on_host is None or self._host is None or 0 in call.factors[:1]:
            return recorded
        key = (requests[0].workload, requests[0].sizes, str(result.dtype)) if len(requests) == 1 else None
        raced = host_blas.RacedProblem(key, self._host.operations(call))
        return host_blas.faster_than(recorded, on_host, raced, library, call, (result, _places(library, call.arrays, result)))


def _places(library: Library, arrays: tuple[Any, ...], result: Any) -> list[int]:
    return [library.place(array) for array in (*arrays, result)]


class _Recorded:
    """A recorded call: the steps that compute it on any arrays of the same description."""

    replays: Replays  # of the routine

    def __init__(
        self, engine: Engine, library: Library, steps: Sequence[Step], call: RoutineCall, result: Any, places: Sequence[int], types: Types
    ) -> None:
        self._engine, self._options, self._selected = engine, call.options, call.device
        kind, self._fits = types
        self._make = library.maker(result, kind)
        self._device, self._generation = engine.device, engine.generation
        self._own = None if library.streams else engine.device.default_queue()
        self._alignment = places[-1] & -places[-1] & MASK
        self._steps = tuple(step.run for step in steps)
        self._only = steps[0] if len(steps) == 1 and isinstance(steps[0], Launches) else None
        self._plain = None if self._only is None else self._only.plain
        self._borrows = self._only is not None and self._only.borrows
        self._checks: dict[int, list[Check]] = {}  # of so many arrays like the call's, the latest that passed first
        self._real = not any(type(factor) is complex for factor in call.factors)
        self._unchecked = not library.guards  # for good, or until a check is wanted
        self._fitting: tuple[float, ...] | None = None  # the latest factors that passed ``_fits``
        self._alone: list[int] | None = None  # addresses of the latest arrays whose output overlapped none of the others
        self.reach = (0, 0)  # first byte of the output, and one past the last, from its first element
        self.apart: tuple[tuple[int, int, int], ...] = ()  # arrays that the output must not overlap: place and reach of each
        # pairs of arguments that were one array: the recorded steps suit only calls in which they are one again
        self._twice = tuple((first, at) for at, place in enumerate(places) if (first := places.index(place)) < at)

    @property
    def on_processor(self) -> bool:
        """Whether the device is a processor."""
        return self._device.info.kind == "cpu"

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the output, the last array, overlaps none that it must not, and arguments that were one array are one again."""
        low, high = self.reach
        low, high = places[-1] + low, places[-1] + high
        for at, first, last in self.apart:
            place = places[at]
            if low < place + last and place + first < high:
                return False
        return all(places[at] == places[first] for first, at in self._twice)

    def repeat(
        self,
        library: Library,
        arrays: tuple[Any, ...],
        factors: tuple[Any, ...],
        out: Any,
        places: list[int],
        made: tuple[Any, int] | None = None,
    ) -> Any:
        """The result of a call; None, with nothing done, where the call has to be planned anew. ``made``: a new output and its address."""
        if self._device.generation != self._generation:
            return None
        if factors != self._fitting:
            if not self._fits(factors):
                return None
            self._fitting = factors
        given = out is not None
        if not given:
            out, place = self._make(arrays[0]) if made is None else made
            if place & -place & MASK != self._alignment or (self._twice and not self.disjoint([*places, place])):
                return None
            places.append(place)
            arrays = (*arrays, out)
        elif places != self._alone:
            if not self.disjoint(places):
                return None
            self._alone = places
        engine = self._engine
        with engine.lock:
            queue = self._own or engine.queue_of(library.stream(out))
            if self._plain is not None:
                as_graph = self._plain.run(queue, (*places, *factors), self._borrows)
            elif self._only is not None:
                as_graph = self._only.run(queue, factors, arrays, places)
            else:
                as_graph = False
                for step in self._steps:
                    step(queue, factors, arrays, places)
            if as_graph and self._real:
                self._keep(library, queue, arrays, places, factors, given)
        return out

    @property
    def guarded(self) -> bool:
        """Whether there is a guard already."""
        return bool(self._checks)

    def guard(self, library: Library, arrays: Sequence[Any]) -> Guard | None:
        """What knows arrays like these of this call sooner than their description; None where there is nothing such."""
        if any(library.place(array) & MASK for array in arrays):
            return None
        check = self._check(library, arrays)
        return None if check is None else Guard(check, library.locate, len(arrays))

    def _check(self, library: Library, arrays: Sequence[Any]) -> Check | None:
        """A check that passes these arrays of this call, made if none does: PyTorch's tell apart what modes are active."""
        if self._unchecked:
            return None
        checks = self._checks.setdefault(len(arrays), [])
        for at, check in enumerate(checks):
            if check(*arrays):
                checks.insert(0, checks.pop(at))
                return check
        made = library.checking(arrays)
        if made is None:
            self._unchecked = not checks
            return None
        checks.insert(0, made)
        del checks[_CHECKS:]
        return made

    def _keep(
        self, library: Library, queue: Queue, arrays: tuple[Any, ...], places: list[int], factors: tuple[Any, ...], given: bool
    ) -> None:
        """Have the call on these arrays, which has just run as a graph, be known by their addresses; ``given``: the output too."""
        known = arrays if given else arrays[:-1]
        check = self._check(library, known) if self._only is not None else None
        again = None if check is None or self._only is None else self._only.replay(queue, factors, places)
        stream = library.current_stream(arrays[-1])
        if check is None or again is None or (number := stream()) == THREAD_STREAM:  # of which the number does not say which it is
            return
        replay = Replay(factors, like(factors), self._options, self._selected, check, stream, number, self._engine, again, self)
        if given:
            self.replays.keep(places, replay)
        else:
            self.replays.keep_made(places, replay, self._make, self.repeat)


def _record(
    library: Library, call: RoutineCall, result: Any, performed: Sequence[tuple[Request, BoundProblem | None]], factors: tuple[str, ...]
) -> _Recorded | None:
    """A record of a call, or None where its steps cannot be repeated: slabs, copies of operands, arrays that overlap."""
    if not performed:
        return None
    arrays = (*call.arrays, result)
    places = library.describe(arrays, [])
    if places is None:
        return None
    reaches = [_reach(array) for array in arrays]
    if any(low == high for low, high in reaches):
        return None
    engine = None if performed[0][1] is None else performed[0][1].engine
    steps: list[Step] = []
    for request, bound in performed:
        if bound is None or engine is None or engine is not bound.engine or bound.waits:
            return None
        request_steps = _steps(library, arrays, places, request, bound, dict(zip(factors, call.factors, strict=True)))
        if request_steps is None:
            return None
        steps += request_steps
    assert engine is not None
    recorded = _Recorded(engine, library, steps, call, result, places, types_of(performed[0][0], call.factors))
    recorded.reach = reaches[-1]
    count = len(call.arrays) - (call.arrays[-1] is result)
    recorded.apart = tuple((index, *reaches[index]) for index in range(count))
    return recorded if recorded.disjoint(places) else None


def _steps(
    library: Library, arrays: tuple[Any, ...], places: list[int], request: Request, bound: BoundProblem, factors: dict[str, Any]
) -> list[Step] | None:
    """The steps that compute one request of a call; None where they cannot be repeated. ``arrays`` are its arrays, ``places`` their
    addresses.
    """
    if any(request.scalars.get(name) != value for name, value in factors.items()):
        return None
    fixed = {name: value for name, value in request.scalars.items() if name not in factors}
    sources = [
        Constant(stored.array) if at in request.constants else source_of(stored.array, arrays, places)
        for at, stored in enumerate(request.operands)
    ]
    operand_sources = [source for source in sources if source is not None]
    if len(operand_sources) < len(sources):
        return None
    steps: list[Step] = []
    if request.begin is not None:
        target = source_of(request.begin.array, arrays, places)
        source = None if request.begin.source is None else source_of(request.begin.source, arrays, places)
        if not isinstance(target, CallArray) or not (isinstance(source, CallArray) or request.begin.source is None):
            return None
        if not library.on_host and not entire(request.begin, arrays, target, source):
            return None
        steps.append(InitialContentStep(target, source, request.begin.triangle))
    if library.on_host:
        models = {
            name: (source, stored._replace(array=None))
            for name, source, stored in zip(bound.names, operand_sources, request.operands, strict=True)
        }
        steps.append(host_launches(HostProblem(bound.engine, bound.prepared, models, tuple(factors), fixed)))
    elif bound.prepared.executable.plan.steps:
        operands = dict(zip(bound.names, operand_sources, strict=True))
        steps.append(Launches(bound.prepared, operands, tuple(factors), fixed, len(arrays), type(arrays[-1]) is Buffer))
    return steps


def _reach(array: Any) -> tuple[int, int]:
    """The first byte that the elements of an array occupy, and one past the last, relative to its first element."""
    view = array if isinstance(array, np.ndarray) else Buffer.wrap(array)
    return span(view.shape, view.strides, view.dtype.itemsize)
