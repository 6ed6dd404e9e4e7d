"""How far do a search and a shared product scale? Simulated from recorded trials and measured rates, up to 1,000 workers and 64 devices.

Two measurements stand beside their simulations: the duration of a recording, of one machine, and a product by every subset of the devices
here. The product is predicted from the time that each device takes alone, from the links, and from the overhead of a shared product of
half of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median

import numpy as np

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import PortatileError, UsageError
from portatile.figures.bars import BarChart
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.records import DeviceInfo
from portatile.store import shipped
from portatile.studies.framework import shared_run, simulation
from portatile.studies.framework.prediction import Together
from portatile.studies.framework.shared_run import SharedRun, subsets
from portatile.studies.framework.simulation import Overheads, SharedProduct, Simulated, SimulatedMachine, TrialCost
from portatile.studies.framework.study import LEFT_OUT, Column, Option, Run, Study, StudyRequest, option
from portatile.trials import Trial
from portatile.tuning.search import replay

HERE = "here"
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
DEVICES = (1, 2, 4, 8, 16, 32, 64)
_ON_GPUS, _ON_CPUS = 8192, 1024  # rows and columns of the product here
_USUAL = TrialCost(1.5, 0.25)
"""Of a GEMM's variant on a GPU, where no recording is named: NVRTC and ptxas take a second or two, checks and samples a quarter."""


@dataclass(frozen=True)
class ScaleRow:
    """One number of workers or devices. ``what``: tuning, product, recorded (a run of one machine) or here (a product by ``devices``).

    ``seconds`` are simulated, ``measured`` are measured, and ``off`` is the relative error of the simulation. ``speedup`` is over one
    worker or device, ``efficiency`` the speed-up per worker; ``binds`` is the busiest part, which was busy for ``busy`` of the time.
    ``status`` says why nothing was measured.
    """

    what: str
    count: int
    seconds: float | None
    measured: float | None
    speedup: float | None
    efficiency: float | None
    binds: str
    busy: float | None
    devices: str = ""
    off: float | None = None
    status: str = "ok"


@dataclass(frozen=True)
class ScaleOptions:
    """The inputs of the simulation. A rate of 0 stands for the fastest product of that type among the package's results."""

    files: tuple[Path, ...] = option((), Option("Files of recorded trials, for their times.", argument=True))
    trials: int = option(2000, Option("Trials of the search, drawn from the recorded ones.", least=1))
    compilers: int = option(12, Option("Texts that each worker's machine compiles at once; 0: the workers compile.", least=0))
    client: float = option(0.02, Option("Seconds of the client for each trial: strategy, plan, store; 0.02 for a GEMM on a GPU.", least=0))
    scheduler: float = option(0.001, Option("Seconds of Dask's scheduler for each task.", least=0))
    message: float = option(0.0005, Option("Seconds of a message.", least=0))
    failing: float = option(0.0, Option("Share of trials that end their worker.", least=0))
    size: int = option(32768, Option("Rows and columns of the product's matrices.", least=1))
    dtype: str = option("float64", Option("Element type of the product.", choices=("float32", "float64")))
    rate: float = option(0.0, Option("Tflop/s of a device; 0: the fastest product in the package's results.", least=0))
    link: float = option(50.0, Option("GB/s of a device's own link, either way.", least=0.001))
    host: float = option(400.0, Option("GB/s of the host's memory, for all links together.", least=0.001))
    measure: int = option(
        0, Option("Rows and columns of the product that this machine's devices compute. 0: 8192 with a GPU, else 1024.", least=0)
    )
    repeat: int = option(8, Option("Runs of each set of devices after the first, in which it settles how to share the work.", least=1))


def measure(run: Run) -> Iterator[ScaleRow]:
    """The recorded run, the search over workers, the product over devices."""
    options: ScaleOptions = run.options
    recorded = [recording for file in options.files for recording in replay.recordings(file)]
    costs = [cost for recording in recorded for cost in map(cost_of, recording.trials) if cost is not None] or [_USUAL]
    overheads = Overheads(options.client, options.scheduler, options.message, failing=options.failing)
    chosen_sets = subsets([device.info.id for device in run.devices])
    run.expect(len(WORKERS) + len(DEVICES) + len(recorded) + max(len(chosen_sets), 1))
    for recording in recorded:
        if (row := as_recorded(recording.trials, compilers_of(recording.device, options.compilers), overheads)) is not None:
            yield row
    drawn = np.random.default_rng(0).integers(len(costs), size=options.trials)
    chosen = [costs[place] for place in drawn]
    for count in WORKERS:
        yield _row("tuning", count, simulation.tuning(chosen, count, options.compilers * count, overheads))
    work, rate = _product(options.size, options.dtype), options.rate * 1e12 or _known_rate(options.dtype)
    for count in DEVICES:
        machine = SimulatedMachine((rate,) * count, (options.link * 1e9,) * count, options.host * 1e9)
        yield _row("product", count, simulation.product(work, machine))
    yield from _here(run, chosen_sets)


