"""Is a problem computed sooner by several devices together, or by the best of them alone? Measured times decide; until then, a model.

Both ways are timed before one is preferred: the rate of small pieces hides how fast a device is alone, and a model of the split does not
know the cost of its threads, transfers and final wait. A way that was not measured yet is therefore given its most optimistic estimate, so
that it is measured if it may be faster. From then on the smaller of two measured times decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from portatile import workloads
from portatile.arguments.matrices import Matrix
from portatile.device.base import Device
from portatile.device.page_locked import locked
from portatile.records import Problem
from portatile.runtime.one_device.engine import Engine, engine_of
from portatile.runtime.several_devices import rates, triangles, tries
from portatile.runtime.several_devices.expected import ExpectedTime, Forecast
from portatile.runtime.several_devices.pieces import FEWEST, about_in_time
from portatile.runtime.several_devices.tries import key_of
from portatile.store import device_key
from portatile.workload import Cut

Places = Mapping[str, Matrix]
_STARTING = 1e-4
"""Seconds that a split costs at least in addition to its pieces: threads, queues, and the final wait."""
_SHORT = 1.0  # seconds, below which a device is tried alone readily, and copies for other devices hide much of its rate
_HIDDEN, _HIDDEN_SHORT = 1.2, 4.0  # how many times faster a device may be alone than in pieces, for long and for short problems
# how many times slower a device that holds the operands may be, at most, and still be preferred to devices to which operands must travel
_NEAR = 1.25
_LITTLE = 0.03  # fraction of the work: devices that would do less than this together do not take part
_MAKING = 0.05  # fraction of a split's time, up to which the compilation of pieces with new shapes is ignored
_LONG = 10.0  # seconds, compared with which compilation and allocation are short
_TINY = 1e6  # flops of the largest problem that is never shared: any device takes less time for it than a split needs for its threads
REMOTE = "remote"
"""The place of operands, some of which have to be copied to the device."""
LOCKED = "locked"
"""The place of operands in page-locked host memory, which a device reads and writes by direct copies."""
_runs: dict[tuple[str, ...], int] = {}
"""Number of runs of each kind of problem in this process. A first run compiles, checks and allocates, so its time predicts nothing."""
_FIRST = 2  # first pieces of a workload on a device that are slow: as many as are in flight at once
_begun: dict[tuple[object, ...], int] = {}
"""Number of pieces of a workload that each device computed in this process, counted up to ``_FIRST``."""


@dataclass(frozen=True)
class Shared:
    """A problem that several devices may compute together, and where its operands lie.

    ``work``: in flops, or in whatever unit its rates count. ``places``: for each device, the operands' place as returned by ``where``.
    ``all``: a name for the devices and the operands' places. ``tiny``: if the problem is too small to be shared, the devices one of which
    computes it alone; else empty. ``shown`` gives the measured rate of a device, in work per second, 0 if unknown. ``parts`` gives the
    steps that are shared and the multiple of which a piece is made, or None for a problem that cannot be cut.
    """

    problem: Problem
    work: float
    places: Mapping[str, str]
    all: str
    shown: Callable[[Device], float]
    parts: Callable[[], tuple[int, int] | None]
    tiny: tuple[str, ...] = ()


def shared(devices: Sequence[Device], problem: Problem, matrices: Places | None = None) -> Shared:
    """A workload's problem; ``matrices`` are the operands where they lie, on the host by default."""
    places = {device.info.id: where(matrices, device) for device in devices}

    def shown(device: Device) -> float:
        return known(engine_of(device), problem, places[device.info.id], least=True)

    def parts() -> tuple[int, int] | None:
        cut = cut_of(devices, problem)
        return None if cut is None else (problem.sizes[cut.size], max(cut.period, 1))

    lie = [stored.array.memory.device if stored.on_device else None for stored in (matrices or {}).values()]
    work = max(workloads.get(problem.workload).flops(problem), 1.0)
    in_place = LOCKED in places.values()
    return Shared(problem, work, places, together_of(devices, lie, in_place), shown, parts, tiny(work, places, lie))


def tiny(flops: float, places: Mapping[str, str], lie: Sequence[Device | None]) -> tuple[str, ...]:
    """If the problem is tiny, the devices that may compute it: those that need no operand copied, else the one that holds the output.

    Empty where the problem is larger, or its output (the last operand) lies on none of these devices.
    """
    if flops > _TINY:
        return ()
    near = tuple(name for name, place in places.items() if place != REMOTE)
    output = lie[-1] if lie else None
    return near or tuple(name for name in places if output is not None and output.info.id == name)


