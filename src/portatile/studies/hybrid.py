"""What do several devices give together: every subset of them on one problem, beside the best single device and one processor core?

The times are those of a routine on NumPy arrays, transfers included. ``efficiency`` compares the rate with the sum of the rates that the
same devices show alone; ``reached`` is what the run itself says: work done over what its devices could have done meanwhile.
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
from portatile.studies.framework import shared_run
from portatile.studies.framework.shared_run import SharedRun, subsets
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now
from portatile.workloads.speeds import described

ONE_CORE = "one core"
_NOISE = 1.03  # times longer, from which on a set is called slower than its fastest device


@dataclass(frozen=True)
class HybridRow:
    """One set of devices. Seconds and what follows from them are None where it did not run: ``status`` says why.

    ``part`` of the problem was computed, in ``seconds``: less than all by one core. ``best_speedup`` and ``core_speedup`` are the rate over
    that of the fastest single device, and of one core; ``efficiency`` is the rate over the sum of the single devices' rates.
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
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class HybridOptions:
    """How often each set runs, in how many processes, and how much of the problem one core computes."""

    repeat: int = option(12, Option("Runs of each set after the first: in them a set finds its shares.", least=1))
    processes: int = option(1, Option("Processes that share the devices; each computes its part of the problem.", least=1))
    core_part: int = option(16, Option("One core computes the problem divided by this.", least=1))


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
    for chosen in sets:
        row = replace(blank, devices=" + ".join(chosen), count=len(chosen), processes=options.processes)
        if not run.known(row):
            run.say(row.devices)
            yield _timed(row, SharedRun(run.problem, chosen, options.repeat, options.processes))


def _blank(problem: Problem) -> HybridRow:
    return HybridRow("", 0, 1, problem.workload, described(problem), problem.dtype)


def _of_one_core(row: HybridRow, problem: Problem, core: Device, options: HybridOptions) -> HybridRow:
    try:
        part = problem if options.core_part == 1 else shared_run.part_of(problem, options.core_part, 0)
    except PortatileError:  # then all of it
        return _timed(replace(row, part=1.0), SharedRun(problem, (core.info.id,), 1, one_core=True))
    done = workloads.get(problem.workload).flops(part) / (workloads.get(problem.workload).flops(problem) or 1.0)
    return _timed(replace(row, part=done or row.part), SharedRun(part, (core.info.id,), 1, one_core=True))


def _timed(row: HybridRow, request: SharedRun) -> HybridRow:
    try:
        times = shared_run.timed(request)
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())
    shares = ", ".join(f"{100 * share:.0f} %" for share in times.shares.values()) if row.count > 1 else ""
    measured = replace(row, seconds=min(times.seconds), reached=times.reached if row.count > 1 else None, shares=shares)
    return replace(measured, error=times.error, samples=len(times.seconds), status=times.note or "ok", time=now())


def finish(rows: Sequence[HybridRow]) -> list[HybridRow]:
    """Rates beside the best single device, one core, and the sum of the single devices."""
    alone = {row.devices: row.part / row.seconds for row in rows if row.count == 1 and row.seconds}
    core = next((row.part / row.seconds for row in rows if row.devices == ONE_CORE and row.seconds), None)

    def whole(row: HybridRow) -> HybridRow:
        if not row.seconds:
            return row
        rate, names = row.part / row.seconds, row.devices.split(" + ")
        total = sum(alone[name] for name in names) if all(name in alone for name in names) else None
        best = rate / max(alone.values()) if alone else None
        return replace(row, best_speedup=best, core_speedup=rate / core if core else None, efficiency=rate / total if total else None)

    return [whole(row) for row in rows]


def figures(rows: Sequence[HybridRow]) -> list[Figure]:
    """Speed-up over the best single device of every set, and over one core."""
    charts: list[Figure] = []
    for title, field in (("Speed-up over the best single device", "best_speedup"), ("Speed-up over one core", "core_speedup")):
        drawn = [row for row in rows if row.count and getattr(row, field) is not None]
        if drawn:
            caption = "The rate of every set of devices on host arrays, transfers included, over that one's."
            values = tuple((getattr(row, field),) for row in drawn)
            charts.append(BarChart(title, caption, "speed-up", "", tuple(row.devices for row in drawn), ("speed-up",), values))
    return charts


def notes(rows: Sequence[HybridRow]) -> list[str]:
    """The fastest set, and whether any set is slower than its fastest device."""
    valid = [row for row in rows if row.count and row.seconds]
    if not valid:
        return []
    best = min(valid, key=lambda row: row.seconds or 0.0)
    if len(valid) == 1 and not any(row.count > 1 for row in rows):
        return [f"{best.devices} is the only device: nothing was shared; name several with --device"]
    lines = [f"fastest: {best.devices}, {best.best_speedup:.2f} times the best single device"] if best.best_speedup else []
    lines += [
        f"one core computed {percent(row.part)} of the problem in {duration(row.seconds)}; its rate is compared"
        for row in rows
        if row.devices == ONE_CORE and row.seconds
    ]
    singles = {row.devices: row.seconds or 0.0 for row in valid if row.count == 1}
    for row in valid:
        members = [singles[name] for name in row.devices.split(" + ") if name in singles]
        if row.count > 1 and members and (row.seconds or 0.0) > _NOISE * min(members):
            lines.append(f"{row.devices} is slower than its fastest device alone")
    return lines


def answer(rows: Sequence[HybridRow]) -> str:
    """The fastest set, beside the best single device and one core."""
    best = min((row for row in rows if row.count and row.seconds), key=lambda row: row.seconds or 0.0, default=None)
    if best is None:
        return ""
    over = f", {best.best_speedup:.2f} times the best single device" if best.best_speedup and best.count > 1 else ""
    core = f", {written(best.core_speedup)} times one core" if best.core_speedup else ""
    return f"Fastest: {best.devices}, {duration(best.seconds or 0.0)}{over}{core}"


def _sample(devices: tuple[Device, ...]) -> StudyRequest | None:
    once = {device.info.physical_id: device for device in devices}
    if len(once) < 2:
        return None
    size = 4096 if any(device.info.kind == "gpu" for device in devices) else 512
    return StudyRequest(tuple(once.values()), HybridOptions(), workloads.problem("gemm", "float64", dict.fromkeys("mnk", size)))


STUDY = Study(
    name="hybrid",
    answers=("D4.6",),
    question="What do several devices give together, beside the best one of them and beside one processor core?",
    minutes=2.0,
    timed="a routine on NumPy arrays from call to return, transfers included; the fastest run after the first.",
    row=HybridRow,
    key=("devices", "processes", "workload", "problem", "dtype"),
    columns=(
        Column("devices", "devices"),
        Column("time", "seconds", "s"),
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
)