def _here(run: Run, sets: Sequence[tuple[str, ...]]) -> Iterator[ScaleRow]:
    """The product by each device alone, then by every set of several, beside what the simulation made of the former."""
    blank = ScaleRow(HERE, len(run.devices), None, None, None, None, "", None, " + ".join(device.info.id for device in run.devices))
    if len(sets) < 2:
        named = f"one device only ({blank.devices})" if run.devices else "no device"
        yield replace(blank, status=f"not measured: {named}; name several with --device")
        return
    options: ScaleOptions = run.options
    n = options.measure or (_ON_GPUS if any(device.info.kind == "gpu" for device in run.devices) else _ON_CPUS)
    problem = workloads.problem("gemm", options.dtype, dict.fromkeys("mnk", n))
    together = Together(run.devices, problem, "m", _product(n, options.dtype), options.repeat, options.host * 1e9)
    for chosen in sets:
        run.say(f"{' + '.join(chosen)}: {n} x {n} {options.dtype}")
        row = replace(blank, count=len(chosen), devices=" + ".join(chosen))
        if len(chosen) > 1 and run.known(row):
            continue
        try:
            if len(chosen) > 1 and all(name in together.alone for name in chosen):
                predicted = together.predicted(chosen)
                row = replace(row, seconds=predicted.seconds, binds=predicted.binds, busy=predicted.busy[predicted.binds])
            expected = (1 + options.repeat) * (row.seconds or 0.0)
            if not run.fits(expected):
                yield replace(row, status=f"{LEFT_OUT}: {duration(expected)} would be too long")
                continue
            row = replace(row, measured=min(shared_run.timed(SharedRun(problem, chosen, options.repeat)).seconds))
        except PortatileError as error:
            yield replace(row, status=str(error).splitlines()[0])
            continue
        if len(chosen) == 1:
            together.took_alone(chosen[0], row.measured or 0.0)
        if not run.known(row):
            yield row


def cost_of(trial: Trial) -> TrialCost | None:
    """The cost of a recorded trial; None if nothing was recorded of that, or nothing was run or compiled."""
    if not trial.seconds:
        return None
    compiling = trial.seconds.get("compile", 0.0)
    checks = trial.certificate.checks if trial.certificate is not None else ()  # each of a problem, which has a text of its own
    return TrialCost(compiling, replay.cost(trial) - compiling, max(len(checks), 1))


def compilers_of(device: DeviceInfo, usual: int) -> int:
    """Texts that were compiled at once beside a recorded search: of one on a processor as many as that has cores."""
    return device.compute_units if device.kind == "cpu" else usual


def as_recorded(trials: Sequence[Trial], compilers: int, overheads: Overheads) -> ScaleRow | None:
    """A run of one machine: from its first trial's end to its last one's, simulated and as its trials say when they ended.

    Of finalists that is not known, because their times are those of the final comparison. They are taken to have been the first.
    """
    tried = sorted((trial for trial in trials if cost_of(trial) is not None), key=lambda trial: (trial.standing is None, trial.time))
    costs = [cost for trial in tried if (cost := cost_of(trial)) is not None]
    ended = [datetime.fromisoformat(trial.time) for trial in tried if trial.standing is None and trial.time]
    if len(ended) < 2:
        return None
    whole = simulation.tuning(costs, 1, compilers, replace(overheads, start=0.0))
    ends = [end for trial, end in zip(tried, whole.ends, strict=True) if trial.standing is None]
    row = _row("recorded", 1, replace(whole, seconds=max(ends) - min(ends)))
    return replace(row, measured=(max(ended) - min(ended)).total_seconds())


def _row(what: str, count: int, simulated: Simulated) -> ScaleRow:
    return ScaleRow(what, count, simulated.seconds, None, None, None, simulated.binds, simulated.busy[simulated.binds])


def _product(n: int, dtype: str) -> SharedProduct:
    itemsize = {"float32": 4, "float64": 8}[dtype]
    return SharedProduct(n, 2.0 * n * n, 2.0 * n * itemsize, 1.0 * n * n * itemsize)


def _known_rate(dtype: str) -> float:
    """Flops a second of the fastest product among the package's results."""
    gemm = workloads.get("gemm")
    rates = [
        gemm.flops(trial.problem) / trial.comparable for trial in shipped("gemm") if trial.problem.dtype == dtype and trial.status == "ok"
    ]
    if not rates:
        raise UsageError("the package has no result of such a product: say --rate")
    return max(rates)


