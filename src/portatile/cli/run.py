"""Run one kernel of any OpenCL C file on any device: time it, show and save its results, compare them with another device's."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from portatile import output_files
from portatile.cli import _console, _files, _options
from portatile.cli._arguments import SYNTAX, Array, arguments
from portatile.cli._kernels import KernelFile, entry_called, kernel_file, without_kernels
from portatile.errors import ArgumentError, UnknownNameError, UsageError, reason
from portatile.formatting import duration
from portatile.measure.isolated_run import KernelArgument, KernelRun, RunOutcome, run
from portatile.records import Entry, Size3, to_json

_WIDEST = 256  # work-items of a work-group that is not given
_SHOWN = 4


_HELP = f"""Run KERNEL of FILE over --global work-items, one ARGUMENT for each of its parameters.

{SYNTAX}

\b
portatile run saxpy.cl saxpy --global 4096 4096=random 4096=index 2.5
portatile run scan.cl scan --global 1024 --local 256 1024=random 1024 256 --check opencl:0:0

Prints the time and every buffer that the kernel changed. The kernel runs in a process of its own, between canaries. Exit code 1: it
fails, writes outside of its buffers, does not end within --timeout, or --check differs."""


@click.command(help=_HELP, context_settings={"ignore_unknown_options": True})  # -5 is a scalar
@kernel_file
@click.argument("kernel")
@click.argument("words", metavar="ARGUMENT...", nargs=-1)
@click.option("--global", "global_text", required=True, metavar="N[,N[,N]]", help="Work-items in each dimension.")
@click.option("--local", "local_text", metavar="N[,N[,N]]", help="Work-items of a work-group. Default: the kernel's own, else chosen.")
@_options.device("selector")
@click.option("--check", metavar="DEVICE", help="Run the kernel on this device too and compare every output.")
@click.option(
    "--tolerance",
    type=_options.Real(min=0),
    default=1e-5,
    show_default=True,
    help="Tolerance of --check, relative to the largest value; integers must be equal.",
)
@click.option(
    "--timeout",
    type=_options.Seconds(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds that all launches may take; 5m is five minutes.",
)
@click.option("--repeat", type=_options.Whole(0), default=10, show_default=True, help="Timed runs after the first, on the same buffers.")
@_options.seed("the random arguments")
@click.option("-o", "--output", "saves", multiple=True, metavar="NAME=FILE.npy", help="Save a parameter's array after the run; repeat.")
@_options.document("Print time, outputs and comparison as JSON.")
def command(
    file: KernelFile,
    kernel: str,
    words: tuple[str, ...],
    global_text: str,
    local_text: str | None,
    selector: str | None,
    check: str | None,
    tolerance: float,
    timeout: float,
    repeat: int,
    seed: int,
    saves: tuple[str, ...],
    as_json: bool,
) -> int:
    """Read the arguments by the kernel's signature, run the kernel, and report its time and results."""
    for word in words:
        if word.startswith("--"):
            raise UsageError(f"there is no option {word}; see `portatile run --help`")
    entries = file.entries()
    if not entries:
        raise without_kernels(file.source)
    entry = entry_called(entries, kernel)
    global_size = _size(global_text, "--global")
    local_size = _size(local_text, "--local") if local_text else entry.work_group or _group(global_size)
    task = KernelRun(file.source, entry, arguments(entry, words, seed), global_size, local_size, repeat)
    targets = _saves(saves, entry)
    _console.say("compiling and running")
    outcome = run(task, selector, timeout)
    for name, path in targets.items():
        try:
            with output_files.replacing(path) as output:
                np.save(output, outcome.arrays[name])
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {reason(error)}") from error
    other = run(task, check, timeout) if check is not None else None
    rows = [_report(argument, outcome, other, tolerance) for argument in task.arguments if argument.array is not None]
    agrees = all(row.get("agrees", True) for row in rows)
    if as_json:
        sizes = {"global": global_size, "local": local_size}
        facts = {"device": outcome.device.id, "kernel": entry.name, **sizes, "seconds": outcome.seconds, "operands": rows}
        click.echo(to_json({**facts, "checked_on": other.device.id, "agrees": agrees} if other else facts))
    else:
        _print(task, outcome, other, rows)
    return 0 if agrees else 1