def together_of(devices: Sequence[Device], lie: Sequence[Device | None], in_place: bool = False) -> str:
    """A name for a split by these devices of operands that lie on the devices ``lie`` (None: the host): the time of the split depends on
    both.

    ``in_place``: host operands are page-locked.
    """
    placed = " ".join(device.info.id for device in lie if device is not None) or (LOCKED if in_place else "")
    return "with " + " ".join(device.info.id for device in devices) + (f" of {placed}" if placed else "")


def of(devices: Sequence[Device], task: Shared) -> Forecast:
    """The forecast for these devices."""
    if task.tiny:
        return _of_tiny(devices, task)
    measured = _took(devices[0], task, task.all)
    alone = _each_alone(devices, task, measured)
    little = _little(alone) if len(alone) == len(devices) and _sure(devices, task, alone) else 0.0
    if measured is not None:
        return _of_measured(devices, task, measured, alone, little)
    if len(alone) < len(devices) or (parts := task.parts()) is None:
        return Forecast(None, alone)
    size, period = parts
    # that of a larger problem is more
    starting = rates.of(devices[0].info, task.problem, task.work, f"starting {task.all}", most=task.work)

    def shared(seconds: Mapping[str, float]) -> ExpectedTime:
        """The time of all devices together, if each takes ``seconds`` alone."""
        speeds = {name: size / each for name, each in seconds.items()}
        return ExpectedTime(about_in_time(size, period, speeds) + (starting or _STARTING))

    together = shared({name: expected.seconds for name, expected in alone.items()})
    best = shared({name: _at_best(expected) for name, expected in alone.items()})
    if little:
        return Forecast(together, alone, min(alone, key=lambda name: alone[name].seconds), little=little)
    return Forecast(together, alone, _quickest(best, _nearby(task, alone)))


def _of_measured(devices: Sequence[Device], task: Shared, together: float, alone: Mapping[str, ExpectedTime], little: float) -> Forecast:
    """The forecast if the seconds of all devices ``together`` are known: a slower way is timed again while it may be faster."""
    shared, near = ExpectedTime(together, True), _nearby(task, alone)
    keys = {device.info.id: key_of(device, task.problem, f"alone {task.places[device.info.id]}") for device in devices}
    quickest = _quickest(shared, near)
    if quickest:
        timed = not little and (alone[quickest].measured or alone[quickest].like)  # a device that was not timed is timed first
        if timed and tries.may_be_faster(key_of(devices[0], task.problem, task.all), together, alone[quickest].seconds):
            return Forecast(shared, alone)
    seconds, near = (alone[quickest].seconds, _near(task, alone)) if quickest else (together, near)
    others = near if not quickest or task.places[quickest] == REMOTE else {}
    measured = {name: one.seconds for name, one in others.items() if one.measured}
    best = min(measured, key=lambda name: measured[name], default="")
    again = best if best and tries.may_be_disturbed(keys[best], measured[best], seconds) else ""
    return Forecast(shared, alone, again or quickest, trying=bool(again))


def _each_alone(devices: Sequence[Device], task: Shared, together: float | None) -> dict[str, ExpectedTime]:
    """The time of each device alone, if known, or that of a device of its kind. ``together``: measured seconds of all devices."""
    known = {one.info.id: _took(one, task, f"alone {task.places[one.info.id]}") for one in devices}
    kinds: dict[tuple[str, str], float] = {}
    if None in known.values():
        kinds = {(device_key(one.info), task.places[one.info.id]): took for one in devices if (took := known[one.info.id]) is not None}
    alone: dict[str, ExpectedTime] = {}
    for device in devices:
        name = device.info.id
        if (seconds := known[name]) is not None:
            alone[name] = ExpectedTime(seconds, True)
        elif kinds and (seconds := kinds.get((kind := device_key(device.info), task.places[name]), kinds.get((kind, REMOTE)))) is not None:
            alone[name] = ExpectedTime(seconds, like=True)
        elif shown := task.shown(device):
            alone[name] = ExpectedTime(task.work / shown)
        elif together is not None:  # too slow to have been given a piece
            alone[name] = ExpectedTime(together)
    return alone


def _took(device: Device, task: Shared, what: str) -> float | None:
    """Seconds that the whole problem took: the least of the latest times in this process, else the stored time."""
    return tries.least(key_of(device, task.problem, what)) or rates.seconds(device.info, task.problem, what)


