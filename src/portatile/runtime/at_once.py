"""Short problems of host arrays over several devices: a part for each, all begun by one thread before any is waited for.

Threads that hand out piece after piece take milliseconds: they wait for Python's lock, and each begins and ends queues of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from portatile.arguments.matrices import Matrix
from portatile.device import staging
from portatile.device.base import Memory, Queue
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.errors import DeviceError, LaunchError
from portatile.runtime import memory_limit, tasks
from portatile.runtime.engine import Engine, Prepared
from portatile.runtime.in_flight import InFlight
from portatile.runtime.tasks import Task, nbytes, part, prepared, whole_periods
from portatile.workload import Cut

_SHORT = 0.03  # seconds
_LITTLE = 1 << 27  # bytes of a part; larger ones gain by copies that run beside kernels
_SMALL = 1 << 18  # bytes of an operand that is sent directly
_ROWS = 8  # the most rows that are copied one by one where there are gaps between them
_AGAIN = 16  # calls that are computed in the same parts before the split is decided again
_MOST = 1024  # kinds of calls that are remembered
_FINE = 32  # parts are multiples of this fraction of the whole, so that prepared problems can be used again
_UNEVEN = 1.04  # the factor by which the last part may end later than parts of equal duration would
_TWICE = 2  # calls that are measured before parts change: one may be disturbed


class ReadyPart(NamedTuple):
    """A device's part, made ``ready``: the task of the steps from ``low`` to ``high``."""

    engine: Engine
    task: Task
    cut: Cut
    low: int
    high: int
    ready: Prepared


class PartTime(NamedTuple):
    """Seconds of a part from its first copy to its result, and when that was there, after so many seconds of the call."""

    seconds: float
    end: float


Devices = Sequence[tuple[Engine, Task, Cut]]
"""The device that computes a whole task, and how the task is cut there."""
Observer = Callable[[Sequence[ReadyPart], Sequence[PartTime], float], None]
"""A callback that receives the parts of a call with their devices, and the seconds of the whole call."""


def shares(devices: Devices, rates: Sequence[float], key: Hashable = None) -> list[ReadyPart]:
    """A part for each device in proportion to its rate, in steps a second; none where the problem takes long, or does not suit.

    It suits where all operands are on the host, and every device has memory of its own, which holds its part. Where calls of the kind
    ``key`` were computed in parts before, the parts are as the latest of those.
    """
    first, cut = devices[0][1], devices[0][2]
    size, output = first.problem.sizes[cut.size], first.matrices[first.output]
    if not all(rates) or size > _SHORT * sum(rates) or output.on_device or output.read or not cut.pieces:
        return []
    if any(engine.device.info.unified_memory for engine, *_ in devices):
        return []
    known = _known.get(key)
    if known is not None and [one.engine for one in known.parts] == [engine for engine, *_ in devices]:
        return _taken(devices, [one.high for one in known.parts])
    return _taken(devices, _bounds(devices, rates))


