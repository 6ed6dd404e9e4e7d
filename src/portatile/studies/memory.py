"""How much time does local memory save? Products of square matrices from global memory and from tiles of several sizes, over the matrix
size.

Transue et al.: kernels of the workload ``matmul`` with 16 x 16 work-items and blocks of 2 to 16, and, on no device, the sequential
algorithm on the host. ``window`` is their measure:
allocating the buffers, the kernel, reading the result back; ``kernel`` is the best run alone. ``reduction`` is the share of the
global kernel's time, at its best block for the same size on the same device, that a kernel saves: negative where it is slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from platform import python_version

import numpy as np

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import DeviceError, PortatileError
from portatile.figures.bars import BarChart
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.measure import phases
from portatile.measure.phases import PhasesRequest, split
from portatile.measure.products import MatrixProduct
from portatile.records import Config, DeviceInfo, Problem
from portatile.studies.framework.study import LEFT_OUT, Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now
from portatile.workloads.matmul import BASE

KERNELS = ("host", "sequential", "global", "local")
_SEQUENTIAL_LIMIT = 2**21  # multiplications that one work-item does in a moment on any device
_HOST_LIMIT = 2**24  # ... and plain Python in two seconds


@dataclass(frozen=True)
class MemoryRow:
    """One product. If it did not run, seconds, ``gflops`` (of the kernel) and ``reduction`` are None and ``status`` says why.

    ``samples`` runs of the kernel were timed, and ended at ``time`` (UTC).
    """

    device: str
    name: str
    driver: str
    algorithm: str
    block: int
    size: int
    dtype: str
    allocate: float | None = None
    kernel: float | None = None
    read_back: float | None = None
    window: float | None = None
    gflops: float | None = None
    reduction: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class MemoryRequest:
    """The sizes of the matrices and the edges of the blocks to try; ``repeat`` runs of each kernel after the first."""

    sizes: tuple[int, ...] = option((128, 256, 512, 1024), "Rows and columns of the matrices.")
    blocks: tuple[int, ...] = option((2, 4, 8, 16), "Edges of work-group and tile.")
    dtype: str = option("float32", Option("Element type.", choices=("float32", "float64")))
    repeat: int = option(3, Option("Runs of each kernel after the first; fewer for slow kernels.", least=0))


def on_the_host(request: MemoryRequest) -> list[int]:
    """The sizes that are small enough for plain Python."""
    return [size for size in request.sizes if size**3 <= _HOST_LIMIT]


def points(request: MemoryRequest) -> list[tuple[int, Config]]:
    """Every size with every kernel, large blocks first, which are fast; the sequential one only for small sizes."""
    listed: list[tuple[int, Config]] = []
    blocks = sorted(request.blocks, reverse=True)
    for size in sorted(request.sizes):
        listed += [(size, {**BASE, "ALGORITHM": algorithm, "BLOCK": block}) for block in blocks for algorithm in ("global", "local")]
        if size**3 <= _SEQUENTIAL_LIMIT:
            listed.append((size, {**BASE, "ALGORITHM": "sequential", "BLOCK": 2}))
    return listed


def measure(run: Run) -> Iterator[MemoryRow]:
    """Every product on every device and on the host, each checked; what takes longer than there is time is left out."""
    request: MemoryRequest = run.options
    run.expect(len(on_the_host(request)) + len(run.devices) * len(points(request)))
    matmul, timed = workloads.get("matmul"), TimedProducts(run, request.repeat)
    for size, config in points(request):
        problem = matmul.problem(dict.fromkeys("mnk", size), request.dtype)
        for device in run.devices:
            if not run.known(_blank(device.info, problem, config)):
                yield timed.product(device, problem, config)
    yield from _sequential(run, request)


def finish(rows: Sequence[MemoryRow]) -> list[MemoryRow]:
    """What each kernel saves of the global one's time; in order of the devices, sizes and kernels."""
    best: dict[tuple[str, int], float] = {}
    for row in rows:
        if row.kernel and row.algorithm == "global":
            best[row.device, row.size] = min(row.kernel, best.get((row.device, row.size), row.kernel))

    def with_reduction(row: MemoryRow) -> MemoryRow:
        known = best.get((row.device, row.size))
        return replace(row, reduction=1 - row.kernel / known) if row.kernel and known else row

    devices = list(dict.fromkeys(("host", *(row.device for row in rows))))
    ordered = sorted(rows, key=lambda row: (devices.index(row.device), row.size, KERNELS.index(row.algorithm), row.block))
    return [with_reduction(row) for row in ordered]