def _size(text: str, option: str) -> Size3:
    try:
        numbers = [int(part) for part in re.split("[,x]", text)]
    except ValueError:
        raise ArgumentError(f"{option} {text!r} must be one to three numbers such as 1024 or 64,64") from None
    if len(numbers) > 3 or min(numbers) < 1:
        raise ArgumentError(f"{option} {text!r} must be one to three positive numbers")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _group(global_size: Size3) -> Size3:
    """The widest work-group along the first dimension that divides it."""
    return math.gcd(global_size[0], _WIDEST), 1, 1


def _saves(saves: tuple[str, ...], entry: Entry) -> dict[str, Path]:
    arrays = [p.name for p in entry.parameters if p.kind in ("buffer", "image")]
    files = {}
    for save in saves:
        name, _, path = save.partition("=")
        if name not in arrays:
            raise UnknownNameError("array parameter", name, arrays)
        if not path.endswith(".npy"):
            raise ArgumentError(f"-o {save!r} is not NAME=FILE.npy")
        files[name] = _files.writable(Path(path))
    return files


def _report(argument: KernelArgument, outcome: RunOutcome, other: RunOutcome | None, tolerance: float) -> dict[str, Any]:
    """A row that describes what the run did to one array."""
    name, before = argument.parameter.name, argument.array
    assert before is not None
    before, after = argument.seen(before), argument.seen(outcome.arrays[name])
    changed = before.tobytes() != after.tobytes()
    row: dict[str, Any] = {"name": name, "dtype": str(after.dtype), "shape": list(after.shape), "changed": changed}
    if changed and after.dtype.kind in "iuf":
        row |= {"sum": _sum(after), "min": after.min().item(), "max": after.max().item(), "first": after.reshape(-1)[:_SHOWN].tolist()}
    if other is not None:
        row |= _difference(after, argument.seen(other.arrays[name]), tolerance)
    return row


def _sum(values: Array) -> float:
    """The sum in float64, of integers exactly."""
    if values.dtype.kind == "f":
        return float(values.sum(dtype=np.float64))
    wide = values if values.dtype.itemsize == 8 else values.astype(np.int64)
    low = wide & np.asarray(0xFFFFFFFF, wide.dtype)
    return (int((wide >> np.asarray(32, wide.dtype)).sum()) << 32) + int(low.sum())


def _spelled(value: float, digits: int) -> str:
    """A number with so many digits; an integer with all its digits."""
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def _difference(a: Array, b: Array, tolerance: float) -> dict[str, Any]:
    """The largest difference, relative to the largest value; equal NaNs do not differ."""
    if a.dtype.kind != "f":
        return {"agrees": bool((a == b).all()), "difference": int((a != b).sum())}
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(x - y))
    scale = float(np.max(np.abs(y), initial=0.0, where=np.isfinite(y))) or 1.0
    worst = float(np.max(np.where(np.isnan(gap), np.inf, gap), initial=0.0)) / scale
    return {"agrees": worst <= tolerance, "difference": worst}


def _print(task: KernelRun, outcome: RunOutcome, other: RunOutcome | None, rows: list[dict[str, Any]]) -> None:
    where = f"{outcome.device.name} ({outcome.device.id})"
    sizes = " in groups of ".join("x".join(map(str, size)) for size in (task.global_size, task.local_size))
    _console.out.print(f"{task.called}\n{sizes} on {where}", markup=False)
    if outcome.seconds:
        times = (median(outcome.seconds), min(outcome.seconds), max(outcome.seconds))
        _console.out.print("median {}, from {} to {}, {} runs".format(*map(duration, times), len(outcome.seconds)), markup=False)
    columns = ["array", "type", "shape", "first", "sum", "min", "max"]
    lines = []
    for row in rows:
        if row["changed"]:
            first = " ".join(_spelled(value, 6) for value in row.get("first", []))
            figures = [_spelled(row[key], 9) if key in row else "" for key in ("sum", "min", "max")]
        else:
            first, figures = "unchanged", ["", "", ""]
        lines.append([row["name"], row["dtype"], "x".join(map(str, row["shape"])), first, *figures])
        if other is not None:
            unit = "" if np.dtype(row["dtype"]).kind == "f" else " elements"
            lines[-1].append(f"{'agrees' if row['agrees'] else 'DIFFERS'} ({row['difference']:.3g}{unit})")
    if other is not None:
        columns.append(other.device.id)
    _console.out.print(_console.table("", columns, lines, left=4), markup=False)
