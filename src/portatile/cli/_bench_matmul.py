"""The benchmark of matrix products: an algorithm or a rung of the ladder, a size, a device; where the time went, and C in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile import workloads
from portatile.cli import _console, _files, _options
from portatile.device.base import Device
from portatile.errors import ArgumentError, DeviceNotFoundError, UsageError
from portatile.measure import runs
from portatile.measure.split import Plea, Split, split
from portatile.records import Config, Problem, duration, to_json
from portatile.workloads import matmul as ladder
from portatile.workloads.gemm import rungs

_ALGORITHMS = {
    "host": "three loops of Python on the host, no device",
    "sequential": "one work-item",
    "global": "one element of C each, from global memory",
    "local": "square tiles in local memory",
    "tuned": "the best known of these kernels",
    "gemm": "the best known of the fast generator",
}
_LAST_OF_MATMUL = max(ladder.RUNGS)
_RUNGS = (*ladder.RUNGS, *rungs.TITLES)
_HOST_LIMIT = 2**27  # multiplications of plain Python: a minute or two


@dataclass(frozen=True)
class _Wish:
    """What the command line asked for."""

    algorithm: str
    rung: int | None
    sizes: dict[str, int]
    block: int | None
    dtype: str

    @property
    def title(self) -> str:
        """For people."""
        m, n, k = (self.sizes[name] for name in "mnk")
        what = f"rung {self.rung}" if self.rung else self.algorithm
        return f"{what}, {m} x {n} x {k}, {self.dtype}"

    def choose(self, chip: Device) -> tuple[Problem, Config]:
        """Problem and configuration; raises ArgumentError for what cannot run there."""
        name = "gemm" if self.algorithm == "gemm" or (self.rung or 0) > _LAST_OF_MATMUL else "matmul"
        workload = workloads.get(name)
        problem = workload.problem(self.sizes, self.dtype)
        if self.rung is not None and name == "gemm":
            if self.rung == rungs.READ_ONLY_RUNG and chip.info.backend != "cuda":
                raise ArgumentError(f"rung {self.rung} is rung 7 through CUDA, and {chip.info.id} is not CUDA; choose --device cuda")
            return problem, rungs.rung(self.rung, self.dtype)
        if self.rung is None and self.algorithm in ("gemm", "tuned"):
            return problem, runs.known(problem, chip).config
        config = dict(ladder.RUNGS[self.rung] if self.rung else {**ladder.BASE, "ALGORITHM": self.algorithm})
        if self.algorithm == "sequential" and self.rung is None:
            config["BLOCK"] = 2
        elif self.block is not None:
            config["BLOCK"] = self.block
        why = workload.space(problem, chip.info).violated(config)
        if why:
            raise ArgumentError(f"{self.title} cannot run on {chip.info.id}: {why}")
        return problem, config


@click.command("matmul")
@click.option(
    "--algorithm",
    type=click.Choice(list(_ALGORITHMS)),
    default="local",
    show_default=True,
    help="; ".join(f"{k}: {v}" for k, v in _ALGORITHMS.items()) + ".",
)
@click.option(
    "--rung", type=click.IntRange(min(_RUNGS), max(_RUNGS)), help="A rung of the ladder in place of an algorithm: 1 naive to 10 any size."
)
@click.option("--size", type=click.IntRange(min=1), default=1024, show_default=True, help="Rows and columns of every matrix.")
@click.option("-m", type=click.IntRange(min=1), help="Rows of C, if not --size.")
@click.option("-n", type=click.IntRange(min=1), help="Columns of C, if not --size.")
@click.option("-k", type=click.IntRange(min=1), help="Columns of A, if not --size.")
@click.option("--block", type=click.IntRange(min=1), help="Edge of the work-group (global) or of the tile (local); default 16.")
@click.option("--device", help="Device, as `portatile devices` names it, or its number if --platform is given; default: the best one.")
@click.option("--platform", type=click.IntRange(min=0), help="Number of the OpenCL platform, as in the ids of `portatile devices`.")
@click.option("--cpu", is_flag=True, help="A CPU, whatever else there is.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True, help="Element type.")
@click.option("--repeat", type=click.IntRange(min=0), default=3, show_default=True, help="Runs of the kernel after the first.")
@click.option("--cold", is_flag=True, help="Compile even if a cache, ours or the driver's, holds the kernel.")
@_options.seed("A and B, uniform in [-0.5, 0.5)")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write C here: .txt, .npy, or .npz with A and B beside it.")
@_options.document()
def matmul(
    algorithm: str,
    rung: int | None,
    size: int,
    m: int | None,
    n: int | None,
    k: int | None,
    block: int | None,
    device: str | None,
    platform: int | None,
    cpu: bool,
    dtype: str,
    repeat: int,
    cold: bool,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Multiply two square matrices once, checked, and tell where the time went.

    Phases: looking for the platform, making context and queue, building the kernel, allocating buffers, transfers and the kernel.
    """
    if output is not None and output.suffix not in (".txt", ".npy", ".npz"):
        raise click.UsageError(f"{output}: C is written as .txt, .npy or .npz")
    if output is not None:
        _files.writable(output)
    said = click.get_current_context().get_parameter_source("algorithm")
    if rung is not None and said is not click.core.ParameterSource.DEFAULT:
        raise UsageError("--rung stands in place of --algorithm: leave out one of them")
    _console.say("multiplying, and checking with NumPy")
    wish = _Wish(algorithm, rung, {"m": m or size, "n": n or size, "k": k or size}, block, dtype)
    if algorithm == "host" and rung is None:
        _host(wish, seed, output, as_json)
        return
    with _cold_compiler() if cold else nullcontext():
        done, operands = split(Plea(wish.choose, _selector(device, platform, cpu), cold, repeat, seed))
    shapes = workloads.get(done.problem.workload).shapes(done.problem)
    if output is not None:
        _write(output, {name: operands[name][: shape[0] * shape[1]].reshape(shape) for name, shape in shapes.items()})
    best = min((done.seconds["kernel"], *done.again))
    rate = workloads.get(done.problem.workload).flops(done.problem) / best / 1e9
    if as_json:
        extra = {"title": wish.title, "total": done.total, "kernel_best": best, "gflops": rate, "output": str(output) if output else None}
        print(to_json({**extra, "split": done}).decode())
        return
    _print(wish, done, best, rate)


