"""How do images and unrolling affect matrix products with MAGMA's and Nakasato's blocking, through each back end?

Du et al., figures 4 and 5, and 8 to 10 without the bandwidth of the copies, which ``packing`` measures. ``reads``: the operands lie in
memory, are copied into images first, or are shown as images where they lie. A copy into an image is part of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from portatile import ceilings, workloads
from portatile.device.base import Device
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.records import Config, Problem, canonical
from portatile.studies.framework.measured_configs import Measuring, failure, measured
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import Trial
from portatile.workloads.speeds import described

BLOCKINGS = ("magma", "nakasato")
READS = ("memory", "images", "shown")
_READ = {"memory": "memory", "images": "images", "shown": "memory viewed as images"}


@dataclass(frozen=True)
class ImagesRow:
    """One product. If it did not run, seconds, ``gflops``, ``of_peak`` (relative to the device's measured multiply-adds) and ``error``
    are None and ``status`` says why. ``language`` is what the device's compiler receives; ``objection`` is the constraint that the
    configuration violates, although it is tried.
    """

    device: str
    name: str
    driver: str
    language: str
    physical_id: str
    blocking: str
    reads: str
    unrolled: bool
    dtype: str
    size: int
    seconds: float | None = None
    gflops: float | None = None
    of_peak: float | None = None
    error: float | None = None
    objection: str = ""
    status: str = "ok"
    samples: int = 0
    config: str = ""


@dataclass(frozen=True)
class ImagesOptions:
    """Products of ``size`` x ``size`` matrices."""

    size: int = option(256, Option("Rows and columns of the matrices; the paper goes up to 6144.", least=1))
    dtypes: tuple[str, ...] = option(("float32", "float64"), Option("float32 or float64; repeat. Default: both.", names=("--dtype",)))


Point = tuple[str, str, bool, Config]


def points(problem: Problem) -> Iterator[Point]:
    """Blocking, way of reading, whether the loop over a block of k is unrolled, and the configuration; the unrolled ones first."""
    gemm = workloads.get("gemm")
    for unrolled in (True, False):
        for blocking in BLOCKINGS:
            copied = gemm.preset(blocking, problem)
            ways: dict[str, Config] = {
                "memory": gemm.preset(f"{blocking}-plain", problem),
                "images": copied,
                "shown": {**copied, "VIEW_A": True, "VIEW_B": True},
            }
            for reads, config in ways.items():
                yield blocking, reads, unrolled, {**config, "UNROLL": config["KB"] if unrolled else 1}


def measure(run: Run) -> Iterator[ImagesRow]:
    """Every point on every device in each element type that it has; KeyboardInterrupt comes after the rows that there are."""
    options: ImagesOptions = run.options
    gemm = workloads.get("gemm")
    run.expect(len(run.devices) * len(options.dtypes) * (2 * len(BLOCKINGS) * len(READS) + 1))
    parts = [(device, dtype) for dtype in options.dtypes for device in run.devices if dtype != "float64" or device.info.fp64]
    for place, (device, dtype) in enumerate(parts):
        problem = gemm.problem(dict.fromkeys("mnk", options.size), dtype)
        chosen = list(points(problem))
        run.say(f"{described(problem)} {dtype} on {device.info.id}: {len(chosen)} products")
        how = Measuring(trials=run.trials, seconds=run.share(len(parts) - place), advance=run.advance)
        results = measured(problem, device.info.id, [point[-1] for point in chosen], how)
        yield from (_row(device, problem, point, results.trials.get(canonical(point[-1]))) for point in chosen)
        if results.interrupted:
            raise KeyboardInterrupt


def _row(device: Device, problem: Problem, point: Point, trial: Trial | None) -> ImagesRow:
    blocking, reads, unrolled, config = point
    gemm, info = workloads.get("gemm"), device.info
    row = ImagesRow(
        device=info.id,
        name=info.name,
        driver=info.driver,
        language=info.can.language,
        physical_id=info.physical_id,
        blocking=blocking,
        reads=reads,
        unrolled=unrolled,
        dtype=problem.dtype,
        size=problem.sizes["m"],
        objection=gemm.space(problem, info).violated(config) or "",
        status="not reached" if trial is None else "ok",
        config=canonical(config),
    )
    if trial is None or trial.status != "ok":
        return row if trial is None else replace(row, status=failure(trial))
    rate, known = gemm.flops(problem) / trial.median, ceilings.load(info)
    peak = known.flops(row.dtype) if known is not None else None
    row = replace(row, seconds=trial.median, gflops=rate / 1e9, of_peak=rate / peak if peak else None)
    return replace(row, error=trial.error, samples=len(trial.samples))


def figures(rows: Sequence[ImagesRow]) -> list[Figure]:
    """For each element type bars of Gflop/s: a group for each blocking and way of reading, a bar for each device, unrolled or not."""
    charts: list[Figure] = []
    for dtype in dict.fromkeys(row.dtype for row in rows):
        of_dtype = [row for row in rows if row.dtype == dtype]
        if not any(row.gflops for row in of_dtype):
            continue
        groups = tuple(dict.fromkeys((row.blocking, row.reads) for row in of_dtype))
        series = tuple(dict.fromkeys((row.device, row.unrolled) for row in of_dtype))
        known = {(row.blocking, row.reads, row.device, row.unrolled): row.gflops for row in of_dtype}
        values = tuple(tuple(known.get((*group, *name)) for name in series) for group in groups)
        names = tuple(f"{device} {'unrolled' if unrolled else 'not unrolled'}" for device, unrolled in series)
        caption = (
            f"Gflop/s of {of_dtype[0].size} x {of_dtype[0].size} products, with copies into images; a point that cannot run has no bar."
        )
        labels = tuple(f"{blocking}, {reads}" for blocking, reads in groups)
        charts.append(BarChart(f"Products by blocking and way of reading, {dtype}", caption, "speed", "Gflop/s", labels, names, values))
    return charts


def notes(rows: Sequence[ImagesRow]) -> list[str]:
    """For each device that several back ends reach: how the fastest of each compare."""
    lines = []
    for physical, dtype in dict.fromkeys((row.physical_id, row.dtype) for row in rows):
        valid = [row for row in rows if (row.physical_id, row.dtype) == (physical, dtype) and row.gflops]
        best = {row.device: row for row in sorted(valid, key=lambda row: row.gflops or 0.0)}
        if len(best) > 1:
            rates = [
                f"{written(row.gflops or 0.0)} through {device} ({row.language}; {row.blocking}, {row.reads}{', unrolled' * row.unrolled})"
                for device, row in best.items()
            ]
            lines.append(f"{next(iter(best.values())).name}, {dtype}: at best {', '.join(rates)} Gflop/s")
    return lines


def answer(rows: Sequence[ImagesRow]) -> str:
    """The fastest way for each element type, and how much images and unrolling contribute with the same blocking."""
    parts = []
    for dtype in dict.fromkeys(row.dtype for row in rows):
        there = [row for row in rows if row.dtype == dtype and row.gflops]
        valid = {(row.device, row.blocking, row.reads, row.unrolled): row.gflops or 0.0 for row in there}
        if not valid:
            continue
        device, blocking, reads, unrolled = best = max(valid, key=lambda way: valid[way])
        text = f"{dtype}: {written(valid[best])} Gflop/s by {blocking} on {device}, read from {_READ[reads]}{', unrolled' * unrolled}"
        memory, other = valid.get((device, blocking, "memory", unrolled)), valid.get((device, blocking, reads, not unrolled))
        factors = [f"{valid[best] / memory:.2f} times as fast as from memory"] if memory and reads != "memory" else []
        factors += [f"{valid[best] / other:.2f} times as fast as {'not ' * unrolled}unrolled"] if other else []
        parts.append(f"{text} ({', '.join(factors)})" if factors else text)
    return ". ".join(parts)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, ImagesOptions(size=2048 if all(device.info.kind == "gpu" for device in devices) else 128))


STUDY = Study(
    name="images",
    answers=("D1.4", "D1.5"),
    question="How do images and unrolling affect matrix products with MAGMA's and Nakasato's blocking?",
    minutes=2.0,
    timed="kernels back to back by the device's clock, with copies into images where there are; no transfers, no compilation.",
    row=ImagesRow,
    key=("device", "blocking", "reads", "unrolled", "dtype", "size"),
    columns=(
        Column("device", "device"),
        Column("language", "language"),
        Column("blocking", "blocking"),
        Column("reads", "reads"),
        Column("element", "dtype"),
        Column("unrolled", "unrolled"),
        Column("time", "seconds", "s"),
        Column("Gflop/s", "gflops"),
        Column("of peak", "of_peak", "%"),
        Column("error", "error"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=ImagesOptions,
    notes=notes,
    devices="all",
    sample=_sample,
    by_trials=True,
)
