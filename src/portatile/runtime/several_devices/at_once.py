"""Short problems on host arrays, shared by several devices: one part for each, all started by one thread before it waits for any.

Threads that hand out piece after piece would cost milliseconds: they contend for the GIL, and each creates and destroys its own queues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from portatile.errors import DeviceError, LaunchError
from portatile.runtime.in_parts.tasks import Task, whole_periods
from portatile.runtime.one_device import memory_limit
from portatile.runtime.one_device.engine import Engine
from portatile.runtime.one_device.scratch import SHARE
from portatile.runtime.several_devices.ready_parts import BegunPart, PartPlan, ReadyPart
from portatile.thread_turns import give_way
from portatile.workload import Cut

_SHORT = 0.03  # seconds of the longest problem that is computed in this way
_LITTLE = 1 << 27  # bytes of the largest part; larger ones gain more from copies that overlap with kernels
_AGAIN = 64  # calls that are computed in the same parts before the split is decided again
_MOST = 1024  # kinds of calls that are remembered
_FINE = 32  # parts are multiples of this fraction of the whole, so that prepared problems can be reused
_UNEVEN = 1.04  # parts are rebalanced when the slowest one takes more than this factor longer than balanced parts would
_TWICE = 2  # calls that are measured before parts change, since one may be disturbed


class PartTime(NamedTuple):
    """Seconds of a part from its first copy to its result, and its ``end`` in seconds since the call began."""

    seconds: float
    end: float


Devices = Sequence[tuple[Engine, Task, Cut]]
"""For each device: its engine, the whole task in its configuration, and how the task is cut there."""
Observer = Callable[[Sequence[ReadyPart], Sequence[PartTime], float], None]
"""A callback that receives the parts of a call, their times, and the seconds of the whole call."""


def shares(devices: Devices, rates: Sequence[float], key: Hashable = None) -> list[ReadyPart]:
    """A part for each device, in proportion to its rate in steps per second; none where the problem takes long or does not suit this
    method.

    All operands must lie on the host, and every device must have its own memory, enough for its part. If calls of the kind ``key`` were
    computed in parts before, the latest of those parts are used again.
    """
    first, cut = devices[0][1], devices[0][2]
    size, output = first.problem.sizes[cut.size], first.matrices[first.output]
    if not all(rates) or size > _SHORT * sum(rates) or output.on_device or output.read or not cut.pieces:
        return []
    if any(engine.device.info.unified_memory for engine, *_ in devices):
        return []
    known = _known.get(key)
    if known is not None and [one.plan.engine for one in known.parts] == [engine for engine, *_ in devices]:
        return _taken(devices, [one.plan.high for one in known.parts])
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
    """The parts with these ends, prepared; none where a part is empty, is not aligned to a period of the cut, or does not fit."""
    taken: list[ReadyPart] = []
    for (engine, task, own), low, high in zip(devices, [0, *highs[:-1]], highs, strict=True):
        if not low < high or (high % own.period and high < highs[-1]):
            return []
        arrays = tuple(stored.array for stored in task.matrices.values())
        taken.append(ReadyPart(PartPlan(engine, task, own, low, high), arrays, task.scalars))
    return taken if all(_fits(one.plan) for one in taken) else []


def _fits(plan: PartPlan) -> bool:
    """Whether the part fits into the device's memory."""
    device, temporaries = plan.engine.device, plan.ready.executable.plan.temporaries
    sizes = *(one.nbytes for one in plan.operands.values()), *(one.nbytes for one in temporaries)
    return plan.nbytes <= min(_LITTLE, device.info.global_memory // SHARE) and not memory_limit.too_large(device, sizes)


def remember(key: Hashable, devices: Devices, parts: Sequence[ReadyPart], observer: Observer) -> None:
    """Have later calls of this kind computed in the same parts, or in rebalanced ones; ``observer`` is called for each."""
    if len(_known) >= _MOST:
        _known.clear()
    wholes = [(engine, _without_arrays(task), cut) for engine, task, cut in devices]
    ndims = tuple(stored.array.ndim for stored in devices[0][1].matrices.values())
    _known[key] = _KnownShares(ndims, wholes, list(map(_emptied, parts)), observer)


def _without_arrays(task: Task) -> Task:
    """A copy to remember, without references to the caller's arrays."""
    return replace(task, matrices={name: stored._replace(array=None) for name, stored in task.matrices.items()}, scalars={}, common=None)


def _emptied(one: ReadyPart) -> ReadyPart:
    return ReadyPart(one.plan)


def again(key: Hashable, arrays: Sequence[NDArray[Any]], scalars: Mapping[str, float]) -> bool:
    """Compute a call on these operands in the parts of an earlier call of its kind. Returns False, with nothing computed, where the split
    has to be decided again: after ``_AGAIN`` calls, because another way may be faster now, and after a device has failed.
    """
    known = _known.get(key)
    if known is None or not known.calls:
        return False
    known.calls -= 1
    given = tuple([array if array.ndim == ndim else array[0] for array, ndim in zip(arrays, known.ndims, strict=True)])
    parts = [ReadyPart(one.plan, given, scalars) for one in known.parts]
    began = time.perf_counter()
    try:
        took = run(parts)
    except (DeviceError, LaunchError, MemoryError):
        del _known[key]
        return False
    known.observer(parts, took, time.perf_counter() - began)
    known.balance(took, given, scalars)
    return True


def knows(key: Hashable) -> bool:
    """Whether calls of this kind are computed in known parts until the split is decided again."""
    return key in _known


def forget() -> None:
    """Forget all splits, so that the split of every call is decided again."""
    _known.clear()


def run(parts: Sequence[ReadyPart]) -> list[PartTime]:
    """Compute all parts; returns the time of each. Raises the exception of a device after all parts have ended."""
    began = time.perf_counter()
    with ExitStack() as stack:
        engines = [taking.plan.engine for taking in parts]
        for engine in sorted(engines, key=lambda engine: engine.device.info.id):  # in the same order as other threads, to avoid deadlock
            stack.enter_context(engine.lock)
        begun = list[BegunPart]()
        for taking in parts:
            with taking.plan.engine.device.current():
                begun.append(BegunPart(stack, taking))
        for one, taking in zip(begun, parts, strict=True):
            with taking.plan.engine.device.current():
                one.compute()
        waiting = list(begun)
        while waiting:  # in the order of completion: a device that is polled too late would seem slower than it is
            for one in [one for one in waiting if one.end.done]:
                one.finish()
                waiting.remove(one)
            give_way()
        return [PartTime(one.seconds, one.began + one.seconds - began) for one in begun]


@dataclass
class _KnownShares:
    """How calls of a kind are computed: ``wholes`` and ``parts``, without arrays, and the calls left until the split is decided again.

    ``ndims``: dimensions of the operands; a stack that is one matrix for all is passed to the parts as that matrix.
    """

    ndims: tuple[int, ...]
    wholes: Devices
    parts: Sequence[ReadyPart]
    observer: Observer
    calls: int = field(default_factory=lambda: _AGAIN)
    ends: list[Sequence[float]] = field(default_factory=list)  # end times of each measured call in these parts

    def balance(self, took: Sequence[PartTime], arrays: Sequence[NDArray[Any]], scalars: Mapping[str, float]) -> None:
        """Move steps from devices that end late to devices that end early, for later calls, if the gain is worth it."""
        self.ends.append([one.end for one in took])
        if len(self.ends) < _TWICE:
            return
        ends = [min(each) for each in zip(*self.ends, strict=True)]
        self.ends.clear()
        rates = [one.steps / end for one, end in zip(self.parts, ends, strict=True)]
        if max(ends) * sum(rates) < _UNEVEN * self.parts[-1].plan.high:
            return
        highs = _bounds(self.wholes, rates)
        if highs != [one.plan.high for one in self.parts]:
            wholes = [(engine, _with_arrays(task, arrays, scalars), cut) for engine, task, cut in self.wholes]
            self.parts = list(map(_emptied, _taken(wholes, highs))) or self.parts


def _with_arrays(task: Task, arrays: Sequence[NDArray[Any]], scalars: Mapping[str, float]) -> Task:
    """A remembered task on the arrays of a call."""
    matrices = {name: stored._replace(array=array) for (name, stored), array in zip(task.matrices.items(), arrays, strict=True)}
    return replace(task, matrices=matrices, scalars=scalars)


_known: dict[Hashable, _KnownShares] = {}