def _bounds(devices: Devices, rates: Sequence[float]) -> list[int]:
    """The end of each device's part."""
    size, total, done = devices[0][1].problem.sizes[devices[0][2].size], sum(rates), 0.0
    highs: list[int] = []
    for (*_, cut), rate in zip(devices, rates, strict=True):
        done += rate
        highs.append(whole_periods(size * round(_FINE * done / total) // _FINE, cut))
    return [*highs[:-1], size]


def _taken(devices: Devices, highs: Sequence[int]) -> list[ReadyPart]:
    """The parts that end there, made ready; none where one is nothing, begins amid a period, or does not fit."""
    taken: list[ReadyPart] = []
    for (engine, task, own), low, high in zip(devices, [0, *highs[:-1]], highs, strict=True):
        if not low < high or (high % own.period and high < highs[-1]):
            return []
        one = part(task, own, low, high)
        taken.append(ReadyPart(engine, one, own, low, high, prepared(engine, one)))
    return taken if all(map(_fits, taken)) else []


def _fits(taking: ReadyPart) -> bool:
    """Whether the device holds its part."""
    one = taking.task
    temporaries = taking.ready.executable.plan.temporaries
    sizes = [nbytes(one, name) for name in one.matrices]
    return sum(sizes) <= _LITTLE and not memory_limit.too_large(taking.engine.device, (*sizes, *(one.nbytes for one in temporaries)))


def remember(key: Hashable, devices: Devices, parts: Sequence[ReadyPart], observer: Observer) -> None:
    """Let the next calls of this kind be computed in the same parts, or in others that end together; ``observer`` is told of each."""
    if len(_known) >= _MOST:
        _known.clear()
    wholes = [(engine, _without_arrays(task), cut) for engine, task, cut in devices]
    names = tuple(devices[0][1].matrices)
    _known[key] = _Known(names, wholes, [one._replace(task=_without_arrays(one.task)) for one in parts], observer)


def _without_arrays(task: Task) -> Task:
    """A copy to remember, without references to the caller's arrays."""
    return replace(task, matrices={}, scalars={}, common=None)


def again(key: Hashable, operands: Sequence[Matrix], scalars: Mapping[str, float]) -> bool:
    """Compute a call in the parts of an earlier one of its kind; False, without a result, where the split has to be decided again.

    That is after ``_AGAIN`` calls, because another way may be faster now, and after a failure of a device.
    """
    known = _known.get(key)
    if known is None or not known.calls:
        return False
    known.calls -= 1
    matrices = dict(zip(known.names, operands, strict=True))
    parts = [one._replace(task=tasks.again(one.task, one.cut, one.low, matrices, scalars)) for one in known.parts]
    began = time.perf_counter()
    try:
        took = run(parts)
    except (DeviceError, LaunchError, MemoryError):
        del _known[key]
        return False
    known.observer(parts, took, time.perf_counter() - began)
    known.balance(took, matrices, scalars)
    return True


def forget() -> None:
    """Forget all splits, so that every call is decided again."""
    _known.clear()


def run(parts: Sequence[ReadyPart]) -> list[PartTime]:
    """Compute all parts; returns the time of each. Raises the exception of a device after all parts have ended."""
    began = time.perf_counter()
    with ExitStack() as stack:
        for engine in sorted((taking.engine for taking in parts), key=lambda engine: engine.device.info.id):  # as other threads take them
            stack.enter_context(engine.lock)
        begun = list[_Begun]()
        for taking in parts:
            with taking.engine.device.current():
                begun.append(_Begun(stack, taking))
        for one, taking in zip(begun, parts, strict=True):
            with taking.engine.device.current():
                one.compute()
        waiting = list(begun)
        while waiting:  # in the order in which they end: a device that is waited for too late seems slower than it is
            for one in [one for one in waiting if one.end.done]:
                one.finish()
                waiting.remove(one)
            time.sleep(0)
        return [PartTime(one.seconds, one.began + one.seconds - began) for one in begun]


@dataclass
class _Known:
    """How calls of a kind are computed: ``wholes`` and ``parts``, without arrays, and the calls left until that is decided again."""

    names: Sequence[str]
    wholes: Devices
    parts: Sequence[ReadyPart]
    observer: Observer
    calls: int = field(default_factory=lambda: _AGAIN)
    ends: list[Sequence[float]] = field(default_factory=list)  # of the calls in these parts

    def balance(self, took: Sequence[PartTime], matrices: Mapping[str, Matrix], scalars: Mapping[str, float]) -> None:
        """Move steps from devices that end late to devices that end early, for later calls, if the gain is worth it."""
        self.ends.append([one.end for one in took])
        if len(self.ends) < _TWICE:
            return
        ends = [min(each) for each in zip(*self.ends, strict=True)]
        self.ends.clear()
        rates = [(one.high - one.low) / end for one, end in zip(self.parts, ends, strict=True)]
        if max(ends) * sum(rates) < _UNEVEN * self.parts[-1].high:
            return
        highs = _bounds(self.wholes, rates)
        if highs != [one.high for one in self.parts]:
            wholes = [(engine, tasks.on(task, matrices, scalars), cut) for engine, task, cut in self.wholes]
            self.parts = [one._replace(task=_without_arrays(one.task)) for one in _taken(wholes, highs)] or self.parts


_known: dict[Hashable, _Known] = {}


class _Begun:
    """A part whose large operands are under way; ``compute`` queues the rest, kernels, and its result's way back where that is locked."""

    def __init__(self, stack: ExitStack, taking: ReadyPart) -> None:
        self.began = time.perf_counter()
        self._taking, self._task = taking, taking.task
        device = taking.engine.device
        self._queue: Queue = device.default_queue()
        stack.enter_context(InFlight(taking.engine.in_flight, self._queue, tuple(self._task.matrices.values())))
        self._memories: dict[str, Memory] = {}
        self._small: list[tuple[Memory, Any]] = []
        for name, stored in self._task.matrices.items():
            memory = self._memories[name] = device.allocate(max(nbytes(self._task, name), self._task.problem.itemsize))
            stack.callback(memory.release)
            if stored.read and stored.array.size:
                self._send(memory, stored.array)
        self._queue.flush()
        self.end: Event
        self.seconds = 0.0

    def _send(self, memory: Memory, array: Any) -> None:
        rows = _rows(array) or (np.ascontiguousarray(array),)
        if len(rows) == 1 and rows[0].nbytes < _SMALL:
            self._small.append((memory, rows[0]))
            return
        for place, row in enumerate(rows):
            staging.upload(self._queue, memory, row, place * row.nbytes, blocking=False)

    def compute(self) -> None:
        """Queue the rest of the work, after the large operands of all parts were queued."""
        for memory, array in self._small:
            self._queue.send(memory, array)
        self._taking.ready.run(self._queue, self._memories, self._task.scalars)
        self._target: Any = self._task.matrices[self._task.output].array
        self._memory = self._memories[self._task.output]
        rows = _rows(self._target)
        crossing = [locked.crosses(self._queue.device, row, back=True) for row in rows]  # of all rows, for each counts
        self._coming = bool(rows) and all(crossing)
        if self._coming:
            for place, row in enumerate(rows):
                self._queue.download(row, self._memory, place * row.nbytes, blocking=False)
        self.end = self._queue.marker()
        self._queue.flush()

    def finish(self) -> None:
        """Bring the result of a part that has ended to its place, if it is not there."""
        ended = time.perf_counter()
        self.seconds = ended - self.began
        if self._coming:
            self._queue.finish()
            return
        array = self._target if self._target.flags.c_contiguous else np.empty(self._target.shape, self._target.dtype)
        staging.download(self._queue, array, self._memory)
        if array is not self._target:
            staging.copied(self._target, array)
        self.seconds += time.perf_counter() - ended


def _rows(array: Any) -> tuple[Any, ...]:
    """The parts of an array between which there are gaps: all of it, or a few rows; none where those are many, or no rows."""
    if array.flags.c_contiguous:
        return (array,)
    return tuple(array) if array.ndim == 2 and len(array) <= _ROWS and array[0].flags.c_contiguous else ()
