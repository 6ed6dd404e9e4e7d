"""Products by residues, compared with native ones and cuBLAS: bursts, sustained runs, errors, and the device time of each step.

Needs a device; on a CUDA device with PyTorch cuBLAS runs beside, and with `--opencl` the product by residues through the same GPU's
OpenCL. `fit_residues.py` fits the constants of the estimate to the times of steps. Errors are in eps of sum |a| |b|, of sampled rows and
columns against extended precision, largest and mean, of a product by residues and of portatile's native one. Rates count 2 m n k
operations, of complex numbers 8 m n k.

    python bench/residues.py --sizes 2048,4096,8192 --steps --opencl
    python bench/residues.py --sizes 4096,8192 --data marked --steps     # the slowest data: every element is computed again
    python bench/residues.py --device opencl --sizes 256 --burst 1 --sustained 0   # errors only, on a processor
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import in_opencl
import portatile
from errors import histogram
from measure import facts, parser, save, slug, until_stopped, version
from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.runtime.one_device.engine import engine_of
from portatile.workloads import precisions

DTYPES = ("float64", "complex128", "float32", "complex64")
DATA = ("normal", "uniform", "graded")  # and "marked": every element is computed again
_DRAWN = (1 << 24) - 3  # random numbers
SAMPLED = 48  # rows and columns of which errors are taken


@dataclass(frozen=True)
class Row:
    """One participant on one problem: operations a second in 1e12, and its error; how many sampled errors have which power of two, in units
    of half an eps; seconds of each launch by its kernel's name.
    """

    dtype: str
    sizes: tuple[int, int, int]
    data: str
    name: str
    burst: float
    sustained: float
    largest: float
    mean: float
    histogram: dict[str, int]
    steps: tuple[tuple[str, float], ...] = ()


def main() -> None:
    options = parser(__doc__, "cuda", several=False)
    options.add_argument("--dtypes", default=",".join(DTYPES))
    options.add_argument("--sizes", default="1024,2048,4096,8192", help="squares, or shapes as 8192x64x8192")
    options.add_argument("--data", default=",".join(DATA))
    options.add_argument("--burst", type=int, default=10, help="calls")
    options.add_argument("--sustained", type=float, default=0.4, help="seconds")
    options.add_argument("--steps", action="store_true", help="the time of each launch too")
    options.add_argument("--opencl", action="store_true", help="through the GPU's OpenCL too")
    asked = options.parse_args()
    device = portatile.get_device(asked.device or "cuda")
    print(device.info.name, device.info.backend, device.info.driver)
    other = in_opencl.opened() if asked.opencl else None
    rows = []
    with until_stopped():
        for row in _rows(device, other, asked):
            rows.append(asdict(row))
            rate = f"{row.burst:8.1f} / {row.sustained:8.1f} T/s" if row.burst else " " * 23
            sizes = "x".join(map(str, row.sizes))
            unasked = " unasked" if row.name == "residues" and _unasked(device, row) else ""
            print(
                f"{row.dtype:10} {sizes:18} {row.data:8} {row.name:9} {rate}  error {row.largest:9.3g} / {row.mean:9.3g} eps{unasked}",
                flush=True,
            )
            if row.steps:
                print("    " + ", ".join(f"{name} {1e3 * seconds:.3f} ms" for name, seconds in row.steps))
    peer = f"PyTorch {version('torch')}" if version("torch") else ""
    document = {"bench": "residues", **facts(asked.commit), "device": device.info.name, "through": device.info.backend, "peer": peer}
    document["compute_units"] = device.info.compute_units
    print(save(f"residues-{slug(device.info.name)}", {**document, "rows": rows}, asked.out))


def _rows(device: Device, other: Device | None, asked: argparse.Namespace) -> Iterator[Row]:
    for dtype in asked.dtypes.split(","):
        for text in asked.sizes.split(","):
            shape = tuple(map(int, text.split("x"))) if "x" in text else (int(text),) * 3
            for place, data in enumerate(asked.data.split(",")):
                yield from _compared((device, other), dtype, shape, data, asked if place == 0 else None)


def _unasked(device: Device, row: Row) -> bool:
    """Whether it is expected to win, so that it runs where nobody asks for it."""
    workload = workloads.get("gemm_residues")
    return row.dtype in precisions.EMULATED and workload.wins(
        workload.problem(dict(zip("mnk", row.sizes, strict=True)), row.dtype), device.info
    )


def _compared(
    through: tuple[Device, Device | None], dtype: str, sizes: tuple[int, ...], data: str, timing: argparse.Namespace | None
) -> Iterator[Row]:
    """Residues, the native product and cuBLAS on one pair of operands; times of the first data only."""
    m, n, k = sizes
    a, b = _operands(dtype, (m, n, k), data)
    exact = _exact(a, b)
    for device in filter(None, through):
        on_device = [Buffer.from_numpy(x, device.info.id) for x in (a, b)]
        out = Buffer.from_numpy(np.full((m, n), np.nan, dtype), device.info.id)

        def by(precision: Any, given: list[Buffer] = on_device, to: Buffer = out) -> Callable[[], Any]:
            return lambda: portatile.matmul(*given, out=to, precision=precision)

        first = device is through[0]
        calls = {"residues": by("reproducible"), "native": by("native")} if first else {"OpenCL": by("reproducible")}
        if a.dtype.kind == "c":
            calls["3m" if first else "OpenCL 3m"] = _planned(device, "gemm3m", dtype, sizes, on_device, out)
        for name, call in calls.items():
            call()
            row = Row(dtype, (m, n, k), data, name, 0.0, 0.0, *exact.errors(out.numpy()))
            burst, sustained = _rates(device, call, (m, n, k), dtype, timing)
            steps = timing is not None and timing.steps and name == "residues"
            yield replace(row, burst=burst, sustained=sustained, steps=_steps(device, dtype, (m, n, k), on_device, out) if steps else ())
        for buffer in (*on_device, out):
            buffer.release()
    if through[0].info.backend == "cuda":
        yield from _cublas(a, b, exact, data, timing)


def _planned(device: Device, workload: str, dtype: str, sizes: tuple[int, ...], operands: list[Buffer], out: Buffer) -> Callable[[], Any]:
    """A run of a workload that a call by precision would leave to a faster one."""
    executable = engine_of(device).prepare(workloads.get(workload).problem(dict(zip("mnk", sizes, strict=True)), dtype)).executable
    memory = dict(zip("abc", (buffer.memory for buffer in (*operands, out)), strict=True))
    return lambda: executable.run(device.default_queue(), memory, {"alpha": 1.0, "beta": 0.0})


def _operands(dtype: str, sizes: tuple[int, int, int], data: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """op(A) and op(B): normal, uniform in [0, 1), graded by powers of two along rows, columns and k, or marked: large meets small."""
    m, n, k = sizes
    rng = np.random.default_rng(m + n + k)
    real, parts = np.float64 if dtype in ("float64", "complex128") else np.float32, 1 if dtype.startswith("float") else 2

    def drawn(shape: tuple[int, int]) -> NDArray[Any]:
        few = min(shape[0] * shape[1], _DRAWN)  # which come again in large operands
        one = [np.resize(rng.random(few, real) if data == "uniform" else rng.standard_normal(few, real), shape) for _ in range(parts)]
        return one[0] if parts == 1 else one[0] + one[1] * dtype_of(dtype).type(1j)

    a, b = drawn((m, k)), drawn((k, n))
    if data == "graded":
        steps = [2.0 ** rng.integers(-limit, limit + 1, size).astype(real) for limit, size in ((20, m), (5, k), (20, n), (5, k))]
        a, b = a * steps[0][:, None] * steps[1], b * steps[2] * steps[3][:, None]
    if data == "marked":
        a[:, ::2] *= 1e-9
        b[1::2] *= 1e-9
    return a.astype(dtype), b.astype(dtype)


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's type."""
    return np.dtype(name)