def _sequential(run: Run, request: MemoryRequest) -> Iterator[MemoryRow]:
    """Three loops of plain Python, run once, without transfers."""
    python = f"Python {python_version()}"
    for size in on_the_host(request):
        row = MemoryRow("host", python, python, "host", 1, size, request.dtype, samples=1)
        if run.known(row):
            continue
        product = MatrixProduct("host", None, dict.fromkeys("mnk", size), None, request.dtype)
        seconds, matrices = product.on_the_host(seed=0)
        a, b, c = (matrices[name].astype(np.float64) for name in "abc")
        if np.any(np.abs(c - a @ b) > size * np.finfo(request.dtype).eps * (np.abs(a) @ np.abs(b))):
            raise DeviceError(f"plain Python multiplied {size} x {size} matrices wrongly")
        took = product.flops / seconds / 1e9
        yield replace(row, allocate=0.0, kernel=seconds, read_back=0.0, window=seconds, gflops=took, time=now())


class TimedProducts:
    """Measures products while the study's time lasts. How long one takes is extrapolated from a smaller one of the same kernel."""

    def __init__(self, run: Run, repeat: int) -> None:
        self._run, self._repeat = run, repeat
        self._known: dict[tuple[str, ...], float] = {}  # seconds of a multiplication, by device and kernel

    def product(self, device: Device, problem: Problem, config: Config) -> MemoryRow:
        """The row of the function ``product``, with the study's repetitions; one without times if it would take longer than is left."""
        kind, count = (device.info.id, str(config["ALGORITHM"]), str(config["BLOCK"])), prod(problem.sizes.values())
        once = self._known.get(kind, 0.0) * count
        expected = once + min(once * self._repeat, once + phases.ENOUGH)
        if not self._run.fits(expected):
            return replace(_blank(device.info, problem, config), status=f"{LEFT_OUT}: {duration(expected)} would be too long", time=now())
        row = product(device, problem, config, self._repeat)
        if row.kernel:
            self._known[kind] = row.kernel / count
        return row


def _blank(info: DeviceInfo, problem: Problem, config: Config) -> MemoryRow:
    columns = str(config["ALGORITHM"]), int(config["BLOCK"]), problem.sizes["m"], problem.dtype
    return MemoryRow(info.id, info.name, info.driver, *columns)


def product(device: Device, problem: Problem, config: Config, repeat: int) -> MemoryRow:
    """One product of ``matmul``, checked, with its phases; the kernel's time is the fastest of 1 + ``repeat`` runs."""
    matmul, info = workloads.get("matmul"), device.info
    row = _blank(info, problem, config)
    if why := matmul.space(problem, info).violated(config):
        return replace(row, status=why, time=now())
    try:
        done, _ = split(PhasesRequest(lambda _: (problem, config), info.id, repeat=repeat))
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())
    kernel = min((done.seconds["kernel"], *done.again))
    allocate, back = done.seconds["allocate"], done.seconds["transfer out"]
    gflops = matmul.flops(problem) / kernel / 1e9
    row = replace(row, allocate=allocate, kernel=kernel, read_back=back, window=allocate + kernel + back, gflops=gflops)
    return replace(row, samples=1 + len(done.again), time=now())


def figures(rows: Sequence[MemoryRow]) -> list[Figure]:
    """Times over the block at the largest size that all devices multiplied, and what local memory saves there on each device."""
    valid = [row for row in rows if row.kernel]
    largest = compared_sizes(valid)
    there = [row for row in valid if row.size == largest.get(row.device)]
    blocks = tuple(sorted({row.block for row in valid if row.algorithm in ("global", "local")}))
    curves = []
    for device, algorithm in dict.fromkeys((row.device, row.algorithm) for row in there if row.algorithm in ("global", "local")):
        points = tuple((float(row.block), row.kernel or 0.0) for row in there if (row.device, row.algorithm) == (device, algorithm))
        curves.append(Series(f"{device} {algorithm}", points))
    charts: list[Figure] = []
    if curves:
        caption = f"Kernel time over the edge of work-group and tile, {_size_of(largest)}."
        x, y = ChartAxis("edge of the block", log=True), ChartAxis("kernel time", "s", log=True)
        charts.append(LineChart("Time over the block", caption, x, y, tuple(curves), tuple(map(float, blocks))))
    saved = _saved(there)
    if saved:
        caption = f"The share of the global kernel's time that the local kernel saves, each at its best block, {_size_of(largest)}."
        values = tuple((share,) for share in saved.values())
        charts.append(BarChart("Time saved by local memory", caption, "time saved", "%", tuple(saved), ("saved",), values))
    return charts


