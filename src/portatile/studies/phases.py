"""How long does each phase of one run take, from finding the platform to the result on the host, with empty and with filled caches?

Du et al., figure 3 (TRSM with M = 10240 and 128 right-hand sides) and their binary cache. Each run has a process of its own. The first
finds all caches empty, ours and the drivers'; the second, ``cached``, finds what the first left.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.figures.bars import BarChart
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.measure.phases import PHASES
from portatile.measure.process_phases import ProcessRun, in_a_process
from portatile.records import Problem
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now
from portatile.workloads.speeds import described

_FULL_SIZE, _FULL_SIDES = 10240, 128
_FIELDS = {name: name.replace(" ", "_") for name in PHASES}


@dataclass(frozen=True)
class PhasesRow:
    """One run: seconds of each phase by the host's clock, and their sum. ``best`` is the kernel's fastest run, of ``samples``.

    If it did not run, all are None and ``status`` says why.
    """

    device: str
    name: str
    driver: str
    workload: str
    problem: str
    dtype: str
    caches: str
    platform: float | None = None
    context: float | None = None
    queue: float | None = None
    build: float | None = None
    extract: float | None = None
    allocate: float | None = None
    transfer_in: float | None = None
    kernel: float | None = None
    transfer_out: float | None = None
    total: float | None = None
    best: float | None = None
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class PhasesOptions:
    """Without a workload on the command line TRSM and a product are run, of ``size`` unknowns and ``sides`` right-hand sides."""

    size: int = option(512, Option("Rows of TRSM's matrix, and all sizes of the product.", least=1))
    sides: int = option(64, Option("Right-hand sides of TRSM.", least=1))
    dtype: str = option("float64", Option("Element type of both.", choices=("float32", "float64")))
    full: bool = option(False, f"The size of the paper: TRSM with {_FULL_SIZE} rows and {_FULL_SIDES} right-hand sides.")
    repeat: int = option(3, Option("Runs of the kernel after the first.", least=0))


def problems(options: PhasesOptions) -> list[Problem]:
    """The problems to run where none is named."""
    size, sides = (_FULL_SIZE, _FULL_SIDES) if options.full else (options.size, options.sides)
    product = min(size, 4096)
    return [
        workloads.get("triangular").problem({"m": size, "n": sides}, options.dtype),
        workloads.get("gemm").problem({"m": product, "n": product, "k": product}, options.dtype),
    ]


def measure(run: Run) -> Iterator[PhasesRow]:
    """Every problem on every device, first with empty caches, then with what that left in them."""
    options: PhasesOptions = run.options
    chosen = [run.problem] if run.problem is not None else problems(options)
    run.expect(2 * len(chosen) * len(run.devices))
    for device in run.devices:
        for problem in chosen:
            rows = [_blank(device, problem, caches) for caches in ("empty", "cached")]
            if all(run.known(row) for row in rows):
                continue
            with tempfile.TemporaryDirectory(prefix="portatile-") as folder:
                for row in rows:  # if only the second is missing the first has to fill the caches again
                    yield _measured(row, ProcessRun(problem, device.info.id, options.repeat), Path(folder))


def _blank(device: Device, problem: Problem, caches: str) -> PhasesRow:
    info = device.info
    return PhasesRow(info.id, info.name, info.driver, problem.workload, described(problem), problem.dtype, caches)


def _measured(row: PhasesRow, run: ProcessRun, caches: Path) -> PhasesRow:
    try:
        done = in_a_process(run, caches)
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())
    phases: dict[str, Any] = {field: done.seconds[name] for name, field in _FIELDS.items()}
    runs = (done.seconds["kernel"], *done.again)
    return replace(row, **phases, total=done.total, best=min(runs), error=done.error, samples=len(runs), time=now())


def figures(rows: Sequence[PhasesRow]) -> list[Figure]:
    """A stacked bar for each run."""
    valid = [row for row in rows if row.total is not None]
    if not valid:
        return []
    groups = tuple(f"{row.workload} {row.problem}, {row.device} {row.caches}" for row in valid)
    values = tuple(tuple(getattr(row, field) for field in _FIELDS.values()) for row in valid)
    caption = "Seconds of each phase of one run in a new process, by the host's clock: with all caches empty, then with what that run left."
    return [BarChart("Where the time of a run goes", caption, "time", "s", groups, PHASES, values, stacked=True)]


def notes(rows: Sequence[PhasesRow]) -> list[str]:
    """How much the cache of binaries saves of building and loading."""
    lines = []
    cold = {(row.device, row.workload, row.problem): row for row in rows if row.caches == "empty"}
    for row in rows:
        first = cold.get((row.device, row.workload, row.problem))
        if row.caches != "cached" or first is None or not (first.build and row.build and first.extract and row.extract):
            continue
        before, after = first.build + first.extract, row.build + row.extract
        lines.append(
            f"{row.workload} on {row.device}: {duration(before)} to build and load, {duration(after)} from the cache: "
            f"{before / after:.3g} times"
        )
    return lines


def answer(rows: Sequence[PhasesRow]) -> str:
    """The share of building in the first run, and the time of a run with filled caches."""
    parts = []
    for row in (row for row in rows if row.caches == "empty" and row.total and row.build):
        took, share = row.total or 0.0, (row.build or 0.0) / (row.total or 1.0)
        text = f"{row.workload} on {row.device}: {duration(took)} with empty caches, {percent(share)} of it for building"
        after = next((other.total for other in rows if _run_of(other) == _run_of(row) and other.caches == "cached" and other.total), None)
        parts.append(text if after is None else f"{text}; {duration(after)} with filled caches")
    return ". ".join(parts)


def _run_of(row: PhasesRow) -> tuple[str, str, str]:
    return row.device, row.workload, row.problem


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, PhasesOptions(full=all(device.info.kind == "gpu" for device in devices)))


STUDY = Study(
    name="phases",
    answers=("D1.2", "D1.3"),
    question="How long does each phase of one run take, with empty and with filled caches?",
    minutes=1.0,
    timed="each phase of one run in a new process, by the host's clock; the kernel's is the first run's. Not timed: Python's start and "
    "imports, and making random operands.",
    row=PhasesRow,
    key=("device", "workload", "problem", "dtype", "caches"),
    columns=(
        Column("device", "device"),
        Column("workload", "workload"),
        Column("problem", "problem"),
        Column("caches", "caches"),
        *(Column(name, field, "s") for name, field in _FIELDS.items()),
        Column("all", "total", "s"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=PhasesOptions,
    notes=notes,
    problem="optional",
    sample=_sample,
)
