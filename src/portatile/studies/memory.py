"""What is local memory worth? Products of square matrices from global memory and from tiles of several edges, over the size.

Transue et al.: kernels of the workload ``matmul`` with 16 x 16 work-items and blocks of 2 to 16, and, on no device, the sequential
algorithm on the host. ``window`` is their measure:
allocating the buffers, the kernel, reading the result back; ``kernel`` is the best run alone. ``reduction`` is the share of the
global kernel's time, at its best block for the same size on the same device, that a kernel saves: negative where it is slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from platform import python_version

import numpy as np

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import DeviceError, PortatileError
from portatile.measure.phases import Plea, split
from portatile.measure.products import Product
from portatile.records import Config
from portatile.workloads.matmul import BASE

_SEQUENTIAL_LIMIT = 2**21  # multiplications that one work-item does in a moment on any device
_HOST_LIMIT = 2**24  # ... and plain Python in two seconds


@dataclass(frozen=True)
class MemoryRow:
    """One product. Seconds, ``gflops`` (of the kernel) and ``reduction`` are None where it did not run: ``status`` says why.

    ``samples`` runs of the kernel were timed, and ended at ``time`` (UTC).
    """

    device: str
    name: str
    driver: str
    algorithm: str
    block: int
    size: int
    dtype: str
    allocate: float | None
    kernel: float | None
    read_back: float | None
    window: float | None
    gflops: float | None
    reduction: float | None
    status: str
    samples: int
    time: str


@dataclass(frozen=True)
class MemoryRequest:
    """The sizes of the matrices and the edges of the blocks to try; ``repeat`` runs of each kernel after the first."""

    sizes: tuple[int, ...] = (128, 256, 512, 1024)
    blocks: tuple[int, ...] = (2, 4, 8, 16)
    dtype: str = "float32"
    repeat: int = 3


def on_the_host(request: MemoryRequest) -> list[int]:
    """The sizes that are small enough for plain Python."""
    return [size for size in request.sizes if size**3 <= _HOST_LIMIT]


def points(request: MemoryRequest) -> list[tuple[int, Config]]:
    """Every size with every kernel; the sequential one only for small sizes."""
    found: list[tuple[int, Config]] = []
    for size in request.sizes:
        if size**3 <= _SEQUENTIAL_LIMIT:
            found.append((size, {**BASE, "ALGORITHM": "sequential", "BLOCK": 2}))
        found += [(size, {**BASE, "ALGORITHM": algorithm, "BLOCK": block}) for algorithm in ("global", "local") for block in request.blocks]
    return found


def sweep(devices: Sequence[Device], request: MemoryRequest, advance: Callable[[], None] = lambda: None) -> list[MemoryRow]:
    """Measure every product on the host and on every device, each checked; ``advance`` is called after each."""
    rows = list(_sequential(request, advance))
    for device in devices:
        measured = list(_measured(device, request, advance))
        for size in request.sizes:
            of_size = [row for row in measured if row.size == size]
            best = min((row.kernel for row in of_size if row.kernel and row.algorithm == "global"), default=None)
            rows += [replace(row, reduction=1 - row.kernel / best) if row.kernel and best else row for row in of_size]
    return rows


def _sequential(request: MemoryRequest, advance: Callable[[], None]) -> Iterator[MemoryRow]:
    """Three loops of plain Python, run once, without transfers."""
    for size in on_the_host(request):
        product = Product("host", None, dict.fromkeys("mnk", size), None, request.dtype)
        seconds, matrices = product.on_the_host(seed=0)
        a, b, c = (matrices[name].astype(np.float64) for name in "abc")
        if np.any(np.abs(c - a @ b) > size * np.finfo(request.dtype).eps * (np.abs(a) @ np.abs(b))):
            raise DeviceError(f"plain Python multiplied {size} x {size} matrices wrongly")
        python = f"Python {python_version()}"
        took = (0.0, seconds, 0.0, seconds, product.flops / seconds / 1e9, None)
        yield MemoryRow("host", python, python, "host", 1, size, request.dtype, *took, "ok", 1, _now())
        advance()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _measured(device: Device, request: MemoryRequest, advance: Callable[[], None]) -> Iterator[MemoryRow]:
    matmul, info = workloads.get("matmul"), device.info
    for size, config in points(request):
        problem = matmul.problem(dict.fromkeys("mnk", size), request.dtype)
        kind, block = str(config["ALGORITHM"]), int(config["BLOCK"])
        nothing = (None,) * 6
        row = MemoryRow(info.id, info.name, info.driver, kind, block, size, request.dtype, *nothing, "ok", 0, "")
        if why := matmul.space(problem, info).violated(config):
            yield replace(row, status=why, time=_now())
            advance()
            continue
        try:
            done, _ = split(Plea(lambda _, p=problem, c=config: (p, c), info.id, repeat=request.repeat))  # type: ignore[misc]
            kernel = min((done.seconds["kernel"], *done.again))
            allocate, back = done.seconds["allocate"], done.seconds["transfer out"]
            gflops = matmul.flops(problem) / kernel / 1e9
            row = replace(row, allocate=allocate, kernel=kernel, read_back=back, window=allocate + kernel + back, gflops=gflops)
            yield replace(row, samples=1 + len(done.again), time=_now())
        except PortatileError as error:
            yield replace(row, status=str(error).splitlines()[0], time=_now())
        advance()
