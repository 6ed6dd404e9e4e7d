"""The benchmark of matrix products: an algorithm, a rung or a preset, a size, a device; the time of each phase, and C in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile import output_files, workloads
from portatile.cli import _console, _files, _options
from portatile.errors import ArgumentError, DeviceNotFoundError, UsageError
from portatile.formatting import duration, percent
from portatile.measure.phases import PhasesRequest, PhaseTimes, split
from portatile.measure.products import ALGORITHMS, PRESETS, RUNGS, MatrixProduct
from portatile.records import to_json
from portatile.studies import counters as study
from portatile.studies.framework.table import readable


@click.command("matmul")
@click.option(
    "--algorithm",
    type=_options.OneOf(list(ALGORITHMS)),
    default="local",
    show_default=True,
    help="; ".join(f"{k}: {v}" for k, v in ALGORITHMS.items()) + ".",
)
@click.option(
    "--rung",
    type=_options.Whole(min(RUNGS), max(RUNGS)),
    help="A rung of the ladder, from 1 (naive) to 10 (any size).",
)
@click.option(
    "--preset",
    type=_options.OneOf(list(PRESETS)),
    help="A named configuration of the generator instead of an algorithm. " + "; ".join(f"{k}: {v}" for k, v in PRESETS.items()) + ".",
)
@click.option("--size", type=_options.Whole(min=1), default=1024, show_default=True, help="Rows and columns of every matrix.")
@click.option("-m", type=_options.Whole(min=1), help="Rows of C, if not --size.")
@click.option("-n", type=_options.Whole(min=1), help="Columns of C, if not --size.")
@click.option("-k", type=_options.Whole(min=1), help="Columns of A, if not --size.")
@click.option("--block", type=_options.Whole(min=1), help="Edge of the work-group (global) or of the tile (local); default 16.")
@click.option("--ldg", is_flag=True, help="Read A and B through the read-only path (NVIDIA).")
@click.option(
    "--shuffle", is_flag=True, help="Work-items of a warp exchange A's elements by shuffles: fewer reads of local memory (NVIDIA)."
)
@click.option("--plain", is_flag=True, help="Do not read A and B through the read-only path, which compilers use by default (NVIDIA).")
@click.option(
    "--carveout",
    type=_options.OneOf(["0", "25", "50", "75", "100"]),
    help="Per cent of on-chip memory that is local memory (CUDA).",
)
@click.option("--device", help="Device, as `portatile devices` names it, or its number if --platform is given; default: the best one.")
@click.option("--platform", type=_options.Whole(min=0), help="Number of the OpenCL platform, as in the ids of `portatile devices`.")
@click.option("--cpu", is_flag=True, help="Use a CPU, whatever other devices there are.")
@click.option("--dtype", type=_options.OneOf(["float32", "float64"]), default="float32", show_default=True, help="Element type.")
@click.option("--repeat", type=_options.Whole(min=0), default=3, show_default=True, help="Runs of the kernel after the first.")
@click.option("--counters", is_flag=True, help="Also show hardware counters of a run, or why there are none.")
@click.option("--cold", is_flag=True, help="Compile even if portatile's or the driver's cache holds the kernel.")
@_options.seed("A and B, uniform in [-0.5, 0.5)")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write C here: .txt, .npy, or .npz with A and B beside it.")
@_options.document()
def matmul(
    algorithm: str,
    rung: int | None,
    preset: str | None,
    size: int,
    m: int | None,
    n: int | None,
    k: int | None,
    block: int | None,
    ldg: bool,
    shuffle: bool,
    plain: bool,
    carveout: str | None,
    device: str | None,
    platform: int | None,
    cpu: bool,
    dtype: str,
    repeat: int,
    counters: bool,
    cold: bool,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Multiply two square matrices once, check the result, and show the time of each phase.

    Phases: finding the platform, creating context and queue, building the kernel, allocating buffers, transfers, and the kernel.
    """
    if output is not None and output.suffix not in (".txt", ".npy", ".npz"):
        raise click.UsageError(f"{output}: C is written as .txt, .npy or .npz")
    if output is not None:
        _files.writable(output)
    _check_choice(rung, preset)
    switches = tuple(name for name, on in (("LDG", ldg), ("SHUFFLE", shuffle), ("PLAIN", plain)) if on)
    if switches and algorithm == "host":
        raise UsageError(f"--{switches[0].lower()} is for kernels: leave it out, or choose another --algorithm")
    share = None if carveout is None else int(carveout)
    _console.say("multiplying, and checking with NumPy")
    product = MatrixProduct(algorithm, rung, {"m": m or size, "n": n or size, "k": k or size}, block, dtype, preset, switches, share)
    if algorithm == "host" and rung is None and preset is None:
        _host(product, seed, output, as_json)
        return
    with _cold_compiler() if cold else nullcontext():
        done, operands = split(PhasesRequest(product.choose, _selector(device, platform, cpu), cold, repeat, seed))
    if output is not None:
        shapes = workloads.get(done.problem.workload).shapes(done.problem)
        _write(output, {name: operands[name][: shape[0] * shape[1]].reshape(shape) for name, shape in shapes.items()})
    counted = study.rows(devices.get(done.device.id), done.problem, done.config) if counters else None
    _show(product, done, counted, output, as_json)


