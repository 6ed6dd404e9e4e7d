"""How fast are BigDFT's filters: along one axis and in a volume, for each boundary, on every device, and over one processor core?

Videau: the magic filter (16 taps) and its transpose, wavelet analysis and synthesis, the kinetic operator (29 taps), on periodic, free
and surface boundaries (periodic along two axes), in double precision. A pass filters one axis and transposes; three passes are a volume.
One core runs the same text; BigDFT's own point, work-groups of 16 x 16, stands beside the best known configuration.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from portatile import ceilings, workloads
from portatile.arguments.axes import Boundary
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import PortatileError, UnknownNameError
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.measure import runs
from portatile.measure.process_phases import ProcessRun, in_a_process
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.records import Problem, Value
from portatile.routines import convolve
from portatile.routines.convolve_volumes import SeparableFilter
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now

ONE_CORE = "one core"
BEST, POINT = "best known", "BigDFT's point"
_ROUNDS, _LEAST = 5, 0.02  # timings of a volume, and seconds of each at least


@dataclass(frozen=True)
class FilterKind:
    """A filter as the convolution takes it: the bank, its taps and the first's place."""

    bank: str
    taps: int
    lower: int

    def problem(self, boundary: str, side: int, dtype: str) -> Problem:
        """One axis of a volume with ``side`` points along each; a bank's n are all its points."""
        options: dict[str, Value] = {"boundary": boundary, "bank": self.bank, "taps": self.taps, "lower": self.lower}
        return workloads.get("convolution").problem({"n": side, "ndat": side * side}, dtype, options)


FILTERS = {
    "magicfilter": FilterKind("single", 16, -8),
    "magicfilter transposed": FilterKind("single", 16, -7),
    "analysis": FilterKind("analysis", 16, -7),
    "synthesis": FilterKind("synthesis", 16, -7),
    "kinetic": FilterKind("single", 29, -14),
}
BOUNDARIES: dict[str, tuple[Boundary, ...]] = {
    "periodic": ("periodic",) * 3,
    "free": ("grow",) * 3,
    "surface": ("periodic", "grow", "periodic"),
}


@dataclass(frozen=True)
class FilterRow:
    """One filter on one device. ``axis`` and ``volume`` are seconds of one pass and of three; if they did not run, they are None and
    ``status`` says why.

    ``gflops``: of one pass, counting the filter's own sums; ``over_core``: its speed-up over one core. ``volume`` is measured by the
    host's clock on arrays of the device. ``of_ceiling``: the share of its ceiling that the pass reaches. ``error`` in units of its bound.
    """

    device: str
    name: str
    filter: str
    boundary: str
    form: str
    side: int
    dtype: str
    axis: float | None = None
    gflops: float | None = None
    over_core: float | None = None
    ceiling: str = ""
    of_ceiling: float | None = None
    volume: float | None = None
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class FilterOptions:
    """Which filters and boundaries, and how large."""

    side: int = option(128, Option("Points along each axis.", least=32))
    dtype: str = option("float64", Option("Element type.", choices=("float32", "float64")))
    filters: tuple[str, ...] = option((), Option(f"Of {', '.join(FILTERS)}; repeat or separate by commas; default: all."))
    boundaries: tuple[str, ...] = option((), Option(f"Of {', '.join(BOUNDARIES)}; default: all."))
    no_core: bool = option(False, "Do not measure one processor core.")


def measure(run: Run) -> Iterator[FilterRow]:
    """Every device, then one core, each filter with each boundary; BigDFT's point for the magic filter on periodic boundaries."""
    options: FilterOptions = run.options
    names, boundaries = chosen(options.filters, FILTERS), chosen(options.boundaries, BOUNDARIES)
    processor = next((device for device in run.devices if device.info.kind == "cpu"), None)
    points = [(name, boundary, BEST) for name in names for boundary in boundaries]
    if "magicfilter" in names and "periodic" in boundaries:
        points.append(("magicfilter", "periodic", POINT))
    alone = processor is not None and not options.no_core
    run.expect(len(points) * len(run.devices) + alone * (len(points) - (points[-1][2] == POINT)))
    for name, boundary, form in points:
        for device in run.devices:
            row = FilterRow(device.info.id, device.info.name, name, boundary, form, options.side, options.dtype)
            if not run.known(row):
                yield _measured(row, device)
        if alone and processor is not None and form == BEST:
            row = FilterRow(ONE_CORE, processor.info.name, name, boundary, form, options.side, options.dtype)
            if not run.known(row):
                yield _of_one_core(row, processor)


