"""How long do whole programs take on each device and back end, compilation included, and how much does relaxed mathematics save?

Komatsu et al.: bandwidthTest, matrixMul, CP, MRI-Q and MRI-FHD, from one text through OpenCL and CUDA. Every run has a process of its
own that finds all caches empty, ours and the drivers', so that its total holds the compilation; then the kernel runs a few more times.
``over_back_end`` compares the totals of the back ends of one piece of hardware, ``over_cpu`` the kernels of all devices.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import PortatileError, UnknownNameError
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import spelled
from portatile.measure.process_phases import ProcessRun, in_a_process
from portatile.records import Config, Problem
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.studies.work_group import ON_CPUS, RELAXED, parboil, usual_problem, usual_scale
from portatile.trials import now
from portatile.workloads.matmul import BASE

PROGRAMS = ("bandwidthTest", "matrixMul", "CP", "MRI-Q", "MRI-FHD")
_PARTS = (
    ("start", ("platform", "context", "queue")),
    ("compile", ("build", "extract")),
    ("buffers", ("allocate", "transfer in", "transfer out")),
    ("kernel", ("kernel",)),
)
_SIDE, _ELEMENTS = 1024, 1 << 25  # the sizes of matrixMul and of bandwidthTest's arrays


@dataclass(frozen=True)
class ProgramRow:
    """One program, from a new process to the result on the host. Seconds are by the host's clock; if it did not run, they are None and
    ``status`` says why.

    ``start``: platform, context and queue; ``compile``: building and loading; ``buffers``: allocation and transfers; ``kernel``: the first
    run; ``total``: all of them. ``best``: the kernel's fastest run. ``over_back_end``: the total over that of the fastest back end of the
    same hardware with the same option; ``over_cpu``: the speed-up of the kernel over the CPU.
    """

    device: str
    name: str
    backend: str
    hardware: str
    kind: str
    program: str
    problem: str
    relaxed: bool
    start: float | None = None
    compile: float | None = None
    buffers: float | None = None
    kernel: float | None = None
    total: float | None = None
    best: float | None = None
    over_back_end: float | None = None
    over_cpu: float | None = None
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""

    @property
    def way(self) -> str:
        """Device and option, for a legend."""
        return f"{self.device}, relaxed" if self.relaxed else self.device


@dataclass(frozen=True)
class ProgramOptions:
    """Which programs, how large and how often."""

    programs: tuple[str, ...] = option((), Option(f"Some of {', '.join(PROGRAMS)}; repeat or separate by commas; default: all."))
    scale: int = option(0, Option(f"Divisor of the papers' sizes; default: 1 on GPUs, {ON_CPUS} if a CPU takes part.", least=0))
    repeat: int = option(3, Option("Runs of the kernel after the first.", least=1))
    plain: bool = option(False, f"Do not measure with {RELAXED}.")


@dataclass(frozen=True)
class Program:
    """A program's problem and the documents' form of its kernel; None for the best known."""

    problem: Problem
    config: Config | None = None


def program(name: str, scale: int) -> Program:
    """matrixMul has tiles of 16 x 16, CP and MRI Parboil's forms, bandwidthTest copies arrays of float32."""
    if name == "bandwidthTest":
        return Program(workloads.get("stream").problem({"n": max(_ELEMENTS // scale, 1024)}, "float32", {"operation": "copy"}))
    if name == "matrixMul":
        side = max(_SIDE // max(round(scale ** (1 / 3)), 1), 64)
        return Program(workloads.get("matmul").problem({"m": side, "n": side, "k": side}), {**BASE, "ALGORITHM": "local", "BLOCK": 16})
    if name == "CP":
        return Program(usual_problem("coulomb", scale), parboil("coulomb"))
    return Program(usual_problem("mri", scale, name.removeprefix("MRI-").lower()), parboil("mri"))


def chosen(names: Sequence[str]) -> list[str]:
    """The programs that are named, in any case; all where none is. Raises UnknownNameError for a name that is none of them."""
    known = {name.lower(): name for name in PROGRAMS}
    words = [word.strip() for text in names for word in text.split(",")]
    for word in words:
        if word.lower() not in known:
            raise UnknownNameError("program", word, PROGRAMS)
    return [name for name in PROGRAMS if not words or name.lower() in {word.lower() for word in words}]


def measure(run: Run) -> Iterator[ProgramRow]:
    """Every program on every device, with and without relaxed mathematics."""
    request: ProgramOptions = run.options
    names = chosen(request.programs)
    options = (False,) if request.plain else (False, True)
    run.expect(len(names) * len(options) * len(run.devices))
    scale = request.scale or usual_scale([device.info for device in run.devices])
    for name in names:
        chosen_program = program(name, scale)
        for device in run.devices:
            for relaxed in options:
                row = _blank(device, name, chosen_program.problem, relaxed)
                if not run.known(row):
                    yield _measured(row, chosen_program, request.repeat)


def _blank(device: Device, name: str, problem: Problem, relaxed: bool) -> ProgramRow:
    info = device.info
    return ProgramRow(info.id, info.name, info.backend, info.physical_id or info.name, info.kind, name, spelled(problem.sizes), relaxed)


def _measured(row: ProgramRow, chosen_program: Program, repeat: int) -> ProgramRow:
    options = (RELAXED,) if row.relaxed else ()
    with tempfile.TemporaryDirectory(prefix="portatile-") as folder:
        try:
            done = in_a_process(
                ProcessRun(chosen_program.problem, row.device, repeat, chosen_program.config, options, not row.relaxed), Path(folder)
            )
        except PortatileError as error:
            return replace(row, status=str(error).splitlines()[0], time=now())
    parts: dict[str, Any] = {part: sum(done.seconds[phase] for phase in phases) for part, phases in _PARTS}
    runs = (done.seconds["kernel"], *done.again)
    return replace(row, **parts, total=done.total, best=min(runs), error=done.error, samples=len(runs), time=now())


def finish(rows: Sequence[ProgramRow]) -> list[ProgramRow]:
    """Beside the quickest back end of the same hardware, and beside the first processor."""
    totals: dict[tuple[str, str, bool], list[float]] = {}
    for row in rows:
        if row.total:
            totals.setdefault((row.hardware, row.program, row.relaxed), []).append(row.total)
    processor = next((row.device for row in rows if row.kind == "cpu"), None)
    cpu = {(row.program, row.relaxed): row.best for row in rows if row.device == processor and row.best}

    def whole(row: ProgramRow) -> ProgramRow:
        mine = totals.get((row.hardware, row.program, row.relaxed), [])
        slow = cpu.get((row.program, row.relaxed)) if row.device != processor else None
        over = row.total / min(mine) if len(mine) > 1 and row.total else None
        return replace(row, over_back_end=over, over_cpu=slow / row.best if slow and row.best else None)

    return [whole(row) for row in rows]


def figures(rows: Sequence[ProgramRow]) -> list[Figure]:
    """Where the total goes; what the option gives each kernel; GPUs over the processor."""
    valid = [row for row in rows if row.total is not None]
    if not valid:
        return []
    plain = [row for row in valid if not row.relaxed]
    charts: list[Figure] = []
    if plain:
        groups = tuple(f"{row.program}, {row.device}" for row in plain)
        values = tuple(tuple(getattr(row, part) for part, _ in _PARTS) for row in plain)
        caption = "Seconds of a whole run in a new process with empty caches, so that it compiles: without compiler options."
        charts.append(
            BarChart("Total time with compilation", caption, "time", "s", groups, tuple(p for p, _ in _PARTS), values, stacked=True)
        )
    charts.append(_relative(valid))
    charts += _over_cpu(valid)
    return charts


def _relative(rows: Sequence[ProgramRow]) -> Figure:
    best = {name: min(row.best for row in rows if row.program == name and row.best) for name in {row.program for row in rows}}
    speeds = {(row.program, row.way): best[row.program] / row.best for row in rows if row.best}
    caption = f"Speed of the kernel alone, 100 % the fastest of each program; relaxed: with {RELAXED}."
    return _bars("Kernels side by side", caption, "of the fastest", "%", speeds, rows)


def _over_cpu(rows: Sequence[ProgramRow]) -> list[Figure]:
    ratios = {(row.program, row.way): row.over_cpu for row in rows if row.over_cpu}
    if not ratios:
        return []
    processor = next(row.name for row in rows if row.kind == "cpu")
    caption = f"The kernel's speed over that on {processor} with the same compiler option."
    return [_bars("Over the processor", caption, "times as fast as the processor", "", ratios, [row for row in rows if row.over_cpu])]


def _bars(title: str, text: str, quantity: str, unit: str, values: dict[tuple[str, str], float], rows: Sequence[ProgramRow]) -> BarChart:
    groups, series = (tuple(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("program", "way"))
    return BarChart(title, text, quantity, unit, groups, series, tuple(tuple(values.get((g, s)) for s in series) for g in groups))


def notes(rows: Sequence[ProgramRow]) -> list[str]:
    """What relaxed mathematics gives and costs, and the two back ends beside each other."""
    lines = []
    strict = {(row.device, row.program): row for row in rows if not row.relaxed and row.best}
    for row in rows:
        before = strict.get((row.device, row.program))
        if row.relaxed and row.best and before is not None and before.best:
            error = f"{row.error:.2g}" if row.error is not None else "unknown"
            lines.append(f"{row.program} on {row.device}: {before.best / row.best:.2f} times as fast relaxed; error {error} of its bound")
    for row in rows:
        if row.over_back_end and row.over_back_end > 1 and not row.relaxed:
            lines.append(
                f"{row.program} on {row.device}: the whole run takes {row.over_back_end:.2f} times as long as by the other back end"
            )
    return lines


def answer(rows: Sequence[ProgramRow]) -> str:
    """How much longer whole runs take by the slower back end, and how much faster than on the CPU the kernels are."""
    slower = [row for row in rows if row.over_back_end and row.over_back_end > 1 and not row.relaxed]
    over = [f"{row.program} {row.over_back_end:.2f} ({row.device})" for row in slower]
    text = f"Whole runs take longer than by the faster back end, by the factor: {', '.join(over)}" if over else ""
    best: dict[str, float] = {}
    for row in rows:
        if row.over_cpu and row.kind != "cpu":
            best[row.program] = max(row.over_cpu, best.get(row.program, 0.0))
    faster = (
        f"Kernels are faster than on the CPU, by the factor: {', '.join(f'{name} {written(factor)}' for name, factor in best.items())}"
        if best
        else ""
    )
    return ". ".join(filter(None, (text, faster)))


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, ProgramOptions())


STUDY = Study(
    name="programs",
    answers=("D3.1", "D3.4"),
    question="How long do whole programs take on each device, compilation included, and how much does relaxed mathematics save?",
    minutes=1.5,
    timed="a whole run in a new process with empty caches, by the host's clock: start, compilation, buffers and transfers, the kernel's "
    "first run; then the kernel alone, its fastest run. Not timed: Python's start and imports, and making random operands.",
    row=ProgramRow,
    key=("device", "program", "problem", "relaxed"),
    columns=(
        Column("program", "program"),
        Column("device", "device"),
        Column("relaxed", "relaxed"),
        Column("start", "start", "s"),
        Column("compile", "compile", "s"),
        Column("buffers", "buffers", "s"),
        Column("total", "total", "s"),
        Column("kernel", "best", "s"),
        Column("over the best back end", "over_back_end"),
        Column("over the processor", "over_cpu"),
        Column("error", "error"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=ProgramOptions,
    finish=finish,
    notes=notes,
    devices="all",
    sample=_sample,
)
