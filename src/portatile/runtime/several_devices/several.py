"""One computation on several devices: cut where its workload allows, and scheduled dynamically by the measured rate of each device.

Each device computes in its own thread. It takes pieces in proportion to its rate, transfers included, and smaller ones towards the end, so
that no device waits long for the last piece. The pieces of a device that fails go to the others. Each device computes with its own
configuration, so results may differ in their bits from those of a single device, within the workload's error bound.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from portatile import workloads
from portatile.arguments.matrices import Matrix
from portatile.device.base import Device
from portatile.errors import ArgumentError, DeviceError, LaunchError
from portatile.records import Problem
from portatile.runtime.in_parts import slabs, tasks
from portatile.runtime.in_parts.broadcast import Broadcast
from portatile.runtime.one_device import memory_limit
from portatile.runtime.one_device.engine import Engine, engine_of
from portatile.runtime.several_devices import at_once, forecast, splits, triangles
from portatile.runtime.several_devices.device_threads import Part, together
from portatile.runtime.several_devices.expected import Forecast
from portatile.runtime.several_devices.pieces import FEWEST, Pieces, about_in_time, in_time
from portatile.runtime.several_devices.ready_parts import ReadyPart
from portatile.runtime.several_devices.remote_parts import RemoteParts, best_cut, is_local, resident
from portatile.runtime.several_devices.splits import Share, Split, keep
from portatile.runtime.several_devices.workers import Start, Worker
from portatile.store import device_key
from portatile.workload import Cut


def expected(devices: Sequence[Device], problem: Problem) -> Split:
    """How these devices would share a problem, or which of them would compute it alone because that is expected to be faster.

    ``Split.note`` names devices of unknown rate; each of them is given a small piece first.
    """
    if len(devices) == 1:
        return Split(problem, "", 0.0, (), f"{devices[0].info.id} is the only device; it computes {problem.workload} alone", True)
    cut = forecast.cut_of(devices, problem)
    if cut is None:
        return Split(problem, "", 0.0, (), f"{problem.workload} of this shape cannot be cut; {devices[0].info.id} computes it alone", True)
    work = _work(problem, cut)
    devices, left_out = forecast.worthwhile(devices, forecast.shared(devices, problem))
    known = {device.info.id: forecast.known(engine_of(device), problem) / work for device in devices}
    prediction = forecast.of(devices, forecast.shared(devices, problem))
    return expected_split(prediction, problem, (cut.size, problem.sizes[cut.size], max(cut.period, 1)), known, left_out)


def expected_split(
    prediction: Forecast, problem: Problem, steps: tuple[str, int, int], known: Mapping[str, float], left_out: str = ""
) -> Split:
    """The split that a forecast implies. ``steps``: the size that is cut, its number of steps, and the multiple of which pieces are made.

    ``known``: the rate of each device in steps per second, 0 if unknown. ``left_out``: which devices take no part, and why.
    """
    name, size, period = steps
    if prediction.quickest:
        return _of_one(prediction, problem, size)
    seconds, busy = in_time(size, period, known)
    shares = tuple(Share(device, round(rate * busy[device]), 0, busy[device]) for device, rate in known.items())
    unknown = ", ".join(device for device, rate in known.items() if not rate)
    if prediction.together is not None:
        seconds = prediction.together.seconds
    note = f"no rate is known of {unknown}" if unknown else left_out
    return Split(problem, name, seconds, shares, note, True, forecast=prediction)


def _of_one(prediction: Forecast, problem: Problem, steps: int) -> Split:
    """The degenerate split of a problem with ``steps`` steps: the quickest device computes it alone."""
    seconds = prediction.alone[prediction.quickest].seconds
    return Split(problem, "", seconds, (Share(prediction.quickest, steps, 1, seconds),), prediction.why, True, forecast=prediction)


def _work(problem: Problem, cut: Cut) -> float:
    """Flops per step of the size that is cut; 1 where the workload does not count flops."""
    return max(workloads.get(problem.workload).flops(problem) / problem.sizes[cut.size], 1.0)


class ShareForecast(NamedTuple):
    """A problem, the devices that should compute it (those of ``named`` whose share is large enough), and their forecast.

    ``key`` identifies calls of the same kind.
    """

    named: Sequence[Device]
    devices: Sequence[Device]
    task: forecast.Shared
    prediction: Forecast
    note: str = ""
    key: Hashable = None


Participants = tuple[Sequence[Device], str]
"""The devices whose share of a problem is large enough to take part, and a note on the others."""


def participants(named: Sequence[Device], problem: Problem, matrices: Mapping[str, Matrix]) -> Participants:
    """The devices of ``named`` that take part."""
    return (named, "") if len(named) <= FEWEST else forecast.worthwhile(named, forecast.shared(named, problem, matrices))


def share_forecast(
    named: Sequence[Device], problem: Problem, matrices: Mapping[str, Matrix], known: Participants | None = None
) -> ShareForecast:
    """What ``device_alone`` and ``perform`` need to know. ``known``: the participants in the same problem with another precision."""
    before, left_out = known or (named, "")
    devices, note = participants(before, problem, matrices)
    task = forecast.shared(devices, problem, matrices)
    prediction = forecast.of(devices, task) if len(named) > 1 else Forecast(None, {})
    return ShareForecast(named, devices, task, prediction, "; ".join(filter(None, (left_out, note))))


def perform(what: ShareForecast, matrices: Mapping[str, Matrix], scalars: Mapping[str, float], start: Start) -> Split:
    """Compute a problem on all of its devices; returns when the output, the last of ``matrices``, is complete.

    The arrays lie either all on the host or all on devices, where all work on them has finished. A problem that cannot be cut or is too
    small is computed by the first device alone, or by the one that holds the output, and ``Split.note`` says so. Warns of a device that
    fails, and continues with the others; raises the last device's exception where all fail.
    """
    named, devices, task, prediction, left_out, _ = what
    if len(devices) == 1:
        return keep(devices, _by_one(devices[0], task, matrices, scalars, start, ""))
    alone = next((device for device in devices if device.info.id == prediction.quickest), None)
    workers, note = _workers(devices, task.problem, matrices, scalars) if alone is None else ([], prediction.why)
    if len(workers) < FEWEST:
        split = _by_one(alone or _first(devices, matrices), task, matrices, scalars, start, note)
    else:
        split = _shared(what, workers, start, "; ".join(filter(None, (note, left_out))))
    return keep(named, replace(split, forecast=prediction))


def device_alone(what: ShareForecast) -> str:
    """The device that should compute a problem alone from now on, where its operands lie; "" where that is not settled."""
    named, _, task, prediction, *_ = what
    if not prediction.decided or task.places[prediction.quickest] == forecast.REMOTE:
        return ""
    keep(named, _of_one(prediction, task.problem, max(task.problem.sizes.values(), default=0)))
    return prediction.quickest


def _by_one(
    device: Device, task: forecast.Shared, matrices: Mapping[str, Matrix], scalars: Mapping[str, float], start: Start, note: str
) -> Split:
    problem = task.problem
    began = time.perf_counter()
    _alone(device, problem, matrices, scalars, start)
    seconds = time.perf_counter() - began
    forecast.learn_alone(device, task, seconds)
    return Split(problem, "", seconds, (Share(device.info.id, max(problem.sizes.values(), default=0), 1, seconds),), note)


def _shared(what: ShareForecast, workers: Sequence[Worker], start: Start, note: str) -> Split:
    task, problem = what.task, what.task.problem
    began = time.perf_counter()
    cut = workers[0].cut
    size, work = problem.sizes[cut.size], _work(problem, cut)
    known = {worker.share.device: _known(worker, problem, what.prediction) / work for worker in workers}
    period = lcm(*(max(worker.cut.period, 1) for worker in workers))
    narrow = min(workers, key=lambda worker: worker.most)
    least = slabs.least(narrow.engine, narrow.task, narrow.cut, narrow.most, len(workers))
    pieces, predicted = Pieces(size, period, known, least=least), 0.0
    if all(known.values()):
        predicted = size / (about_in_time(size, period, known) * sum(known.values()))
    made = [worker.engine.making for worker in workers]
    rates = _at_once(what, workers, known) or _by_pieces(workers, pieces, start)
    seconds = time.perf_counter() - began
    shown = {name: rate * work for name, rate in rates.items()}
    if not any(worker.share.failure for worker in workers):
        making = max(worker.engine.making - before for worker, before in zip(workers, made, strict=True))
        forecast.learn_together(what.devices, task, seconds, shown, about_in_time(size, period, {**known, **rates}), making)
    far = sum(worker.share.steps for worker in workers if not worker.engine.device.info.unified_memory)
    crossed = tasks.crossing(workers[0].task, cut, far / size)
    return Split(problem, cut.size, seconds, tuple(worker.share for worker in workers), note, predicted=predicted, crossed=crossed)


def _known(worker: Worker, problem: Problem, prediction: Forecast) -> float:
    """The rate of a device with the operands where they lie, in flops per second, from pieces or alone; 0 if unknown."""
    shown, alone = forecast.known(worker.engine, problem, worker.where), prediction.alone.get(worker.share.device)
    if shown or alone is None or not alone.measured:
        return shown
    return max(workloads.get(problem.workload).flops(problem), 1.0) / max(alone.seconds, 1e-12)


def _at_once(what: ShareForecast, workers: Sequence[Worker], known: Mapping[str, float]) -> dict[str, float]:
    """Compute a short problem in one part per device; returns their steps per second, or nothing if it must be handed out in pieces."""
    devices = [(worker.engine, worker.task, worker.cut) for worker in workers]
    rates = [known[one.share.device] for one in workers]
    if len({(device_key(one.engine.device.info), one.where) for one in workers}) == 1 and all(rates):
        # the first pieces of equal devices differ only by chance; later calls correct the rates
        rates = [sum(rates) / len(rates)] * len(rates)
    parts = at_once.shares(devices, rates, what.key)
    if not parts:
        return {}
    try:
        taken = at_once.run(parts)
    except (DeviceError, LaunchError, MemoryError):  # a device that fails again in ``_by_pieces`` is excluded there
        return {}
    for worker, one, took in zip(workers, parts, taken, strict=True):
        worker.share.steps, worker.share.pieces, worker.share.seconds = one.steps, 1, took.seconds
    if what.key is not None and what.prediction.tried:
        at_once.remember(what.key, devices, parts, _teller(what, workers[0].task, workers[0].cut))
    return {worker.share.device: worker.share.rate for worker in workers}


def _teller(what: ShareForecast, task: tasks.Task, cut: Cut) -> at_once.Observer:
    """A callback that records the split of each call that is computed in the parts of an earlier one."""
    place, crossed = splits.name(what.task.problem, what.named), tasks.crossing(task, cut, 1.0, len(what.devices))

    def tell(parts: Sequence[ReadyPart], took: Sequence[at_once.PartTime], seconds: float) -> None:
        done = [(part.plan.engine.device.info.id, part.steps, 1, one.seconds) for part, one in zip(parts, took, strict=True)]

        def made() -> Split:
            shares = tuple(Share(*one) for one in done)
            return Split(what.task.problem, cut.size, seconds, shares, what.note, forecast=what.prediction, crossed=crossed)

        splits.keep_lazily(place, made)

    return tell


def _by_pieces(workers: Sequence[Worker], pieces: Pieces, start: Start) -> dict[str, float]:
    """Compute all pieces; returns the steps per second of the devices that did not fail."""
    lie = [stored.array.memory.device for stored in workers[0].task.matrices.values() if stored.on_device]
    devices = [worker.engine.device for worker in workers] + lie
    with Broadcast() as common:
        for worker in workers:
            worker.task = replace(worker.task, common=common)
        together([Part(worker.share, partial(worker.run, start=start)) for worker in workers], pieces, devices)
    warm = pieces.shown
    participants = [worker.share for worker in workers if worker.share.pieces and not worker.share.failure]
    return {share.device: warm[share.device] for share in participants if share.device in warm}


def _workers(
    devices: Sequence[Device], problem: Problem, matrices: Mapping[str, Matrix], scalars: Mapping[str, float]
) -> tuple[list[Worker], str]:
    """The devices that can take part, and why the others cannot."""
    workers: list[Worker] = []
    notes: list[str] = []
    cut: Cut | None = None
    alone = f"{_first(devices, matrices).info.id} computed it alone"
    for device in devices:
        engine = engine_of(device)
        try:
            task = tasks.task(engine, problem, matrices, scalars)
        except ArgumentError as error:
            notes.append(f"{device.info.id} cannot compute it: {error}")
            continue
        found = _cut(task, devices, cut)
        if found is None:
            return [], f"{problem.workload} of this shape cannot be cut; {alone}"
        most = _most(engine, task, found, len(devices))
        if most:
            cut = cut or found
            workers.append(Worker(engine, task, found, most, Share(device.info.id)))
        else:
            notes.append(f"{device.info.id} has too little memory for a part")
    if cut is not None and problem.sizes[cut.size] < FEWEST * len(workers):
        return [], f"too small to cut; {alone}"
    return workers, "; ".join(notes)


def _cut(task: tasks.Task, devices: Sequence[Device], like: Cut | None) -> Cut | None:
    """The way to cut a task, along the same size as other devices do (``like``); None where there is none."""
    if like is None and task.matrices[task.output].on_device:
        return best_cut(task)
    if not task.cuts:
        return triangles.cut(task)
    if like is None:
        return preferred(task.cuts, task.problem.sizes, devices)
    return next((one for one in task.cuts if one.size == like.size and task.problem.sizes[one.size] > 1), None)


def preferred(cuts: Sequence[Cut], sizes: Mapping[str, int], devices: Sequence[Device]) -> Cut | None:
    """The way to cut a problem of host arrays for these devices. ``cuts``: the one that leaves the fewest bytes whole comes first.

    Devices that copy to each other read from the host only once what all of them need whole. They are given rows, which are contiguous,
    where there are enough: strided copies of columns are slower.
    """
    possible = [cut for cut in cuts if sizes[cut.size] > 1]
    if all(one.exchanges(other) for one, other in pairwise(devices)):
        rows = [cut for cut in possible if "columns" not in cut.pieces.values() and sizes[cut.size] >= tasks.GRAIN * len(devices)]
        possible = rows or possible
    return next(iter(possible), None)


def _most(engine: Engine, task: tasks.Task, cut: Cut, devices: int) -> int:
    """The steps of the largest piece that fits into the device's memory and hides its transfers, where ``devices`` share the problem."""
    device, on_device = engine.device, task.matrices[task.output].on_device
    if is_local(task, device) if on_device else device.info.unified_memory:
        return int(task.problem.sizes[cut.size])
    if not cut.pieces:
        return triangles.most(engine, task, cut)
    limit = memory_limit.limit_of(device) or device.info.global_memory
    return slabs.widest(engine, task, resident(task, cut) if on_device else cut, limit, devices)


def _first(devices: Sequence[Device], matrices: Mapping[str, Matrix]) -> Device:
    """The device for a problem that is not shared: the one that holds the output, else the first named one."""
    *_, output = matrices.values()
    return output.array.memory.device if output.on_device else devices[0]


def _alone(device: Device, problem: Problem, matrices: Mapping[str, Matrix], scalars: Mapping[str, float], start: Start) -> None:
    engine = engine_of(device)
    if forecast.where(matrices, device) == forecast.REMOTE:
        with RemoteParts(engine, tasks.task(engine, problem, matrices, scalars), None) as parts:
            parts.whole()
        return
    on_host = not any(stored.on_device for stored in matrices.values())
    sizes = tuple(stored.extent * stored.array.dtype.itemsize for stored in matrices.values())
    if on_host and (sum(sizes) >= slabs.BESIDE or memory_limit.too_large(device, sizes)):
        task = tasks.task(engine, problem, matrices, scalars)
        if slabs.overlaps(task, device) or memory_limit.too_large(device, sizes):
            slabs.run(engine, task)
            return
    start(engine, engine.prepare(problem), matrices, scalars)