def _sure(devices: Sequence[Device], task: Shared, alone: Mapping[str, ExpectedTime]) -> bool:
    """Whether the rates of the devices are reliable enough to exclude some of them."""
    return all(
        alone[device.info.id].measured or rates.is_confirmed(device.info, task.problem, task.work, task.places[device.info.id])
        for device in devices
    )


def worthwhile(devices: Sequence[Device], task: Shared) -> tuple[Sequence[Device], str]:
    """The devices whose share of the work is large enough to take part, and a note on the excluded ones; all devices where fewer than two
    remain.

    A device with a small share costs the others more than it adds: its threads occupy the cores that feed them, and all wait for its last
    piece.
    """
    if task.tiny or len(devices) <= FEWEST:
        return devices, ""
    if faster := _faster_without(devices, task):
        return faster
    alone = _each_alone(devices, task, rates.seconds(devices[0].info, task.problem, task.all))
    if len(alone) < len(devices) or not _sure(devices, task, alone):
        return devices, ""
    parts = parts_of({name: one.seconds for name, one in alone.items()})
    participants = [device for device in devices if parts[device.info.id] >= _LITTLE]
    if not FEWEST <= len(participants) < len(devices):
        return devices, ""
    others = [f"{name} ({100 * part:.2g} %)" for name, part in parts.items() if part < _LITTLE]
    return participants, f"left out because their part would be too small: {', '.join(others)}"


def parts_of(seconds: Mapping[str, float]) -> dict[str, float]:
    """The fraction of the work that each device does, from the seconds that it takes for the problem alone."""
    total = sum(1 / max(one, 1e-12) for one in seconds.values())
    return {name: 1 / max(one, 1e-12) / total for name, one in seconds.items()}


def doing_enough(seconds: Mapping[str, float]) -> list[str]:
    """The devices whose share is large enough to take part, from the seconds that each takes alone."""
    return [name for name, part in parts_of(seconds).items() if part >= _LITTLE]


def _faster_without(devices: Sequence[Device], task: Shared) -> tuple[Sequence[Device], str] | None:
    """The devices with their own memory, where they were measured to be faster without the others; None where they were not."""
    participants = [device for device in devices if not device.info.unified_memory]
    if not FEWEST <= len(participants) < len(devices):
        return None
    every, fewer = (" ".join(device.info.id for device in some) for some in (devices, participants))
    together = rates.seconds(devices[0].info, task.problem, task.all)
    without = rates.seconds(participants[0].info, task.problem, task.all.replace(f"with {every}", f"with {fewer}"))
    if together is None or without is None or without >= together:
        return None
    others = ", ".join(one.info.id for one in devices if one not in participants)
    return participants, f"left out because the others are faster alone: {others}"


def _little(alone: Mapping[str, ExpectedTime]) -> float:
    """The fraction of the work that all devices but the fastest would do, where it is too small to share; else 0."""
    rates_alone = [1 / max(expected.seconds, 1e-12) for expected in alone.values()]
    rest = 1 - max(rates_alone) / sum(rates_alone)
    return rest if rest < _LITTLE else 0.0


def _of_tiny(devices: Sequence[Device], task: Shared) -> Forecast:
    """Each device that may compute a tiny problem is timed; the fastest computes it from then on."""
    alone: dict[str, ExpectedTime] = {}
    for device in devices:
        if (name := device.info.id) in task.tiny:
            seconds = rates.seconds(device.info, task.problem, f"alone {task.places[name]}")
            alone[name] = ExpectedTime(_STARTING) if seconds is None else ExpectedTime(seconds, True)
    return Forecast(None, alone, min(alone, key=lambda name: (alone[name].measured, alone[name].seconds)), True)


def _quickest(together: ExpectedTime, alone: Mapping[str, ExpectedTime]) -> str:
    """The device that should compute the problem alone; "" for none. ``together``: the optimistic seconds of all devices together.

    If these are few and no device was timed alone yet, the best one is tried.
    """
    best = min(alone, key=lambda name: _at_best(alone[name]), default="")
    untried = together.measured and together.seconds < _SHORT and not any(one.measured or one.like for one in alone.values())
    return best if best and (untried or _at_best(alone[best]) <= together.seconds) else ""


def _nearby(task: Shared, alone: Mapping[str, ExpectedTime]) -> Mapping[str, ExpectedTime]:
    """The candidates for computing alone: devices that hold all operands, unless they may be much slower than the others; otherwise all.

    A time measured for one of these includes the cost of sharing, which it saves when it computes alone.
    """
    near = _near(task, alone)
    least = min(map(_at_best, near.values()), default=0.0)
    return near if least and all(least <= _NEAR * one.seconds for one in alone.values()) else alone


