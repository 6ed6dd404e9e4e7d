"""How far do tuning and a shared product scale? Simulated from recorded trials and measured rates, to 1,000 workers and 64 devices.

Needs no device. A recording is of one machine; its own duration is simulated too, and stands beside what it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median

import numpy as np

from portatile import workloads
from portatile.errors import UsageError
from portatile.figures.lines import Axis, LineChart, Series
from portatile.figures.svg import Figure
from portatile.records import percent
from portatile.store import shipped
from portatile.studies.form import simulation
from portatile.studies.form.simulation import Machine, Overheads, SharedProduct, Simulated, TrialCost
from portatile.studies.form.study import Asked, Column, Option, Run, Study, option
from portatile.trials import Trial
from portatile.tuning.search import replay

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
DEVICES = (1, 2, 4, 8, 16, 32, 64)
_USUAL = TrialCost(1.5, 0.25)
"""Of a GEMM's variant on a GPU, where no recording is named: NVRTC and ptxas take a second or two, checks and samples a quarter."""


@dataclass(frozen=True)
class ScaleRow:
    """One number of workers or devices. ``what``: tuning, product, or recorded, a run of one machine that took ``measured`` seconds.

    ``speedup`` over one, ``efficiency`` a worker's share of it; ``binds`` is the busiest part, busy for ``busy`` of the time.
    """

    what: str
    count: int
    seconds: float
    measured: float | None
    speedup: float | None
    efficiency: float | None
    binds: str
    busy: float


@dataclass(frozen=True)
class ScaleOptions:
    """What was measured. Rates of 0: of the fastest product of that type among the package's results."""

    files: tuple[Path, ...] = option((), Option("Files of recorded trials, for their times.", argument=True))
    trials: int = option(2000, Option("Trials of the search, drawn from the recorded ones.", least=1))
    compilers: int = option(12, Option("Texts that each worker's machine compiles at once; 0: workers compile.", least=0))
    client: float = option(0.005, Option("Seconds of the client for each trial: strategy, plan, store.", least=0))
    scheduler: float = option(0.001, Option("Seconds of Dask's scheduler for each task.", least=0))
    message: float = option(0.0005, Option("Seconds of a message.", least=0))
    failing: float = option(0.0, Option("Share of trials that end their worker.", least=0))
    size: int = option(32768, Option("Rows and columns of the product's matrices.", least=1))
    dtype: str = option("float64", Option("Its element type.", choices=("float32", "float64")))
    rate: float = option(0.0, Option("Tflop/s of a device.", least=0))
    link: float = option(50.0, Option("GB/s of a device's own link, either way.", least=0.001))
    host: float = option(400.0, Option("GB/s of the host's memory, for all links together.", least=0.001))


def measure(run: Run) -> Iterator[ScaleRow]:
    """The recorded run, the search over workers, the product over devices."""
    asked: ScaleOptions = run.options
    recorded = [recording for file in asked.files for recording in replay.recordings(file)]
    costs = [cost for recording in recorded for cost in map(cost_of, recording.trials) if cost is not None] or [_USUAL]
    overheads = Overheads(asked.client, asked.scheduler, asked.message, failing=asked.failing)
    run.expect(len(WORKERS) + len(DEVICES) + len(recorded))
    for recording in recorded:
        if (row := as_recorded(recording.trials, asked.compilers, overheads)) is not None:
            yield row
    drawn = np.random.default_rng(0).integers(len(costs), size=asked.trials)
    chosen = [costs[place] for place in drawn]
    for count in WORKERS:
        yield _row("tuning", count, simulation.tuning(chosen, count, asked.compilers * count, overheads))
    work, rate = _product(asked), asked.rate * 1e12 or _known_rate(asked.dtype)
    for count in DEVICES:
        yield _row("product", count, simulation.product(work, Machine((rate,) * count, asked.link * 1e9, asked.host * 1e9)))


def cost_of(trial: Trial) -> TrialCost | None:
    """The cost of a recorded trial; None where nothing was recorded of that, or nothing was run."""
    if not trial.seconds or trial.status == "skipped":
        return None
    compiling = trial.seconds.get("compile", 0.0)
    return TrialCost(compiling, replay.cost(trial) - compiling)


