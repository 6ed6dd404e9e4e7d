"""The record of a call that a device has computed: the steps that compute it on any arrays with the same description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from portatile.arguments.described import MASK, Check, Guard, Library
from portatile.device.base import Queue
from portatile.device.buffer import Buffer
from portatile.device.foreign_arrays import THREAD_STREAM
from portatile.device.strides import span
from portatile.runtime.one_device.engine import BoundProblem, Engine
from portatile.runtime.repeated.factors import Types, like, types_of
from portatile.runtime.repeated.replayed import Replay, Replays
from portatile.runtime.repeated.small_transfers import CopiedLaunches, host_launches
from portatile.runtime.repeated.steps import (
    CallArray,
    Constant,
    DeviceProblem,
    HostLaunches,
    HostProblem,
    InitialContentStep,
    Launches,
    entire,
    source_of,
)
from portatile.runtime.request import Request, RoutineCall

_CHECKS = 4  # checks that are kept for the arrays of one recorded call; PyTorch needs one for each combination of its modes
Step = Launches | HostLaunches | CopiedLaunches | InitialContentStep


def addresses(library: Library, arrays: tuple[Any, ...], result: Any) -> list[int]:
    """The addresses of a call's arrays, the result last."""
    return [library.place(array) for array in (*arrays, result)]


class RecordedSteps:
    """A recorded call: the steps that compute it on any arrays with the same description."""

    replays: Replays  # those of the routine

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
        # by the number of arrays: checks of arrays like the call's, starting with the one that passed last
        self._checks: dict[int, list[Check]] = {}
        self._real = not any(type(factor) is complex for factor in call.factors)
        self._unchecked = not library.guards  # whether arrays are never checked: set if the library has no checks
        self._fitting: tuple[float, ...] | None = None  # the latest factors that passed ``_fits``
        self._alone: list[int] | None = None  # addresses of the latest arrays that did not overlap
        self.reach = (0, 0)  # the output's first byte and one past its last, relative to its first element
        self.apart: tuple[tuple[int, int, int], ...] = ()  # arrays that the output must not overlap: index, and reach as above
        # pairs of arguments that were the same array: the steps are valid only for calls in which they are the same again
        self._twice = tuple((first, at) for at, place in enumerate(places) if (first := places.index(place)) < at)

    @property
    def on_processor(self) -> bool:
        """Whether the device is a processor."""
        return self._device.info.kind == "cpu"

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the output, the last array, overlaps no other one, and arguments that were the same array are the same again."""
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
        """The result of a call; None, with nothing done, where it has to be planned again. ``made``: a new output and its address."""
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
        """Whether a guard exists already."""
        return bool(self._checks)

    def guard(self, library: Library, arrays: Sequence[Any]) -> Guard | None:
        """A guard that recognises arrays of this call faster than their description does; None where that is impossible."""
        if self._unchecked or any(library.place(array) & MASK for array in arrays):
            return None
        check = self._check(library, arrays)
        return None if check is None else Guard(check, library.locate, len(arrays))

    def _check(self, library: Library, arrays: Sequence[Any]) -> Check | None:
        """A check that these arrays of this call pass, made if there is none: PyTorch's checks depend on its active modes."""
        if self._unchecked:
            return None
        checks = self._checks.setdefault(len(arrays), [])
        for at, check in enumerate(checks):
            if check(arrays):
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
        """Have the call on these arrays, which has just run as a graph, found by addresses; ``given``: the output's address included."""
        known = arrays if given else arrays[:-1]
        check = self._check(library, known) if self._only is not None else None
        again = None if check is None or self._only is None else self._only.replay(queue, factors, places)
        stream = library.current_stream(arrays[-1])
        if check is None or again is None or (number := stream()) == THREAD_STREAM:  # the number does not identify a per-thread stream
            return
        replay = Replay(factors, like(factors), self._options, self._selected, check, stream, number, self._engine, again, self)
        kind, locate = type(arrays[0]), library.locate
        if given:
            self.replays.keep(kind, locate, places, replay)
        else:
            self.replays.keep_made(kind, locate, places, replay, self._make, partial(self.repeat, library))


def record(
    library: Library, call: RoutineCall, result: Any, performed: Sequence[tuple[Request, BoundProblem | None]], factors: tuple[str, ...]
) -> RecordedSteps | None:
    """The record of a call, or None where its steps cannot be repeated: slabs, copies of operands, overlapping arrays."""
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
    steps: list[Step | DeviceProblem] = []
    for request, bound in performed:
        if bound is None or engine is None or engine is not bound.engine or bound.waits:
            return None
        request_steps = _steps(library, arrays, places, request, bound, dict(zip(factors, call.factors, strict=True)))
        if request_steps is None:
            return None
        steps += request_steps
    assert engine is not None
    launching = partial(Launches.of, factors=factors, count=len(arrays), own=type(result) is Buffer)
    recorded = RecordedSteps(engine, library, _grouped(steps, launching), call, result, places, types_of(performed[0][0], call.factors))
    recorded.reach = reaches[-1]
    count = len(call.arrays) - (call.arrays[-1] is result)
    recorded.apart = tuple((index, *reaches[index]) for index in range(count))
    return recorded if recorded.disjoint(places) else None


def _steps(
    library: Library, arrays: tuple[Any, ...], places: list[int], request: Request, bound: BoundProblem, factors: dict[str, Any]
) -> list[Step | DeviceProblem] | None:
    """The steps that compute one request of a call, with its arrays and their addresses ``places``; None if not repeatable."""
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
    steps: list[Step | DeviceProblem] = []
    if request.begin is not None:
        target = source_of(request.begin.array, arrays, places)
        source = None if request.begin.source is None else source_of(request.begin.source, arrays, places)
        if not isinstance(target, CallArray) or not (isinstance(source, CallArray) or request.begin.source is None):
            return None
        if not library.on_host and not entire(request.begin, arrays, target, source):
            return None
        steps.append(InitialContentStep(request.begin, target, source if isinstance(source, CallArray) else None))
    if library.on_host:
        models = {
            name: (source, stored._replace(array=None))
            for name, source, stored in zip(bound.names, operand_sources, request.operands, strict=True)
        }
        steps.append(host_launches(HostProblem(bound.engine, bound.prepared, models, tuple(factors), fixed)))
    elif bound.prepared.executable.plan.steps:
        operands = dict(zip(bound.names, operand_sources, strict=True))
        steps.append(DeviceProblem(bound.prepared, operands, fixed))
    return steps


def _grouped(steps: Sequence[Step | DeviceProblem], launching: Callable[[list[DeviceProblem]], list[Launches]]) -> list[Step]:
    """The steps, with consecutive problems on a device combined into launches."""
    grouped: list[Step] = []
    problems: list[DeviceProblem] = []
    for step in (*steps, None):
        if isinstance(step, DeviceProblem):
            problems.append(step)
            continue
        if problems:
            grouped += launching(problems)
            problems = []
        if step is not None:
            grouped.append(step)
    return grouped


def _reach(array: Any) -> tuple[int, int]:
    """The first byte of an array's elements and one past the last, relative to its first element."""
    view = array if isinstance(array, np.ndarray) else Buffer.wrap(array)
    return span(view.shape, view.strides, view.dtype.itemsize)