def _check_choice(rung: int | None, preset: str | None) -> None:
    """Raise UsageError if more than one of algorithm, rung and preset is given."""
    source = click.get_current_context().get_parameter_source("algorithm")
    named = {"--algorithm": source is not click.core.ParameterSource.DEFAULT, "--rung": rung is not None, "--preset": preset is not None}
    if sum(named.values()) > 1:
        flags = " and ".join(flag for flag, present in named.items() if present)
        raise UsageError(f"{flags} exclude one another: leave out one of them")


def _show(product: MatrixProduct, done: PhaseTimes, counted: list[study.CountersRow] | None, output: Path | None, as_json: bool) -> None:
    """Print the times, and the hardware counters where they were asked for, as a table or as JSON."""
    best = min((done.seconds["kernel"], *done.again))
    rate = product.flops / best / 1e9
    if as_json:
        record = {"title": product.title, "total": done.total, "kernel_best": best, "gflops": rate}
        record |= {"counters": counted} if counted is not None else {}
        print(to_json({**record, "output": str(output) if output else None, "split": done}).decode())
        return
    _print(product, done, best, rate)
    if counted:
        shown = readable(study.STUDY.columns[1:], counted)
        _console.out.print(_console.table("", shown.headings, shown.cells, left=shown.left))
        for note in study.notes(counted):
            _console.out.print(note, markup=False)


def _print(product: MatrixProduct, done: PhaseTimes, best: float, rate: float) -> None:
    title = f"{product.title} on {done.device.name} ({done.device.id})"
    rows = [(phase, duration(value), percent(value / done.total)) for phase, value in done.seconds.items()]
    rows.append(("all", duration(done.total), ""))
    _console.out.print(_console.table(title, ("phase", "time", "share"), rows))
    first = f"kernel at best {duration(best)} of {1 + len(done.again)}: {rate:.4g} Gflop/s"
    _console.out.print(f"{first}; error {done.error:.2g} of what rounding allows")


@contextmanager
def _cold_compiler() -> Iterator[None]:
    """Disable the driver's cache inside the block; a driver that is already loaded may not notice."""
    before = dict(os.environ)
    os.environ.update(devices.COLD_COMPILER)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _selector(device: str | None, platform: int | None, cpu: bool) -> str | None:
    """The device's selector; raises DeviceNotFoundError for contradicting options."""
    if platform is not None:
        if device is not None and not device.isdigit():
            raise ArgumentError(f"with --platform the --device is a number, not {device!r}")
        device = f"opencl:{platform}:{device or 0}"
    if not cpu:
        return device
    if device is None:
        return "cpu"
    info = devices.get(device).info
    if info.kind != "cpu":
        raise DeviceNotFoundError(f"{info.id} ({info.name}) is a {info.kind}, not a CPU; leave --cpu or --device out")
    return device


def _host(product: MatrixProduct, seed: int, output: Path | None, as_json: bool) -> None:
    """The baseline: the product in plain Python."""
    seconds, matrices = product.on_the_host(seed)
    if output is not None:
        _write(output, matrices)
    rate = product.flops / seconds / 1e9
    if as_json:
        print(to_json({"title": product.title, "total": seconds, "gflops": rate, "output": str(output) if output else None}).decode())
    else:
        _console.out.print(f"{product.title} on the host: {duration(seconds)}, {rate:.4g} Gflop/s")


def _write(path: Path, matrices: dict[str, NDArray[Any]]) -> None:
    try:
        with output_files.replacing(path) as file:
            if path.suffix == ".npz":
                np.savez(file, **matrices)  # type: ignore[arg-type]
            elif path.suffix == ".npy":
                np.save(file, matrices["c"])
            else:
                np.savetxt(file, matrices["c"], fmt="%.9g" if matrices["c"].dtype == np.float32 else "%.17g")
    except OSError as error:
        raise click.UsageError(f"C cannot be written: {error}") from error
