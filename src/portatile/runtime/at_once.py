"""Short problems of host arrays over several devices: a part for each, all begun by one thread before any is waited for.

Threads that hand out piece after piece take milliseconds: they wait for Python's lock, and each begins and ends queues of its own.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from portatile.arguments.matrices import Matrix
from portatile.device import staging
from portatile.device.base import Memory, Queue
from portatile.device.page_locked import locked
from portatile.errors import DeviceError, LaunchError
from portatile.runtime import memory_limit, tasks
from portatile.runtime.engine import Engine
from portatile.runtime.in_flight import InFlight
from portatile.runtime.tasks import Task, nbytes, part, prepared, whole_periods
from portatile.workload import Cut

_SHORT = 0.03  # seconds
_LITTLE = 1 << 27  # bytes of a part: of more, copies and kernels are worth running beside each other
_SMALL = 1 << 18  # bytes of an operand that is sent without further ado
_ROWS = 8  # at most that are copied one by one where they lie apart
_AGAIN = 16  # calls that are computed in the same parts
_MOST = 1024  # kinds of calls that are remembered
_FINE = 32  # parts are of whole ones in so many, so that what was made ready for a share suits others


class Taking(NamedTuple):
    """A device's part: the task of the steps from ``low`` to ``high``."""

    engine: Engine
    task: Task
    cut: Cut
    low: int
    high: int


def shares(devices: Sequence[tuple[Engine, Task, Cut]], rates: Sequence[float]) -> list[Taking]:
    """A part for each device in proportion to its rate, in steps a second; none where the problem takes long, or does not suit.

    It suits where all operands are on the host, and every device has memory of its own, which holds its part.
    """
    first, cut = devices[0][1], devices[0][2]
    size, total = first.problem.sizes[cut.size], sum(rates)
    output = first.matrices[first.output]
    if not all(rates) or size > _SHORT * total or output.on_device or output.read or not cut.pieces:
        return []
    taken: list[Taking] = []
    low, done = 0, 0.0
    for place, ((engine, task, own), rate) in enumerate(zip(devices, rates, strict=True)):
        done += rate
        high = size if place == len(devices) - 1 else whole_periods(size * round(_FINE * done / total) // _FINE, own)
        if engine.device.info.unified_memory or not low < high or (high % own.period and high < size):
            return []
        taken.append(Taking(engine, part(task, own, low, high), own, low, high))
        low = high
    return taken if all(map(_fits, taken)) else []


def _fits(taking: Taking) -> bool:
    """Whether the device holds its part."""
    one = taking.task
    temporaries = prepared(taking.engine, one).executable.plan.temporaries
    sizes = [nbytes(one, name) for name in one.matrices]
    return sum(sizes) <= _LITTLE and not memory_limit.too_large(taking.engine.device, (*sizes, *(one.nbytes for one in temporaries)))


def remember(key: Hashable, parts: Sequence[Taking]) -> None:
    """Let the next calls of this kind be computed in the same parts."""
    if len(_known) >= _MOST:
        _known.clear()
    _known[key] = _Known(parts, _AGAIN)


def again(key: Hashable, operands: Sequence[Matrix], scalars: Mapping[str, float]) -> bool:
    """Compute a call in the parts of an earlier one of its kind; False, with nothing done that counts, where it has to be thought over.

    Each of so many calls is, because the devices' rates may have changed, and one on a device that fails.
    """
    known = _known.get(key)
    if known is None or not known.calls:
        return False
    known.calls -= 1
    matrices = dict(zip(known.parts[0].task.matrices, operands, strict=True))
    try:
        run([one._replace(task=tasks.again(one.task, one.cut, one.low, matrices, scalars)) for one in known.parts])
    except (DeviceError, LaunchError, MemoryError):
        del _known[key]
        return False
    return True


def forget() -> None:
    """Think every call over."""
    _known.clear()


def run(parts: Sequence[Taking]) -> list[float]:
    """Compute all parts; the seconds of each, from its first copy to its result. Raises what a device raises, after all have ended."""
    with ExitStack() as stack:
        for engine in sorted((taking.engine for taking in parts), key=lambda engine: engine.device.info.id):  # as other threads take them
            stack.enter_context(engine.lock)
        begun = [_Begun(stack, taking) for taking in parts]
        waiting = list(begun)
        while waiting:  # in the order in which they end: who is waited for too late seems slower than it is
            for one in [one for one in waiting if one.end.done]:
                one.finish()
                waiting.remove(one)
            time.sleep(0)
        return [one.seconds for one in begun]


@dataclass
class _Known:
    """The parts of a kind of calls, and how many calls are computed so before it is thought over."""

    parts: Sequence[Taking]
    calls: int


_known: dict[Hashable, _Known] = {}


class _Begun:
    """A part whose copies and kernels are queued, and its result's way back where that is locked."""

    def __init__(self, stack: ExitStack, taking: Taking) -> None:
        self._began = time.perf_counter()
        engine, one = taking.engine, taking.task
        ready = prepared(engine, one)
        self._queue: Queue = engine.device.default_queue()
        stack.enter_context(InFlight(engine.in_flight, self._queue, tuple(one.matrices.values())))
        memories = self._sent(stack, one)
        ready.run(self._queue, memories, one.scalars)
        self._target: Any = one.matrices[one.output].array
        self._memory = memories[one.output]
        rows = _rows(self._target)
        crossing = [locked.crosses(engine.device, row, back=True) for row in rows]  # of all rows, for each counts
        self._coming = bool(rows) and all(crossing)
        if self._coming:
            for place, row in enumerate(rows):
                self._queue.download(row, self._memory, place * row.nbytes, blocking=False)
        self.end = self._queue.marker()
        self._queue.flush()
        self.seconds = 0.0

    def _sent(self, stack: ExitStack, one: Task) -> Mapping[str, Memory]:
        """Memory of each operand; those that are read are under way."""
        memories: dict[str, Memory] = {}
        for name, stored in one.matrices.items():
            memory = memories[name] = self._queue.device.allocate(max(nbytes(one, name), one.problem.itemsize))
            stack.callback(memory.release)
            if stored.read and stored.array.size:
                rows = _rows(stored.array) or (np.ascontiguousarray(stored.array),)
                if len(rows) == 1 and rows[0].nbytes < _SMALL:
                    self._queue.send(memory, rows[0])
                    continue
                for place, row in enumerate(rows):
                    staging.upload(self._queue, memory, row, place * row.nbytes, blocking=False)
        return memories

    def finish(self) -> None:
        """Bring the result of a part that has ended to its place, if it is not there."""
        ended = time.perf_counter()
        self.seconds = ended - self._began
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