def chosen(names: Sequence[str], known: Collection[str]) -> list[str]:
    """The names that are given, separated by commas too; all where none is. Raises UnknownNameError for another."""
    words = [word.strip() for text in names for word in text.split(",")]
    for word in words:
        if word not in known:
            raise UnknownNameError("name", word, known)
    return words or list(known)


def problem(row: FilterRow) -> Problem:
    """The first pass of a row's volume."""
    return FILTERS[row.filter].problem(BOUNDARIES[row.boundary][0], row.side, row.dtype)


def _of_one_core(row: FilterRow, processor: Device) -> FilterRow:
    of_row = problem(row)
    with tempfile.TemporaryDirectory(prefix="portatile-") as folder:
        try:
            done = in_a_process(ProcessRun(of_row, processor.info.id, one_core=True), Path(folder))
        except PortatileError as error:
            return replace(row, status=str(error).splitlines()[0], time=now())
    return _with_axis(row, of_row, (done.seconds["kernel"], *done.again), done.error)


def _measured(row: FilterRow, device: Device) -> FilterRow:
    of_row = problem(row)
    config = workloads.get("convolution").preset("bigdft", of_row) if row.form == POINT else None
    try:
        times = runs.timed(device, of_row, config, MeasurementOptions(MeasurementLength(samples=5, seconds=0.05)))
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())
    row = _with_axis(row, of_row, times.samples, times.error)
    binds = ceilings.binding(ceilings.load(device.info), ceilings.work_of(workloads.get("convolution"), of_row), times.best)
    row = row if binds is None else replace(row, ceiling=binds.name, of_ceiling=binds.share)
    if row.form == POINT:
        return row
    try:
        return replace(row, volume=_volume(row, device))
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0])


def _with_axis(row: FilterRow, of_row: Problem, samples: Sequence[float], error: float) -> FilterRow:
    rate = workloads.get("convolution").flops(of_row) / min(samples) / 1e9
    return replace(row, axis=min(samples), gflops=rate, error=error, samples=len(samples), time=now())