@dataclass(frozen=True)
class _Exact:
    """The product in extended precision at sampled places, and the sums of magnitudes there, in eps."""

    places: tuple[NDArray[Any], ...]
    product: NDArray[Any]
    scale: NDArray[Any]

    def errors(self, c: NDArray[Any]) -> tuple[float, float, dict[str, int]]:
        """The largest and the mean error of C in eps of sum |a| |b|, and its histogram in units of half an eps; NaN raises ValueError."""
        off = np.abs(c[self.places] - self.product) / self.scale
        if not np.isfinite(off).all():
            raise ValueError("C has elements that are NaN or infinite")
        return float(off.max()), float(off.mean()), histogram(2 * off)


def _exact(a: NDArray[Any], b: NDArray[Any]) -> _Exact:
    rng = np.random.default_rng(1)
    rows, columns = (rng.choice(size, min(size, SAMPLED), replace=False) for size in (a.shape[0], b.shape[1]))
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    x, y = a[rows].astype(wide), b[:, columns].astype(wide)
    return _Exact(np.ix_(rows, columns), x @ y, (np.abs(x) @ np.abs(y)) * np.finfo(a.dtype).eps)


def _rates(
    device: Device, call: Callable[[], Any], sizes: tuple[int, int, int], dtype: str, timing: argparse.Namespace | None
) -> tuple[float, float]:
    """Operations a second of the best of three bursts, and of calls one after the other for some time."""
    if timing is None or timing.burst < 1:
        return 0.0, 0.0
    queue = device.default_queue()
    flops = (8.0 if dtype.startswith("complex") else 2.0) * sizes[0] * sizes[1] * sizes[2] / 1e12

    def seconds(count: int) -> float:
        queue.finish()
        start = time.perf_counter()
        for _ in range(count):
            call()
        queue.finish()
        return (time.perf_counter() - start) / count

    seconds(3)  # warm, and recorded
    time.sleep(in_opencl.REST)
    best = min(seconds(timing.burst) for _ in range(3))
    long = seconds(max(int(timing.sustained / best), 1)) if timing.sustained else best
    return flops / best, flops / long