def compared_sizes(rows: Sequence[MemoryRow]) -> dict[str, int]:
    """The size at which each device is compared: the largest that all of them multiplied with every block, else each one's largest."""
    tiled = [row for row in rows if row.kernel and row.algorithm in ("global", "local")]
    kernels = {(row.algorithm, row.block) for row in tiled}
    done: dict[str, dict[int, set[tuple[str, int]]]] = {}
    for row in tiled:
        done.setdefault(row.device, {}).setdefault(row.size, set()).add((row.algorithm, row.block))
    complete = [{size for size, met in sizes.items() if met == kernels} for sizes in done.values()]
    common = set.intersection(*complete) if complete else set()
    return {device: max(common or sizes) for device, sizes in done.items()}


def _size_of(sizes: Mapping[str, int]) -> str:
    """Where devices are compared, in words."""
    return f"at size {next(iter(sizes.values()))}" if len(set(sizes.values())) == 1 else "at the largest size of each device"


def _saved(rows: Sequence[MemoryRow]) -> dict[str, float]:
    """By device: the greatest reduction of its local kernels."""
    saved: dict[str, float] = {}
    for row in rows:
        if row.algorithm == "local" and row.reduction is not None:
            label = f"{row.name} ({row.device}), {row.size}"
            saved[label] = max(row.reduction, saved.get(label, row.reduction))
    return saved


def notes(rows: Sequence[MemoryRow]) -> list[str]:
    """What local memory saves, or costs, on each device where they are compared."""
    lines = []
    for device, largest in compared_sizes(rows).items():
        of_device = [row for row in rows if row.device == device and row.algorithm == "local" and row.reduction is not None]
        if any(row.size == largest for row in of_device):
            best = max((row for row in of_device if row.size == largest), key=lambda row: row.reduction or 0.0)
            share = best.reduction or 0.0
            what = f"saves {percent(share)} of the time" if share >= 0 else f"takes {percent(-share)} longer"
            lines.append(f"{device} at {largest}: local memory {what}, at its best block, {best.block}, beside global memory at its best")
    return lines


def answer(rows: Sequence[MemoryRow]) -> str:
    """How much time local memory saves on each device, and with which block."""
    parts: list[tuple[float, str]] = []
    for device, largest in compared_sizes(rows).items():
        there = [row for row in rows if (row.device, row.size, row.algorithm) == (device, largest, "local") and row.reduction is not None]
        best = max(there, key=lambda row: row.reduction or 0.0, default=None)
        if best is not None:
            parts.append((best.reduction or 0.0, f"on {device} (block {best.block}, size {largest})"))
    saved = [f"{percent(share)} of the time {where}" for share, where in parts if share >= 0]
    longer = [f"{percent(-share)} longer {where}" for share, where in parts if share < 0]
    clauses = [f"saves {', '.join(saved)}"] * bool(saved) + [f"takes {', '.join(longer)}"] * bool(longer)
    return f"Local memory {' and '.join(clauses)}" if clauses else ""


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, MemoryRequest(sizes=(64, 256, 512), repeat=2))


STUDY = Study(
    name="memory",
    answers=("D2.1", "D2.3", "D2.5", "D2.7"),
    question="How much time does local memory save in a matrix product, and with which block size?",
    minutes=1.0,
    timed="kernel: the fastest run, by the host's clock, without transfers; with buffers: allocating them, that run, reading C back.",
    row=MemoryRow,
    key=("device", "algorithm", "block", "size", "dtype"),
    columns=(
        Column("device", "device"),
        Column("kernel", "algorithm"),
        Column("size", "size"),
        Column("block", "block"),
        Column("kernel time", "kernel", "s"),
        Column("with buffers", "window", "s"),
        Column("Gflop/s", "gflops"),
        Column("saved", "reduction", "%"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=MemoryRequest,
    finish=finish,
    notes=notes,
    sample=_sample,
)