def _volume(row: FilterRow, device: Device) -> float:
    """Seconds of three passes over a volume that is in the device's memory, back to back."""
    kind = FILTERS[row.filter]
    rng = np.random.default_rng(0)
    rows = 1 if kind.bank == "single" else 2
    filters = rng.standard_normal((rows, kind.taps)).astype(row.dtype)
    psi = Buffer.from_numpy(rng.standard_normal((row.side,) * 3).astype(row.dtype), device)
    queue, boundary = device.default_queue(), BOUNDARIES[row.boundary]

    def several(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            convolve.passes3d(psi, SeparableFilter.of(filters, kind.lower, kind.bank, boundary), None)
        queue.finish()
        return (time.perf_counter() - began) / count

    several(1)
    count = max(1, round(_LEAST / max(several(1), 1e-6)))
    return min(several(count) for _ in range(_ROUNDS))


def finish(rows: Sequence[FilterRow]) -> list[FilterRow]:
    """Each beside one core."""
    core = {(row.filter, row.boundary): row.axis for row in rows if row.device == ONE_CORE and row.axis}

    def whole(row: FilterRow) -> FilterRow:
        slow = core.get((row.filter, row.boundary))
        return replace(row, over_core=slow / row.axis if slow and row.axis else None)

    return [whole(row) for row in rows]


def figures(rows: Sequence[FilterRow]) -> list[Figure]:
    """Speed of every filter along an axis, its speed-up over one core, and the time of a volume."""
    best = [row for row in rows if row.form == BEST]
    axes = [row for row in best if row.boundary != "surface"]  # along an axis it is periodic
    caption = "Each filter with each boundary, with the best configuration known."
    charts = [
        _bars("Speed of a pass along one axis", caption, ("speed", "Gflop/s"), {_place(row): row.gflops for row in axes}),
        _bars(
            "Over one processor core",
            "The same text on one core is 1.",
            ("times as fast", ""),
            {_place(row): row.over_core for row in axes},
        ),
        _bars("A volume", "Three passes over a cube, on arrays of the device.", ("time", "s"), {_place(row): row.volume for row in best}),
    ]
    return [figure for figure in charts if figure is not None]


def _place(row: FilterRow) -> tuple[str, str]:
    return f"{row.filter}, {row.boundary}", row.device


def _bars(title: str, text: str, axis: tuple[str, str], values: Mapping[tuple[str, str], float | None]) -> Figure | None:
    """Bars of what is known, a group for each filter and boundary; None if that is nothing but one core."""
    known = {place: value for place, value in values.items() if value is not None}
    if {device for _, device in known} <= {ONE_CORE}:
        return None
    groups, series = (tuple(dict.fromkeys(place[part] for place in known)) for part in (0, 1))
    return BarChart(title, text, *axis, groups, series, tuple(tuple(known.get((group, name)) for name in series) for group in groups))


def notes(rows: Sequence[FilterRow]) -> list[str]:
    """What tuning gives over BigDFT's own point."""
    best = {row.device: row.axis for row in rows if (row.filter, row.boundary, row.form) == ("magicfilter", "periodic", BEST) and row.axis}
    return [
        f"{row.device}: the best known configuration of the magic filter is {row.axis / best[row.device]:.2f} times as fast as {POINT}"
        for row in rows
        if row.form == POINT and row.axis and row.device in best
    ]


def answer(rows: Sequence[FilterRow]) -> str:
    """How many times as fast as one core the filters are on each device, from the least to the most."""
    parts = []
    for device in dict.fromkeys(row.device for row in rows if row.device != ONE_CORE):
        best = [row for row in rows if row.device == device and row.form == BEST and row.gflops]
        factors = [row.over_core for row in best if row.over_core]
        if factors:
            parts.append(f"{device} {_range(factors)} times one core")
        elif best:
            parts.append(f"{device} {_range([row.gflops or 0.0 for row in best])} Gflop/s")
    return f"Along an axis: {', '.join(parts)}" if parts else ""


def _range(values: Sequence[float]) -> str:
    """The least and the greatest value, or the one that both are."""
    least, greatest = written(min(values)), written(max(values))
    return least if least == greatest else f"{least} to {greatest}"


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, FilterOptions(side=128 if all(device.info.kind == "gpu" for device in devices) else 48))


STUDY = Study(
    name="filters",
    answers=("D4.1", "D4.3", "D4.5"),
    question="How fast are BigDFT's filters on each device, along an axis and in a volume, compared with one processor core?",
    minutes=1.5,
    timed="an axis: the kernel alone, back to back by the device's clock; of one core by the host's. A volume: three passes on arrays of "
    "the device, back to back by the host's clock. No transfers, no compilation.",
    row=FilterRow,
    key=("device", "filter", "boundary", "form", "side", "dtype"),
    columns=(
        Column("filter", "filter"),
        Column("boundary", "boundary"),
        Column("device", "device"),
        Column("form", "form"),
        Column("axis", "axis", "s"),
        Column("Gflop/s", "gflops"),
        Column("over one core", "over_core"),
        Column("of the ceiling", "of_ceiling", "%"),
        Column("", "ceiling"),
        Column("volume", "volume", "s"),
        Column("error", "error"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=FilterOptions,
    finish=finish,
    notes=notes,
    devices="all",
    sample=_sample,
)