def _steps(device: Device, dtype: str, sizes: tuple[int, int, int], operands: list[Buffer], out: Buffer) -> tuple[tuple[str, float], ...]:
    """The device time of each launch in seconds, the best of five runs, by its kernel's name."""
    problem = workloads.get("gemm_residues").problem(dict(zip("mnk", sizes, strict=True)), dtype)
    executable = engine_of(device).prepare(problem).executable
    memory = dict(zip("abc", (buffer.memory for buffer in (*operands, out)), strict=True))
    best: list[float] = []
    with device.queue(profiling=True) as queue:
        for _ in range(5):
            events: list[Any] = []
            for _ in range(2):  # what comes before a step tells when it begins
                executable.run(queue, memory, {"alpha": 1.0, "beta": 0.0}, events)
            queue.finish()
            took = [event.duration or event.seconds_since(before) for before, event in pairwise(events[len(events) // 2 - 1 :])]
            best = [min(pair) for pair in zip(best or took, took, strict=True)]
    return tuple(zip((getattr(step, "kernel", "") for step in executable.plan.steps), best, strict=True))


def _cublas(a: NDArray[Any], b: NDArray[Any], exact: _Exact, data: str, timing: argparse.Namespace | None) -> Iterator[Row]:
    try:
        import torch
    except ImportError:
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    sizes = a.shape[0], b.shape[1], b.shape[0]
    out = torch.empty(sizes[:2], dtype=x.dtype, device="cuda")

    class Stream:
        """PyTorch's stream, waited for as a queue is."""

        @staticmethod
        def default_queue() -> Any:
            return Stream

        @staticmethod
        def finish() -> None:
            torch.cuda.synchronize()

    torch.mm(x, y, out=out)
    errors = exact.errors(out.cpu().numpy())
    burst, sustained = _rates(Stream, lambda: torch.mm(x, y, out=out), sizes, a.dtype.name, timing)  # type: ignore[arg-type]
    yield Row(a.dtype.name, sizes, data, "cuBLAS", burst, sustained, *errors)


if __name__ == "__main__":
    main()
