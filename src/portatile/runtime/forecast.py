"""Is a problem computed sooner by several devices together, or by the best of them alone? What was measured decides, else a model.

Both are tried before one is preferred: the rates of small pieces hide how fast a device is alone, and a model of the split does not know
what its threads, transfers and the wait at its end cost. What was not measured yet is therefore expected at its best, so that it is
measured when it may be faster; from then on the smaller of two measured times decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portatile import workloads
from portatile.arguments.matrices import Matrix
from portatile.device.base import Device
from portatile.records import Problem, duration
from portatile.runtime import rates, triangles
from portatile.runtime.engine import Engine, engine_of
from portatile.runtime.pieces import in_time
from portatile.workload import Cut

Places = Mapping[str, Matrix]
_STARTING = 1e-4
"""Seconds of a split beside its pieces, at least: threads, queues, and the wait at the end."""
_SHORT = 0.2  # seconds, below which a problem's pieces are so small that they hide much of a device's rate
_HIDDEN, _HIDDEN_SHORT = 1.2, 4.0  # times faster that a device may be alone than its pieces of long and of short problems show
_LONG = 10.0  # seconds, beside which compiling and allocating take little
_warm: set[tuple[str, ...]] = set()
"""What ran before in this process: a first run compiles, checks and allocates, and its time says nothing of the next."""


@dataclass(frozen=True)
class Expected:
    """Seconds that somebody is expected to take, and whether that was ``measured``; otherwise it follows from rates."""

    seconds: float
    measured: bool = False

    def __str__(self) -> str:
        return f"{duration(self.seconds)} ({'measured' if self.measured else 'predicted'})"


@dataclass(frozen=True)
class Forecast:
    """What a problem takes when all share it, None where somebody's rate is unknown, and by each device alone whose time is known.

    ``quickest`` is the device that should compute it alone, for its measured time is the least or it has to be measured; "" to share it.
    """

    together: Expected | None
    alone: Mapping[str, Expected]
    quickest: str = ""

    @property
    def settled(self) -> bool:
        """Whether one should compute it alone and its time is known: nobody else is faster at best."""
        return bool(self.quickest) and self.alone[self.quickest].measured

    @property
    def best_alone(self) -> str:
        """The device that is expected to be the fastest one alone; "" where nothing is known."""
        return min(self.alone, key=lambda name: self.alone[name].seconds, default="")

    def __str__(self) -> str:
        shared = "shared: unknown" if self.together is None else f"shared: {self.together}"
        best = self.best_alone
        return f"{shared}, {best} alone: {self.alone[best]}" if best else shared


def of(devices: Sequence[Device], problem: Problem, matrices: Places | None = None) -> Forecast:
    """What to expect of these devices; ``matrices`` are the operands where they lie, on the host by default."""
    places = {device.info.id: where(matrices, device) for device in devices}
    measured = rates.seconds(devices[0].info, problem, _all(devices, matrices))
    took = {device.info.id: rates.seconds(device.info, problem, f"alone {places[device.info.id]}") for device in devices}
    if measured is not None and None not in took.values():
        all_took = {name: Expected(seconds, True) for name, seconds in took.items() if seconds is not None}
        return Forecast(Expected(measured, True), all_took, _quickest(Expected(measured, True), all_took))
    work = max(workloads.get(problem.workload).flops(problem), 1.0)
    alone: dict[str, Expected] = {}
    for device in devices:
        name = device.info.id
        seconds = took[name]
        if seconds is not None:
            alone[name] = Expected(seconds, True)
        elif shown := known(engine_of(device), problem, places[name], least=True):
            alone[name] = Expected(work / shown)
    if measured is not None:
        return Forecast(Expected(measured, True), alone, _quickest(Expected(measured, True), alone))
    cut = cut_of(devices, problem)
    if cut is None or len(alone) < len(devices):
        return Forecast(None, alone)
    found = rates.of(devices[0].info, problem, work, f"starting {_all(devices, matrices)}", least=work)
    starting, size, period = _STARTING if found is None else found, problem.sizes[cut.size], max(cut.period, 1)
    together, best = (
        Expected(in_time(size, period, {name: size / seconds for name, seconds in each.items()})[0] + starting)
        for each in ({name: one.seconds for name, one in alone.items()}, {name: _at_best(one) for name, one in alone.items()})
    )
    return Forecast(together, alone, _quickest(best, alone))


def _quickest(together: Expected, alone: Mapping[str, Expected]) -> str:
    """Who should compute it alone; "" for nobody. ``together`` is what all of them take at best."""
    best = min(alone, key=lambda name: _at_best(alone[name]), default="")
    return best if best and _at_best(alone[best]) <= together.seconds else ""


def _at_best(alone: Expected) -> float:
    """Seconds that a device takes alone at least: small pieces may hide how fast it is."""
    if alone.measured:
        return alone.seconds
    return alone.seconds / (_HIDDEN_SHORT if alone.seconds < _SHORT else _HIDDEN)


def learn_alone(device: Device, problem: Problem, matrices: Places, seconds: float) -> None:
    """Remember how long a device took for the whole problem."""
    what = f"alone {where(matrices, device)}"
    if _is_warm(device, problem, what, seconds):
        rates.took(device.info, problem, what, seconds)


def learn_together(
    devices: Sequence[Device], problem: Problem, matrices: Places, seconds: float, shown: Mapping[str, float], pieces: float
) -> None:
    """Remember how long all took, and the flops a second that each has ``shown``; ``pieces`` is what the model says of all at these."""
    what, work = _all(devices, matrices), workloads.get(problem.workload).flops(problem)
    if not _is_warm(devices[0], problem, what, seconds):
        return
    for device in devices:
        if shown.get(device.info.id):
            rates.learn(device.info, problem, work, shown[device.info.id], where(matrices, device))
    if len(shown) == len(devices):
        rates.took(devices[0].info, problem, what, seconds)
        rates.learn(devices[0].info, problem, work, max(seconds - pieces, _STARTING), f"starting {what}")


def _is_warm(device: Device, problem: Problem, what: str, seconds: float) -> bool:
    """Whether a run says something of the next one: it is not the first of its kind in this process, or a long one."""
    key = device.info.id, replace(problem, layout={}).key, what
    known = key in _warm or seconds > _LONG
    _warm.add(key)
    return known


def known(engine: Engine, problem: Problem, place: str = "", least: bool = False) -> float:
    """Flops a second that a device showed for such problems with operands there, or when it was tuned; 0 for nothing known.

    ``least``: only of problems that are not much smaller, whose rate would say nothing of this one.
    """
    work = workloads.get(problem.workload).flops(problem)
    shown = rates.of(engine.device.info, problem, work, place, least=work if least else 0.0)
    if shown is not None:
        return shown
    choice = engine.choose(problem)
    if choice.trial is None or choice.reason not in ("tuned", "near problem"):
        return 0.0
    return workloads.get(problem.workload).flops(choice.trial.problem) / choice.trial.comparable


def where(matrices: Places | None, device: Device) -> str:
    """What of the operands' place a rate depends on: nothing on the host, all ``local`` to the device, or some ``remote``."""
    if matrices is None or not any(stored.on_device for stored in matrices.values()):
        return ""
    local = all(stored.on_device and stored.array.memory.device is device for stored in matrices.values())
    return "local" if local else "remote"


def cut_of(devices: Sequence[Device], problem: Problem) -> Cut | None:
    """A size along which the problem may be shared; None where there is none."""
    workload = workloads.get(problem.workload)
    cuts = [cut for cut in workload.cuts(problem, engine_of(devices[0]).choose(problem).config) if not cut.sums]
    cut = next((one for one in cuts if problem.sizes[one.size] > 1), None)
    return cut if cuts else triangles.cut_of(problem)


def _all(devices: Sequence[Device], matrices: Places | None) -> str:
    """The devices, and where the operands lie: the time of a split depends on both."""
    place = ""
    if matrices is not None and any(stored.on_device for stored in matrices.values()):
        place = " of " + " ".join(stored.array.memory.device.info.id for stored in matrices.values())
    return "with " + " ".join(device.info.id for device in devices) + place
