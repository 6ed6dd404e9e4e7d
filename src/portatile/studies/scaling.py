"""How does the speed of a matrix product depend on its size: by one compiled loop on a CPU, from global memory, and from local memory?

Transue et al.: their curves over the size, linear and logarithmic, of the kernel alone and with buffers (``window``: allocating them, the
kernel, reading the result back), and OpenCL beside CUDA. The bottom line is not Python but the kernel of one work-item, compiled for a
processor. Devices that are one piece of hardware, reached through several back ends, are compared by ``ratio``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from portatile import workloads
from portatile.device.base import Device
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.records import Config
from portatile.studies import memory
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.workloads.matmul import BASE


@dataclass(frozen=True)
class ScalingRow:
    """One product. If it did not run, seconds, ``gflops`` and ``ratio`` are None and ``status`` says why.

    ``language`` is what the device's compiler receives. ``ratio``: the kernel's time over the least time of the same kernel and size on
    the same hardware (``physical_id``), if several devices are the same hardware; 1 is the fastest.
    ``samples`` runs of the kernel ended at ``time`` (UTC).
    """

    device: str
    name: str
    driver: str
    kind: str
    language: str
    physical_id: str
    algorithm: str
    size: int
    dtype: str
    allocate: float | None = None
    kernel: float | None = None
    read_back: float | None = None
    window: float | None = None
    gflops: float | None = None
    ratio: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class ScalingOptions:
    """The sizes of the matrices; ``block`` is the edge of work-group and tile."""

    sizes: tuple[int, ...] = option((64, 128, 256, 512), "Rows and columns of the matrices; the paper goes up to 4096.")
    block: int = option(16, Option("Edge of work-group and tile.", least=1))
    dtype: str = option("float32", Option("Element type.", choices=("float32", "float64")))
    sequential: int = option(512, Option("The largest size for one work-item, on CPUs only.", least=0))
    repeat: int = option(3, Option("Runs of each kernel after the first; fewer for slow kernels.", least=0))


def points(device: Device, options: ScalingOptions) -> list[tuple[int, Config]]:
    """Sizes and kernels on a device: one work-item only on a processor, up to the size that the user allows."""
    listed: list[tuple[int, Config]] = []
    for size in options.sizes:
        if device.info.kind == "cpu" and size <= options.sequential:
            listed.append((size, {**BASE, "ALGORITHM": "sequential", "BLOCK": 2}))
        listed += [(size, {**BASE, "ALGORITHM": algorithm, "BLOCK": options.block}) for algorithm in ("global", "local")]
    return listed


def measure(run: Run) -> Iterator[ScalingRow]:
    """Every kernel on every device, the small sizes first, each checked; what takes longer than there is time is left out."""
    options: ScalingOptions = run.options
    run.expect(sum(len(points(device, options)) for device in run.devices))
    matmul, timed = workloads.get("matmul"), memory.TimedProducts(run, options.repeat)
    every = [(size, config, device) for device in run.devices for size, config in points(device, options)]
    for size, config, device in sorted(every, key=lambda point: (point[0], point[1]["ALGORITHM"] == "sequential")):
        info = device.info
        where = info.id, info.name, info.driver, info.kind, info.can.language, info.physical_id
        row = ScalingRow(*where, str(config["ALGORITHM"]), size, options.dtype)
        if run.known(row):
            continue
        times = timed.product(device, matmul.problem(dict.fromkeys("mnk", size), options.dtype), config)
        row = replace(row, allocate=times.allocate, kernel=times.kernel, read_back=times.read_back, window=times.window)
        yield replace(row, gflops=times.gflops, status=times.status, samples=times.samples, time=times.time)


def finish(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """The ratios between devices that are one piece of hardware; in order of the devices, sizes and kernels."""
    times: dict[tuple[str, str, int, str], dict[str, float]] = {}
    for row in rows:
        if row.kernel:
            times.setdefault(_same(row), {})[row.device] = row.kernel

    def with_ratio(row: ScalingRow) -> ScalingRow:
        there = times.get(_same(row), {})
        return replace(row, ratio=row.kernel / min(there.values())) if row.kernel and len(there) > 1 else row

    devices = list(dict.fromkeys(row.device for row in rows))
    ordered = sorted(rows, key=lambda row: (devices.index(row.device), row.size, memory.KERNELS.index(row.algorithm)))
    return [with_ratio(row) for row in ordered]


def _same(row: ScalingRow) -> tuple[str, str, int, str]:
    return row.physical_id, row.algorithm, row.size, row.dtype


def figures(rows: Sequence[ScalingRow]) -> list[Figure]:
    """Kernel time and time with buffers over the size, each with logarithmic and with linear axes; ratios where there are any."""
    charts: list[Figure] = []
    for title, of, caption in (
        ("Kernel time", lambda row: row.kernel, "The fastest run of the kernel alone, by the host's clock."),
        (
            "Time with buffers",
            lambda row: row.window,
            "Allocating the buffers, the kernel, reading the result back, by the host's clock.",
        ),
    ):
        for log in (True, False):
            how = "logarithmic" if log else "linear"
            charts += _curves(rows, of, f"{title} over the size, {how}", caption, ChartAxis("time", "s", log=log))
    caption = "A kernel's time over the least of the same kernel on the same hardware: 1 is the fastest back end."
    return charts + _curves(rows, lambda row: row.ratio, "Back ends of the same hardware", caption, ChartAxis("time over the least"))


def _curves(rows: Sequence[ScalingRow], of: Callable[[ScalingRow], float | None], title: str, caption: str, up: ChartAxis) -> list[Figure]:
    valid = [(row, value) for row in rows if (value := of(row)) is not None]
    curves = []
    for device, algorithm in dict.fromkeys((row.device, row.algorithm) for row, _ in valid):
        points = tuple((float(row.size), value) for row, value in valid if (row.device, row.algorithm) == (device, algorithm))
        curves.append(Series(f"{device} {algorithm}", points))
    if not curves:
        return []
    sizes = tuple(sorted({float(row.size) for row, _ in valid}))
    return [LineChart(title, caption, ChartAxis("size", log=up.log), up, tuple(curves), sizes)]


def notes(rows: Sequence[ScalingRow]) -> list[str]:
    """What local memory saves at the largest size, and how many times as fast as one work-item a device is there."""
    lines = []
    known = {(row.device, row.algorithm, row.size): row for row in rows if row.kernel}
    sequential = {row.size: row for row in rows if row.algorithm == "sequential" and row.kernel}
    for device in dict.fromkeys(row.device for row in rows):
        largest = max((size for place, _, size in known if place == device), default=None)
        local, plain = known.get((device, "local", largest or 0)), known.get((device, "global", largest or 0))
        if local is None or plain is None or not (local.kernel and plain.kernel):
            continue
        saved = 1 - local.kernel / plain.kernel
        worth = f"saves {percent(saved)} of the time" if saved >= 0 else f"takes {local.kernel / plain.kernel:.3g} times as long as global"
        text = f"{device} at {largest}: local memory {worth}"
        slowest = sequential.get(largest or 0)
        if slowest is not None and slowest.kernel:
            text += f"; {slowest.kernel / min(local.kernel, plain.kernel):.3g} times as fast as one work-item on {slowest.device}"
        lines.append(text)
    return lines


def answer(rows: Sequence[ScalingRow]) -> str:
    """The fastest at the largest size, and how many times as fast as one work-item of the processor where both were measured."""
    valid = [row for row in rows if row.kernel]
    if not valid:
        return ""
    largest = max(row.size for row in valid)
    best = min((row for row in valid if row.size == largest), key=lambda row: row.kernel or 0.0)
    how = "one work-item" if best.algorithm == "sequential" else f"{best.algorithm} memory"
    text = f"Fastest at {largest}: {how} on {best.device}, {duration(best.kernel or 0.0)}"
    slow = max((row for row in valid if row.algorithm == "sequential"), key=lambda row: row.size, default=None)
    if slow is None or slow is best:
        return text
    beside = (row for row in valid if row.size == slow.size and row.algorithm != "sequential")
    same = min(beside, key=lambda row: row.kernel or 0.0, default=None)
    if same is None:
        return text
    times = (slow.kernel or 0.0) / (same.kernel or 1.0)
    return f"{text}. At {slow.size} {same.device} is {written(times)} times as fast as one work-item on {slow.device}"


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(
        devices, ScalingOptions((64, 128, 256, 512, 1024, 2048) if any(d.info.kind == "gpu" for d in devices) else (64, 128, 256))
    )


STUDY = Study(
    name="scaling",
    answers=("D2.4", "D2.6", "D2.8"),
    question="How does the speed of sequential, global-memory and local-memory matrix products depend on their size?",
    minutes=2.0,
    timed="kernel: the fastest run, by the host's clock, without transfers; with buffers: allocating them, that run, reading C back.",
    row=ScalingRow,
    key=("device", "algorithm", "size", "dtype"),
    columns=(
        Column("device", "device"),
        Column("language", "language"),
        Column("kernel", "algorithm"),
        Column("size", "size"),
        Column("kernel time", "kernel", "s"),
        Column("with buffers", "window", "s"),
        Column("Gflop/s", "gflops"),
        Column("ratio", "ratio"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=ScalingOptions,
    finish=finish,
    notes=notes,
    devices="all",
    sample=_sample,
)