def as_recorded(trials: Sequence[Trial], compilers: int, overheads: Overheads) -> ScaleRow | None:
    """A run of one machine: from its first trial's end to its last one's, simulated and as its trials say when they ended."""
    costs = [cost for trial in trials if (cost := cost_of(trial)) is not None]
    searched = [trial for trial in trials if trial.time and trial.standing is None]  # a finalist's time is that of the final comparison
    ended = sorted(datetime.fromisoformat(trial.time) for trial in searched if cost_of(trial) is not None)
    if len(ended) < 2:
        return None
    whole = simulation.tuning(costs, 1, compilers, replace(overheads, start=0.0))
    first = simulation.tuning(costs[:1], 1, compilers, replace(overheads, start=0.0))
    row = _row("recorded", 1, replace(whole, seconds=whole.seconds - first.seconds))
    return replace(row, measured=(ended[-1] - ended[0]).total_seconds())


def _row(what: str, count: int, found: Simulated) -> ScaleRow:
    return ScaleRow(what, count, found.seconds, None, None, None, found.binds, found.busy[found.binds])


def _product(asked: ScaleOptions) -> SharedProduct:
    n, itemsize = asked.size, {"float32": 4, "float64": 8}[asked.dtype]
    return SharedProduct(n, 2.0 * n * n, 2.0 * n * itemsize, 1.0 * n * n * itemsize)


def _known_rate(dtype: str) -> float:
    """Flops a second of the fastest product among the package's results."""
    gemm = workloads.get("gemm")
    rates = [gemm.flops(one.problem) / one.comparable for one in shipped("gemm") if one.problem.dtype == dtype and one.status == "ok"]
    if not rates:
        raise UsageError("the package has no result of such a product: say --rate")
    return max(rates)


def finish(rows: Sequence[ScaleRow]) -> list[ScaleRow]:
    """Speed-up over one worker, or one device."""
    alone = {row.what: row.seconds for row in rows if row.count == 1}

    def with_speedup(row: ScaleRow) -> ScaleRow:
        if row.what == "recorded" or row.what not in alone:
            return row
        speedup = alone[row.what] / row.seconds
        return replace(row, speedup=speedup, efficiency=speedup / row.count)

    return [with_speedup(row) for row in rows]


def figures(rows: Sequence[ScaleRow]) -> list[Figure]:
    """Speed-up over the number of workers and of devices, beside the ideal."""
    made: list[Figure] = []
    for what, title, unit in (("tuning", "Tuning over a fleet", "workers"), ("product", "A product over devices", "devices")):
        points = tuple((float(row.count), row.speedup) for row in rows if row.what == what and row.speedup is not None)
        if points:
            ideal = Series("ideal", tuple((x, x) for x, _ in points))
            said = "Simulated from measured times: the speed-up over one."
            made.append(LineChart(title, said, Axis(unit, log=True), Axis("speed-up", log=True), (Series("simulated", points), ideal)))
    return made


def notes(rows: Sequence[ScaleRow]) -> list[str]:
    """Where each stops scaling, and what binds there; how far the simulation of recorded runs was off."""
    said = []
    for what, unit in (("tuning", "workers"), ("product", "devices")):
        mine = [row for row in rows if row.what == what and row.efficiency is not None]
        poor = next((row for row in mine if (row.efficiency or 0.0) < 0.5), None)
        if poor is not None:
            said.append(f"{what}: less than half of the ideal from {poor.count} {unit} on; what binds there: {poor.binds}")
        elif mine:
            said.append(f"{what}: {percent(mine[-1].efficiency)} of the ideal on {mine[-1].count} {unit}")
    off = [row.seconds / row.measured - 1 for row in rows if row.measured]
    if off:
        said.append(f"recorded runs: simulated {100 * median(off):+.0f} % beside what they took (median of {len(off)})")
    return said


def _sample(devices: tuple[object, ...]) -> Asked:
    return Asked((), ScaleOptions(trials=500))


STUDY = Study(
    name="scale",
    answers=("D4.6",),
    question="How far do tuning over a fleet and a product over several devices scale, and what binds then?",
    minutes=0.2,
    timed="nothing: measured times are put together in simulated time.",
    row=ScaleRow,
    key=("what", "count"),
    columns=(
        Column("what", "what"),
        Column("workers or devices", "count"),
        Column("simulated", "seconds", "s"),
        Column("measured", "measured", "s"),
        Column("speed-up", "speedup"),
        Column("of the ideal", "efficiency", "%"),
        Column("what binds", "binds"),
        Column("busy", "busy", "%"),
    ),
    measure=measure,
    figures=figures,
    options=ScaleOptions,
    finish=finish,
    notes=notes,
    devices="none",
    sample=_sample,
)
