"""How much faster does each optimisation make a matrix product? Nugteren's ten kernels are compared with libraries.

The tutorial measures on one GPU and shows that another one orders the rungs differently. Here every rung runs on every device whose rules
allow it; the others say which rule it is and where they would run. Beside the rungs stand the switches that the tutorial adds to its CUDA
kernel: the read-only path taken away, warps that exchange values, and how much of the memory next to a multiprocessor is local memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from portatile import device as devices
from portatile import flat_plans, select, verify, workloads
from portatile.device.base import Device
from portatile.device.target import CARVEOUT
from portatile.errors import PortatileError
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import percent
from portatile.measure import optimisations, runs
from portatile.measure.runs import MeasurementLength, PreparedRun
from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.store import known_results
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now
from portatile.workloads import matmul as ladder
from portatile.workloads.gemm import rungs
from portatile.workloads.operands import gamma

_LENGTH = MeasurementLength(samples=3, seconds=0.1)
_ON_GPUS, _ON_CPUS = 4096, 128
_WIDE = 7  # the rung on which the tutorial tries its switches
_HOST, _BEST = "host", "tuned"
_TITLES = {
    1: "naive: one element of C each, from global memory",
    2: "tiles in local memory",
    3: "more work per work-item",
    4: "wide data types",
    5: "transposed operand, rectangular tiles, padding",
    **rungs.TITLES,
}
_ELSEWHERE = ("sm_90", "sm_80", "gfx942", "gfx1100")  # data sheets that are asked where a rung would run


@dataclass(frozen=True)
class LadderRow:
    """One rung, one of its variants, or a library, whose ``rung`` is 0. If it did not run, times are None and ``status`` says why.

    ``of_library``: its speed over that of the device's library. ``runs_on``: architectures that allow a rung which this device forbids.
    """

    device: str
    name: str
    driver: str
    by: str
    rung: int
    variant: str
    title: str
    size: int
    dtype: str
    seconds: float | None = None
    gflops: float | None = None
    of_library: float | None = None
    error: float | None = None
    samples: int = 0
    status: str = "ok"
    runs_on: str = ""
    time: str = ""


@dataclass(frozen=True)
class LadderOptions:
    """Square products."""

    size: int = option(0, Option(f"Rows and columns of the matrices; default: {_ON_GPUS} on GPUs, {_ON_CPUS} on CPUs.", least=0))
    dtype: str = option("float32", Option("Element type.", choices=("float32", "float64")))
    carveouts: tuple[int, ...] = option((1, 50, 100), "Carve-outs (per cent of local memory) for rung 7, if supported.")


@dataclass(frozen=True)
class LadderPoint:
    """A configuration of a workload that is timed, with optimisations of the compiler taken away and options added."""

    row: LadderRow
    problem: Problem
    config: Config
    without: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def measure(run: Run) -> Iterator[LadderRow]:
    """Every rung on every device, then the libraries, then NumPy."""
    options: LadderOptions = run.options
    plans = [(device, points(device.info, options)) for device in run.devices]
    sizes = sorted({_size(device.info, options) for device in run.devices})
    run.expect(sum(len(planned) + 2 for _, planned in plans) + len(sizes))
    for device, planned in plans:
        for name in ("matmul", "gemm"):
            waiting = [point for point in planned if point.problem.workload == name and not run.known(point.row)]
            yield from _timed(device, waiting)
        for blank, measured in ((_blank(device.info, options, _BEST), _tuned), (_blank(device.info, options, "library"), _library)):
            if not run.known(blank):
                yield _guarded(lambda device=device, blank=blank, measured=measured: measured(device, blank), blank)  # type: ignore[misc]
    for size in sizes:
        blank = LadderRow(_HOST, f"NumPy {np.__version__}", f"NumPy {np.__version__}", "NumPy", 0, "", "", size, options.dtype)
        if not run.known(blank):
            yield _by_numpy(blank)


def points(info: DeviceInfo, options: LadderOptions) -> list[LadderPoint]:
    """The rungs and their variants on a device, legal or not."""
    size = _size(info, options)
    sizes = dict.fromkeys("mnk", size)
    problems = {name: workloads.get(name).problem(sizes, options.dtype) for name in ("matmul", "gemm")}
    listed = []
    for number in (*ladder.RUNGS, *rungs.TITLES):
        simple = number in ladder.RUNGS
        config: Config = dict(ladder.RUNGS[number]) if simple else rungs.rung(number, options.dtype)
        row = replace(_blank(info, options, f"rung {number}"), rung=number, title=_TITLES[number])
        listed.append(LadderPoint(row, problems["matmul" if simple else "gemm"], config))
    wide = next(point for point in listed if point.row.rung == _WIDE)
    if info.can.read_only_loads:
        listed.append(_variant(wide, "no read-only path", without=("read-only",)))
        listed.append(_variant(wide, "exchanged in a warp", changes={"SHUFFLE": True}))
    if info.can.carveout:
        listed += [_variant(wide, f"{share} % local memory", options=(f"{CARVEOUT}{share}",)) for share in options.carveouts]
    return listed


def _variant(
    of: LadderPoint, name: str, changes: Config | None = None, without: tuple[str, ...] = (), options: tuple[str, ...] = ()
) -> LadderPoint:
    row = replace(of.row, by=f"{of.row.by}, {name}", variant=name)
    return LadderPoint(row, of.problem, {**of.config, **(changes or {})}, without, options)


def _size(info: DeviceInfo, options: LadderOptions) -> int:
    return options.size or (_ON_CPUS if info.kind == "cpu" else _ON_GPUS)


def _blank(info: DeviceInfo, options: LadderOptions, by: str) -> LadderRow:
    return LadderRow(info.id, info.name, info.driver, by, 0, "", "", _size(info, options), options.dtype)


def _timed(device: Device, waiting: Sequence[LadderPoint]) -> Iterator[LadderRow]:
    """Points of one problem."""
    if not waiting:
        return
    problem, info = waiting[0].problem, device.info
    space = workloads.get(problem.workload).space(problem, info)
    with runs.prepared(device, problem) as ready:
        for point in waiting:
            why = space.violated(point.config)
            if why is not None:
                yield replace(point.row, status=f"not legal here: {why}", runs_on=elsewhere(point), time=now())
            else:
                yield _guarded(lambda point=point: _run(ready, device, point), point.row)  # type: ignore[misc]


def elsewhere(point: LadderPoint) -> str:
    """The architectures, of a few, on which the rules allow it."""
    workload = workloads.get(point.problem.workload)
    sheets = [devices.datasheet(name) for name in _ELSEWHERE]
    return ", ".join(info.architecture for info in sheets if workload.space(point.problem, info).violated(point.config) is None)


def _guarded(measured: Callable[[], LadderRow], blank: LadderRow) -> LadderRow:
    """The row of a measurement; one that says why where it fails."""
    try:
        return replace(measured(), time=now())
    except PortatileError as failure:
        return replace(blank, status=str(failure).splitlines()[0], time=now())


def _run(ready: PreparedRun, device: Device, point: LadderPoint) -> LadderRow:
    workload, info = workloads.get(point.problem.workload), device.info
    config = workload.space(point.problem, info).complete(point.config)
    plan: Plan = flat_plans.flatten(workload.plan(point.problem, config, info), select.resolver(info, known_results()))
    if point.without:
        optimisations_used = [
            optimisation.name for optimisation in optimisations.offered(plan, info) if optimisation.name not in point.without
        ]
        plan = optimisations.built_with(plan, optimisations_used, info)
    plan = optimisations.with_options(plan, point.options)
    with runs.loaded_plan(device, plan) as executable:
        error = ready.check(executable, workload.bound(point.problem, config), label=point.row.by)
        samples = ready.samples(executable, _LENGTH)
    return _with_time(point.row, samples, error)


def _tuned(device: Device, blank: LadderRow) -> LadderRow:
    """The best that is known of the fast generator."""
    problem = workloads.get("gemm").problem(dict.fromkeys("mnk", blank.size), blank.dtype)
    done = runs.timed(device, problem, way=runs.MeasurementOptions(_LENGTH))
    return replace(_with_time(blank, done.samples, done.error), title="the best known configuration of gemm")


def _library(device: Device, blank: LadderRow) -> LadderRow:
    """The library for this kind of device, by the same clock, on the same operands."""
    problem = workloads.get("gemm").problem(dict.fromkeys("mnk", blank.size), blank.dtype)
    library = devices.backends()[device.info.backend].vendor_blas(device)
    row = replace(blank, title=f"{library.name} {library.version}")
    sizes = blank.size, blank.size, blank.size
    try:
        with runs.prepared(device, problem) as ready:
            operands = [ready.memory[name] for name in "abc"]

            def run() -> None:
                library.gemm(ready.queue, blank.dtype, sizes, operands)

            run()
            ready.queue.finish()
            result = np.empty_like(ready.inputs.operands["c"])
            ready.queue.download(result, ready.memory["c"])
            verdict = verify.compare(result, ready.expected["c"], gamma(blank.size + 2, blank.dtype), "c")
            if not verdict.ok:
                return replace(row, status=verdict.message)
            samples = runs.bursts(ready.queue, ready.clock, run, _LENGTH)
    finally:
        library.release()
    return _with_time(row, samples, verdict.error)


def _by_numpy(blank: LadderRow) -> LadderRow:
    """NumPy's BLAS on the host."""
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (blank.size, blank.size)).astype(blank.dtype) for _ in range(2))
    c = np.empty_like(a)
    np.matmul(a, b, out=c)
    samples = runs.timed_on_host(partial(np.matmul, a, b, out=c), _LENGTH)
    blas: Any = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return replace(_with_time(blank, samples, None), title=f"NumPy with {blas['name']}", time=now())