def _print(wish: _Wish, done: Split, best: float, rate: float) -> None:
    title = f"{wish.title} on {done.device.name} ({done.device.id})"
    rows = [(phase, duration(value), f"{value / done.total:.0%}") for phase, value in done.seconds.items()]
    rows.append(("all", duration(done.total), ""))
    _console.out.print(_console.table(title, ("phase", "time", "share"), rows))
    first = f"kernel at best {duration(best)} of {1 + len(done.again)}: {rate:.4g} Gflop/s"
    _console.out.print(f"{first}; error {done.error:.2g} of what rounding allows")


@contextmanager
def _cold_compiler() -> Iterator[None]:
    """No cache of the driver's for a while; a driver that was loaded before may not notice."""
    before = dict(os.environ)
    os.environ.update(devices.COLD_COMPILER)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _selector(device: str | None, platform: int | None, cpu: bool) -> str | None:
    """The device's selector; raises DeviceNotFoundError for what contradicts itself."""
    if platform is not None:
        if device is not None and not device.isdigit():
            raise ArgumentError(f"with --platform the --device is a number, not {device!r}")
        device = f"opencl:{platform}:{device or 0}"
    if not cpu:
        return device
    if device is None:
        return "cpu"
    found = devices.get(device)
    if found.info.kind != "cpu":
        raise DeviceNotFoundError(f"{found.info.id} ({found.info.name}) is a {found.info.kind}, not a CPU; leave --cpu or --device out")
    return device


def _host(wish: _Wish, seed: int, output: Path | None, as_json: bool) -> None:
    """The bottom line: the product by plain Python."""
    sizes = wish.sizes
    if sizes["m"] * sizes["n"] * sizes["k"] > _HOST_LIMIT:
        raise ArgumentError(f"{wish.title}: plain Python would take minutes; take up to {int(_HOST_LIMIT ** (1 / 3))} rows and columns")
    rng = np.random.default_rng(seed)
    problem = workloads.get("matmul").problem(sizes, wish.dtype)
    memory = workloads.get("matmul").inputs(problem, rng).operands
    shapes = workloads.get("matmul").shapes(problem)
    matrices: list[NDArray[Any]] = [np.asarray(memory[name], wish.dtype).reshape(shapes[name]) for name in "ab"]
    a, b = matrices
    start = time.perf_counter()
    c: NDArray[Any] = ladder.sequential(a, b)
    seconds = time.perf_counter() - start
    if output is not None:
        _write(output, {"a": a, "b": b, "c": c})
    rate = workloads.get("matmul").flops(problem) / seconds / 1e9
    if as_json:
        print(to_json({"title": wish.title, "total": seconds, "gflops": rate, "output": str(output) if output else None}).decode())
    else:
        _console.out.print(f"{wish.title} on the host: {duration(seconds)}, {rate:.4g} Gflop/s")


def _write(path: Path, matrices: dict[str, NDArray[Any]]) -> None:
    try:
        if path.suffix == ".npz":
            np.savez(path, **matrices)  # type: ignore[arg-type]
        elif path.suffix == ".npy":
            np.save(path, matrices["c"])
        else:
            np.savetxt(path, matrices["c"], fmt="%.9g" if matrices["c"].dtype == np.float32 else "%.17g")
    except OSError as error:
        raise click.UsageError(f"C cannot be written: {error}") from error