def _near(task: Shared, alone: Mapping[str, ExpectedTime]) -> Mapping[str, ExpectedTime]:
    """The devices to which no operand has to be copied: those of them that were measured, else all of them."""
    near = {name: one for name, one in alone.items() if task.places[name] != REMOTE}
    return {name: one for name, one in near.items() if one.measured} or near


def _at_best(alone: ExpectedTime) -> float:
    """The optimistic seconds of a device alone: small pieces may hide how fast it is."""
    if alone.measured:
        return alone.seconds
    return alone.seconds / (_HIDDEN_SHORT if alone.seconds < _SHORT and not alone.like else _HIDDEN)


def learn_alone(device: Device, task: Shared, seconds: float) -> None:
    """Record how long a device took for the whole problem."""
    what = f"alone {task.places[device.info.id]}"
    if _is_warm(device, task.problem, what, seconds):
        tries.count(key_of(device, task.problem, what), seconds, rates.seconds(device.info, task.problem, what) is not None)
        rates.record_seconds(device.info, task.problem, what, seconds)


def learn_together(
    devices: Sequence[Device], task: Shared, seconds: float, shown: Mapping[str, float], pieces: float, making: float = 0.0
) -> None:
    """Record how long all devices took together, and the rate that each showed; ``pieces`` are the seconds that the model gives at these
    rates.

    ``making``: the longest time that a device spent on compiling pieces with new shapes, which ``seconds`` include.
    """
    rough, key = making > _MAKING * seconds, key_of(devices[0], task.problem, task.all)
    warm = _is_warm(devices[0], task.problem, task.all, seconds)
    if not warm and not rough:
        return
    for device in devices:
        if shown.get(device.info.id):
            rates.record_rate(device.info, task.problem, task.work, shown[device.info.id], task.places[device.info.id])
    if not warm:
        return
    stored = rates.seconds(devices[0].info, task.problem, task.all) is not None
    tries.count(key, seconds - making if rough else seconds, stored, rough)
    if rough:
        return
    rates.record_seconds(devices[0].info, task.problem, task.all, seconds)  # even where a device was too slow to be given a piece
    if len(shown) == len(devices):
        what, starting = f"starting {task.all}", max(seconds - pieces, _STARTING)
        before = rates.of(devices[0].info, task.problem, task.work, what, task.work, task.work)
        starting = starting if before is None else min(starting, (before + starting) / 2)  # one run may be disturbed
        rates.learn(devices[0].info, task.problem, task.work, starting, what)


def is_first(device: Device, problem: Problem, place: str) -> bool:
    """Whether this piece is among the first of its workload on the device in this process: it loads kernels, so its rate is not
    representative.

    ``place``: the operands' place as returned by ``where``.
    """
    key = device.info.id, device.generation, problem.workload, problem.dtype, place
    count = _begun.get(key, 0)
    if count < _FIRST:
        _begun[key] = count + 1
    return count < _FIRST


def _is_warm(device: Device, problem: Problem, what: str, seconds: float) -> bool:
    """Whether a run predicts the next one: it is long, or not the first of its kind in this process."""
    key = key_of(device, problem, what)
    before = _runs.get(key, 0)
    _runs[key] = before + 1
    return seconds > _LONG or before > 0


def known(engine: Engine, problem: Problem, place: str = "", least: bool = False) -> float:
    """The rate of a device for such problems, in flops per second, from earlier runs with operands in this place or from tuning; 0 if
    unknown.

    ``least``: ignore rates of much smaller problems, which do not predict this one.
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
    """The place of the operands as it affects rates: all ``local`` to the device, some ``remote``, or on the host, perhaps page-locked."""
    if matrices is None:
        return ""
    if not any(stored.on_device for stored in matrices.values()):
        return LOCKED if not device.info.unified_memory and locked.hold_all([stored.array for stored in matrices.values()]) else ""
    local = all(stored.on_device and stored.array.memory.device is device for stored in matrices.values())
    return "local" if local else REMOTE


def cut_of(devices: Sequence[Device], problem: Problem) -> Cut | None:
    """A size along which the problem may be shared; None where there is none."""
    workload = workloads.get(problem.workload)
    cuts = [cut for cut in workload.cuts(problem, engine_of(devices[0]).choose(problem).config) if not cut.sums]
    cut = next((candidate for candidate in cuts if problem.sizes[candidate.size] > 1), None)
    return cut if cuts else triangles.cut_of(problem)