def _with_time(row: LadderRow, samples: Sequence[float], error: float | None) -> LadderRow:
    best = float(np.median(samples))
    return replace(row, seconds=best, gflops=2.0 * row.size**3 / best / 1e9, samples=len(samples), error=error)


def finish(rows: Sequence[LadderRow]) -> list[LadderRow]:
    """The share of the library's speed on the same device, and the rows in the order of the ladder."""
    library = {row.device: row.seconds for row in rows if row.by == "library" and row.seconds}
    done = [replace(row, of_library=library[row.device] / row.seconds) if row.seconds and row.device in library else row for row in rows]
    places = list(dict.fromkeys(row.device for row in rows))
    return sorted(done, key=lambda row: (places.index(row.device), row.rung == 0, row.rung))


def figures(rows: Sequence[LadderRow]) -> list[Figure]:
    """Gflop/s of every rung, variant and library, a chart for each device, whose sizes may differ."""
    charts: list[Figure] = []
    host = [row for row in rows if row.device == _HOST]
    for place in dict.fromkeys(row.device for row in rows if row.device != _HOST):
        of_device = [row for row in rows if row.device == place and row.gflops]
        beside = [row for row in host if row.gflops and of_device and row.size == of_device[0].size]
        if of_device:
            caption = f"{of_device[0].size} x {of_device[0].size} matrices of {of_device[0].dtype}; NumPy runs on the host's processor."
            groups = tuple(map(_label, (*of_device, *beside)))
            values = tuple((row.gflops,) for row in (*of_device, *beside))
            charts.append(BarChart(f"The ladder on {of_device[0].name} ({place})", caption, "speed", "Gflop/s", groups, ("speed",), values))
    return charts


