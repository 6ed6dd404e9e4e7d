"""How fast is every subset of several devices on one problem, compared with the best single device and one processor core?

The times are those of a routine on NumPy arrays, transfers included. ``efficiency`` is the rate relative to the sum of the rates of the
devices alone. ``reached`` comes from the run itself: the work done over the work that its devices could have done in that time. A
simulation predicts the time of each set from the time of each device alone and from the links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from portatile import device as every
from portatile import workloads
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.records import Problem
from portatile.studies.framework import prediction, shared_run
from portatile.studies.framework.prediction import Together
from portatile.studies.framework.shared_run import SharedRun, subsets
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now
from portatile.workloads.speeds import described

ONE_CORE = "one core"
_NOISE = 1.03  # times longer, from which on a set is called slower than its fastest device


@dataclass(frozen=True)
class HybridRow:
    """One set of devices. If it did not run, seconds and derived figures are None and ``status`` says why.

    ``part`` of the problem was computed in ``seconds``; it is less than 1 for one core. ``best_speedup`` and ``core_speedup`` are the
    rate over that of the fastest single device and of one core; ``efficiency`` is the rate over the sum of the single devices' rates.
    ``predicted`` are seconds, ``off`` is their relative error; ``binds`` is the busiest part of the simulation.
    ``runs``: the seconds of each, with spaces between.
    """

    devices: str
    count: int
    processes: int
    workload: str
    problem: str
    dtype: str
    part: float = 1.0
    seconds: float | None = None
    best_speedup: float | None = None
    core_speedup: float | None = None
    efficiency: float | None = None
    reached: float | None = None
    shares: str = ""
    predicted: float | None = None
    off: float | None = None
    predicted_speedup: float | None = None
    binds: str = ""
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    runs: str = ""
    time: str = ""


@dataclass(frozen=True)
class HybridOptions:
    """How often each set runs, in how many processes, and how much of the problem one core computes."""

    repeat: int = option(12, Option("Runs of each set after the first, in which it settles how to share the work.", least=1))
    processes: int = option(1, Option("Processes that share the devices; each computes its part of the problem.", least=1))
    core_part: int = option(16, Option("One core computes only one part in this many of the problem.", least=1))


def measure(run: Run) -> Iterator[HybridRow]:
    """One core, then every set of devices."""
    options: HybridOptions = run.options
    assert run.problem is not None
    sets = subsets([device.info.id for device in run.devices])
    core = next(
        (device for device in every.devices() if device.info.kind == "cpu" and "oclgrind" not in device.info.platform.lower()), None
    )
    measures_core = core is not None and hasattr(os, "sched_setaffinity")
    run.expect(len(sets) + measures_core)
    blank = _blank(run.problem)
    if measures_core and core is not None:
        row = replace(blank, devices=ONE_CORE, part=1 / options.core_part)
        if not run.known(row):
            yield _of_one_core(row, run.problem, core, options)
    together = _predictor(run, run.problem) if options.processes == 1 and len(sets) > 1 else None
    for chosen in sets:
        row = replace(blank, devices=" + ".join(chosen), count=len(chosen), processes=options.processes)
        known = run.known(row)
        if known and (together is None or row.count > 1):
            continue
        run.say(row.devices)
        row = _timed(_predicted(row, chosen, together), SharedRun(run.problem, chosen, options.repeat, options.processes))
        if together is not None and row.count == 1 and row.seconds:
            together.took_alone(row.devices, row.seconds)
        if not known:
            yield row


def _predictor(run: Run, problem: Problem) -> Together | None:
    """What predicts the times of sets; None for a problem that is not shared."""
    cut = prediction.work_of(problem, run.devices)
    return None if cut is None else Together(run.devices, problem, *cut, run.options.repeat)


def _predicted(row: HybridRow, chosen: Sequence[str], together: Together | None) -> HybridRow:
    """The row of a set, with what is predicted of it where each of its devices was timed alone."""
    if together is None or row.count < 2 or not all(name in together.alone for name in chosen):
        return row
    try:
        found = together.predicted(chosen)
    except PortatileError:  # it cannot run, which the row's own measurement says
        return row
    return replace(row, predicted=found.seconds, binds=found.binds)


def _blank(problem: Problem) -> HybridRow:
    return HybridRow("", 0, 1, problem.workload, described(problem), problem.dtype)


def _of_one_core(row: HybridRow, problem: Problem, core: Device, options: HybridOptions) -> HybridRow:
    try:
        part = problem if options.core_part == 1 else shared_run.part_of(problem, options.core_part, 0)
    except PortatileError:  # it cannot be divided: one core computes all of it
        return _timed(replace(row, part=1.0), SharedRun(problem, (core.info.id,), 1, one_core=True))
    done = workloads.get(problem.workload).flops(part) / (workloads.get(problem.workload).flops(problem) or 1.0)
    return _timed(replace(row, part=done or row.part), SharedRun(part, (core.info.id,), 1, one_core=True))


def _timed(row: HybridRow, request: SharedRun) -> HybridRow:
    try:
        times = shared_run.timed(request)
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())
    shares = ", ".join(f"{100 * share:.0f} %" for share in times.shares.values()) if row.count > 1 else ""
    runs = " ".join(f"{seconds:.6g}" for seconds in times.seconds)
    measured = replace(row, seconds=min(times.seconds), reached=times.reached if row.count > 1 else None, shares=shares)
    return replace(measured, error=times.error, samples=len(times.seconds), runs=runs, status=times.note or "ok", time=now())


def finish(rows: Sequence[HybridRow]) -> list[HybridRow]:
    """Rates beside the best single device, one core, and the sum of the single devices."""
    alone = {row.devices: row.part / row.seconds for row in rows if row.count == 1 and row.seconds}
    core = next((row.part / row.seconds for row in rows if row.devices == ONE_CORE and row.seconds), None)

    def whole(row: HybridRow) -> HybridRow:
        seconds = row.seconds
        if not seconds:
            return row
        rate, names = row.part / seconds, row.devices.split(" + ")
        total = sum(alone[name] for name in names) if all(name in alone for name in names) else None
        best = rate / max(alone.values()) if alone else None
        row = replace(row, best_speedup=best, core_speedup=rate / core if core else None, efficiency=rate / total if total else None)
        if not row.predicted or not row.seconds or best is None:
            return row
        return replace(row, off=row.predicted / seconds - 1, predicted_speedup=best * seconds / row.predicted)

    return [whole(row) for row in rows]


def figures(rows: Sequence[HybridRow]) -> list[Figure]:
    """Speed-up over the best single device of every set, measured and predicted, and over one core."""
    charts: list[Figure] = []
    caption = "The rate of every set of devices on host arrays, transfers included, over that of"

    def chart(title: str, caption: str, names: tuple[str, ...], fields: tuple[str, ...]) -> None:
        drawn = [row for row in rows if row.count and getattr(row, fields[0]) is not None]
        if drawn:
            values = tuple(tuple(getattr(row, field) for field in fields) for row in drawn)
            charts.append(BarChart(title, caption, "speed-up", "", tuple(row.devices for row in drawn), names, values))

    title = "Speed-up over the best single device"
    if any(row.predicted_speedup for row in rows):
        simulated = f"{caption} the best one alone. Predicted: simulated from what each takes alone and from the links."
        chart(title, simulated, ("measured", "predicted"), ("best_speedup", "predicted_speedup"))
    else:
        chart(title, f"{caption} the best one alone.", ("speed-up",), ("best_speedup",))
    chart("Speed-up over one core", f"{caption} one processor core.", ("speed-up",), ("core_speedup",))
    return charts


def notes(rows: Sequence[HybridRow]) -> list[str]:
    """The fastest set, and whether any set is slower than its fastest device."""
    valid = [row for row in rows if row.count and row.seconds]
    if not valid:
        return []
    best = min(valid, key=lambda row: row.seconds or 0.0)
    if len(valid) == 1 and not any(row.count > 1 for row in rows):
        return [f"{best.devices} is the only device: nothing was shared; name several with --device"]
    lines = [f"fastest: {best.devices}, {best.best_speedup:.2f} times as fast as the best single device"] if best.best_speedup else []
    lines += [
        f"one core computed only {percent(row.part)} of the problem, in {duration(row.seconds)}; rates are compared"
        for row in rows
        if row.devices == ONE_CORE and row.seconds
    ]
    off = [row.off for row in valid if row.off is not None]
    if off:
        lines.append(f"sets of several devices: the predicted time is off by {100 * max(off, key=abs):+.0f} % (the worst of {len(off)})")
    singles = {row.devices: row.seconds or 0.0 for row in valid if row.count == 1}
    for row in valid:
        members = [singles[name] for name in row.devices.split(" + ") if name in singles]
        if row.count > 1 and members and (row.seconds or 0.0) > _NOISE * min(members):
            lines.append(f"{row.devices} is slower than its fastest device alone")
    return lines


def answer(rows: Sequence[HybridRow]) -> str:
    """The fastest set, relative to the best single device and one core."""
    best = min((row for row in rows if row.count and row.seconds), key=lambda row: row.seconds or 0.0, default=None)
    if best is None:
        return ""
    over = f", {best.best_speedup:.2f} times as fast as the best single device" if best.best_speedup and best.count > 1 else ""
    core = f", {written(best.core_speedup)} times as fast as one core" if best.core_speedup else ""
    off = max((row.off for row in rows if row.off is not None), key=abs, default=None)
    simulated = "" if off is None else f". The time predicted from the single devices is off by {100 * off:+.0f} % at worst"
    return f"Fastest: {best.devices}, {duration(best.seconds or 0.0)}{over}{core}{simulated}"


def _sample(devices: tuple[Device, ...]) -> StudyRequest | None:
    once = {device.info.physical_id: device for device in devices}
    if len(once) < 2:
        return None
    size = 4096 if any(device.info.kind == "gpu" for device in devices) else 512
    return StudyRequest(tuple(once.values()), HybridOptions(), workloads.problem("gemm", "float64", dict.fromkeys("mnk", size)))


STUDY = Study(
    name="hybrid",
    answers=("D4.6",),
    question="How fast are several devices together, compared with the best of them and with one processor core?",
    minutes=2.0,
    timed="a routine on NumPy arrays from call to return, transfers included; the fastest run after the first.",
    row=HybridRow,
    key=("devices", "processes", "workload", "problem", "dtype"),
    columns=(
        Column("devices", "devices"),
        Column("time", "seconds", "s"),
        Column("predicted", "predicted", "s"),
        Column("off by", "off", "%"),
        Column("part", "part", "%"),
        Column("over the best", "best_speedup"),
        Column("over one core", "core_speedup"),
        Column("of the sum of rates", "efficiency", "%"),
        Column("reached", "reached", "%"),
        Column("shares", "shares"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=HybridOptions,
    finish=finish,
    notes=notes,
    devices="each",
    problem="needed",
    sample=_sample,
    ceilings=False,
)