def finish(rows: Sequence[ScaleRow]) -> list[ScaleRow]:
    """Speed-up over one worker, or one device; of the devices here over the fastest of them, as measured."""
    simulated = {row.what: row.seconds for row in rows if row.count == 1 and row.seconds}
    fastest = min((row.measured for row in rows if row.what == HERE and row.count == 1 and row.measured), default=None)

    def whole(row: ScaleRow) -> ScaleRow:
        row = replace(row, off=_off(row))
        one, took = (fastest, row.measured) if row.what == HERE else (simulated.get(row.what), row.seconds)
        if row.what == "recorded" or not one or not took:
            return row
        return replace(row, speedup=one / took, efficiency=one / took / row.count)

    return [whole(row) for row in rows]


def _off(row: ScaleRow) -> float | None:
    """How much longer the simulated seconds are than the measured ones, over these."""
    return row.seconds / row.measured - 1 if row.seconds and row.measured else None


def figures(rows: Sequence[ScaleRow]) -> list[Figure]:
    """Speed-up over the number of workers and of devices, beside the ideal."""
    charts: list[Figure] = []
    for what, title, unit in (("tuning", "Tuning over a fleet", "workers"), ("product", "A product over devices", "devices")):
        points = tuple((float(row.count), row.speedup) for row in rows if row.what == what and row.speedup is not None)
        if points:
            ideal = Series("ideal", tuple((x, x) for x, _ in points))
            caption = "Simulated from measured times: the speed-up over one."
            charts.append(
                LineChart(title, caption, ChartAxis(unit, log=True), ChartAxis("speed-up", log=True), (Series("simulated", points), ideal))
            )
    here = [row for row in rows if row.what == HERE and row.measured]
    if len(here) > 1:
        caption = "A product of host arrays by every set of the devices here, and what was predicted of it from what each takes alone."
        values = tuple((row.seconds, row.measured) for row in here)
        charts.append(
            BarChart("A product here", caption, "time", "s", tuple(row.devices for row in here), ("predicted", "measured"), values)
        )
    return charts


def notes(rows: Sequence[ScaleRow]) -> list[str]:
    """Where each stops scaling, and what limits it; how far the simulation of recorded runs was off."""
    lines = []
    for what, unit in (("tuning", "workers"), ("product", "devices")):
        simulated = [row for row in rows if row.what == what and row.efficiency is not None]
        poor = next((row for row in simulated if (row.efficiency or 0.0) < 0.5), None)
        if poor is not None:
            lines.append(f"{what}: less than half of the ideal speed-up from {poor.count} {unit} on, limited by: {poor.binds}")
        elif simulated:
            lines.append(f"{what}: {percent(simulated[-1].efficiency)} of the ideal speed-up on {simulated[-1].count} {unit}")
    off = [error for row in rows if row.what == "recorded" and (error := _off(row)) is not None]
    if off:
        lines.append(f"recorded runs: the simulated time is off by {100 * median(off):+.0f} % (median of {len(off)})")
    off = [error for row in rows if row.what == HERE and (error := _off(row)) is not None]
    if off:
        lines.append(f"devices here: the predicted time is off by {100 * max(off, key=abs):+.0f} % (the worst of {len(off)})")
    return lines + [row.status for row in rows if row.what == HERE and row.status != "ok"]


def answer(rows: Sequence[ScaleRow]) -> str:
    """Where each stops scaling, and what limits it."""
    answers = [line for line in notes(rows) if line.startswith(("tuning", "product", "devices here"))]
    return ". ".join(line[0].upper() + line[1:] for line in answers)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, ScaleOptions(trials=500, measure=4096 if any(device.info.kind == "gpu" for device in devices) else 0))


STUDY = Study(
    name="scale",
    answers=("D4.6",),
    question="How far do a search on a fleet and a product on several devices scale, and what limits them?",
    minutes=0.5,
    timed="a product of NumPy arrays by the devices here, transfers included, the fastest run; all else is simulated from measured times.",
    row=ScaleRow,
    key=("what", "count", "devices"),
    columns=(
        Column("what", "what"),
        Column("workers or devices", "count"),
        Column("devices", "devices"),
        Column("simulated", "seconds", "s"),
        Column("measured", "measured", "s"),
        Column("off by", "off", "%"),
        Column("speed-up", "speedup"),
        Column("of the ideal", "efficiency", "%"),
        Column("what binds", "binds"),
        Column("busy", "busy", "%"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=ScaleOptions,
    finish=finish,
    notes=notes,
    devices="any",
    sample=_sample,
    ceilings=False,
)