def _label(row: LadderRow) -> str:
    """A bar's name: what the rung does, in the words before the first comma or colon of its title."""
    if row.by == "library":
        return row.title.partition(" ")[0]
    return f"{row.rung}: {re.split('[,:]', row.title)[0]}" if row.rung and not row.variant else row.by


def notes(rows: Sequence[LadderRow]) -> list[str]:
    """What each rung is, where one that does not run here would, and the best rung of each device."""
    lines = [f"{row.by}: {row.title}" for row in {row.rung: row for row in rows if row.rung and not row.variant}.values()]
    for place in dict.fromkeys(row.device for row in rows if row.rung):
        best = max((row for row in rows if row.device == place and row.rung and row.gflops), key=lambda row: row.gflops or 0, default=None)
        others = [f"{row.by} {written(row.gflops or 0.0)}" for row in rows if row.device in (place, "host") and not row.rung and row.gflops]
        beside = f" (beside: {', '.join(others)})" if others else ""
        lines += [] if best is None else [f"{place}: of the rungs the best is {best.by}, {written(best.gflops or 0.0)} Gflop/s{beside}"]
    ran = {row.by for row in rows if row.seconds}
    for row in rows:
        if row.runs_on or (row.rung and row.status != "ok"):
            where = f"; runs on {row.runs_on}" if row.runs_on else ""
            here = ", and here on another device" if row.by in ran else ""
            lines.append(f"{row.by} on {row.device}: {row.status}{where}{here}")
    return lines


def answer(rows: Sequence[LadderRow]) -> str:
    """The best rung of each device, over the first one and beside its library."""
    parts = []
    for place in dict.fromkeys(row.device for row in rows if row.rung):
        rungs = [row for row in rows if row.device == place and row.rung and row.gflops]
        best, first = max(rungs, key=lambda row: row.gflops or 0.0, default=None), next((row for row in rungs if row.rung == 1), None)
        if best is None:
            continue
        times = (best.gflops or 0.0) / (first.gflops or 1.0) if first is not None and best.rung > 1 else None
        over = "" if times is None else f", {times:.3g} times the first"
        beside = f", {percent(best.of_library)} of the library" if best.of_library else ""
        parts.append(f"{place}: {best.by}, {written(best.gflops or 0.0)} Gflop/s{over}{beside}")
    return ". ".join(parts)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, LadderOptions())


STUDY = Study(
    name="ladder",
    answers=("D5.2", "D5.3"),
    question="How much faster does each optimisation make a matrix product?",
    minutes=1.5,
    timed="kernels alone, back to back by the device's clock, packing and transposing ones too; no transfers, no compilation; NumPy by "
    "the host's clock.",
    row=LadderRow,
    key=("device", "by", "size", "dtype"),
    columns=(
        Column("device", "device"),
        Column("by", "by"),
        Column("size", "size"),
        Column("time", "seconds", "s"),
        Column("Gflop/s", "gflops"),
        Column("of the library", "of_library", "%"),
        Column("error", "error"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=LadderOptions,
    finish=finish,
    notes=notes,
    devices="all",
    sample=_sample,
)
