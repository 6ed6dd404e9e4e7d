"""Measure a device: the bandwidth of memory and link, the peak of its arithmetic, or matrix products by several algorithms."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from statistics import median
from typing import cast

import click

from portatile import ceilings
from portatile import device as devices
from portatile.ceilings import DIRECTIONS, Measured
from portatile.cli import Suggesting, _console, _options
from portatile.cli._bench_matmul import matmul
from portatile.device.base import Device
from portatile.errors import StoreError
from portatile.measure import first_ceilings, peaks, transfers
from portatile.measure.peaks import Quantity
from portatile.measure.transfers import Copy, Direction, HostMemory, Mode
from portatile.records import DeviceInfo, to_json
from portatile.studies.framework import table
from portatile.trials import Budget

_ARROWS = {"htod": "host to device", "dtoh": "device to host", "dtod": "device to device"}


class Benchmarks(Suggesting):
    """The group of benchmarks."""

    noun = "benchmark"
    plural = "Benchmarks"


@click.group("bench", cls=Benchmarks, commands={"matmul": matmul})
def command() -> None:
    """Measure a device. `bandwidth` and `peak` store its ceilings (limits), and reports show results as shares of them.

    \b
    portatile bench peak --device cuda:0
    portatile bench matmul --algorithm local --size 1024 -o c.npy
    """


@command.command("bandwidth")
@_options.device()
@click.option("--mode", type=_options.OneOf(["quick", "range", "shmoo"]), default="quick", show_default=True, help="Which sizes to copy.")
@click.option("--memory", type=_options.OneOf(["pinned", "pageable"]), default="pinned", show_default=True, help="Kind of host memory.")
@click.option("--start", type=int, help="Bytes of the first copy of --mode range.")
@click.option("--end", type=int, help="Bytes of the last copy, at most.")
@click.option("--increment", type=int, help="Bytes added from one copy to the next.")
@click.option("--htod", is_flag=True, help="Measure only copies from host to device. Without one of these three flags all are measured.")
@click.option("--dtoh", is_flag=True, help="Measure only copies from device to host.")
@click.option("--dtod", is_flag=True, help="Measure only copies within the device, which count twice, as read and as written.")
@click.option(
    "--stream/--no-stream", default=True, show_default=True, help="Also measure BabelStream's kernels: copy, mul, add, triad, dot."
)
@click.option("--size", type=_options.Whole(min=64), help="Bytes of one array of the kernels; default 256 MiB, on CPUs 64 MiB.")
@click.option("--tune", "budget", help="Tune each kernel first within this budget: 5s, or a number of trials.")
@click.option("--fresh", is_flag=True, help="Replace stored ceilings; else the faster of old and new is stored.")
@_options.document()
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values instead of the table.")
def bandwidth(
    device: str | None,
    mode: str,
    memory: str,
    start: int | None,
    end: int | None,
    increment: int | None,
    htod: bool,
    dtoh: bool,
    dtod: bool,
    stream: bool,
    size: int | None,
    budget: str | None,
    fresh: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Measure the throughput of transfers and of kernels that stream through memory, in GB/s (10^9 bytes).

    Every copy and every kernel is checked before it is timed. The rate is that of the fastest round. If the arrays fit into a cache, a
    kernel's rate is shown but not stored as a ceiling.
    """
    directions = [name for name, chosen in zip(DIRECTIONS, (htod, dtoh, dtod), strict=True) if chosen] or list(DIRECTIONS)
    sizes = transfers.sizes(cast(Mode, mode), start, end, increment)
    copies = [Copy(cast(Direction, direction), cast(HostMemory, memory), nbytes) for direction in directions for nbytes in sizes]
    opened = devices.get(device)
    disturbed = first_ceilings.busy(opened.info)  # asked before this process itself keeps the processor busy
    quantities = peaks.memory_quantities(opened.info) if stream else ()
    if budget:
        _tune(opened.info, quantities, budget, size)
    measured = [transfers.measure(opened, copy) for copy in _console.track(copies, "copying")]
    measured += [
        peaks.measure(opened, quantity, peaks.problem(quantity, opened.info, size)) for quantity in _console.track(quantities, "streaming")
    ]
    measured = [first_ceilings.marked(measurement, disturbed) for measurement in measured]
    _finish(opened, measured, fresh, f"Bandwidth of {opened.info.name} ({opened.info.id})", as_json, as_csv)


@command.command("peak")
@_options.device()
@click.option(
    "--rounds",
    type=_options.Whole(min=8),
    help="Steps of a chain; use more if measurements scatter. Default: 8192 on a GPU, else 2048; for functions 256.",
)
@click.option("--tune", "budget", help="Tune each kernel first within this budget: 5s, or a number of trials.")
@click.option("--fresh", is_flag=True, help="Replace stored ceilings; else the faster of old and new is stored.")
@_options.document()
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values instead of the table.")
def peak(device: str | None, rounds: int | None, budget: str | None, fresh: bool, as_json: bool, as_csv: bool) -> None:
    """Measure the throughput of multiply-adds, of matrix units where there are any, of native functions and of local memory.

    Every kernel is checked before it is timed, and timed again with twice the rounds, which must take twice as long.
    """
    opened = devices.get(device)
    disturbed = first_ceilings.busy(opened.info)
    quantities = peaks.arithmetic_quantities(opened.info)
    if budget:
        _tune(opened.info, quantities, budget, None)
    problems = [(quantity, peaks.problem(quantity, opened.info, rounds=rounds)) for quantity in quantities]
    measured = [peaks.measure(opened, quantity, problem) for quantity, problem in _console.track(problems, "calculating")]
    measured = [first_ceilings.marked(measurement, disturbed) for measurement in measured]
    _finish(opened, measured, fresh, f"Peaks of {opened.info.name} ({opened.info.id})", as_json, as_csv)


def _tune(info: DeviceInfo, quantities: Sequence[Quantity], budget: str, size: int | None) -> None:
    from portatile.store import ResultStore
    from portatile.tuning.search import tuner

    spend = Budget.parse(budget)
    with ResultStore.default() as store:
        for quantity in _console.track(quantities, "tuning"):
            tuner.tune(tuner.TuningRequest(peaks.problem(quantity, info, size), info.id, spend), store)


def _finish(opened: Device, measured: list[Measured], fresh: bool, title: str, as_json: bool, as_csv: bool) -> None:
    """Store the measurements, and print them even where they cannot be stored."""
    try:
        ceilings.add(opened.info, measured, fresh)
        place = f"stored in {ceilings.path_of(opened.info)}"
        if any(m.details.get(ceilings.BUSY) for m in measured):
            note = "other programs kept the processor busy before: measure again when nothing else runs"
            _console.err.print(f"portatile: {note}", markup=False, soft_wrap=True)
        if any(not ceilings.through_memory(m, opened.info) for m in measured):
            least = ceilings.stream_bytes(opened.info)
            note = f"streams that a cache may hold are shown, not stored: arrays of {least} bytes or more measure memory"
            _console.err.print(f"portatile: {note}", markup=False, soft_wrap=True)
    except StoreError as error:
        place = "not kept"
        _console.err.print(f"portatile: warning: {error}", markup=False, soft_wrap=True)
    if as_json:
        print(to_json({"device": opened.info, "measured": [{**_row(m), "record": m} for m in measured]}).decode())
    elif as_csv:
        _write_csv(measured)
    else:
        rows = [
            (label, kind, size, f"{m.rate / 1e9:.4g}", f"{m.work / median(m.samples) / 1e9:.4g}", _UNITS[m.unit])
            for m in measured
            for label, kind, size in [_labels(m)]
        ]
        columns = ["", "of", "bytes", "best", "median", ""]
        _console.out.print(_console.table(title, columns, rows, left=2))
        _console.out.print(place, style="dim", markup=False)


_UNITS = {"B/s": "GB/s", "flop/s": "Gflop/s", "op/s": "G/s"}


def _labels(m: Measured) -> tuple[str, str, str]:
    """The measured quantity, its object and its size, as cells of a table."""
    if m.name in DIRECTIONS:
        return _ARROWS[m.name], str(m.details["memory"]), str(m.details["bytes"])
    if m.name == "special":
        return f"native {m.details['quantity']}", str(m.details["dtype"]), ""
    names = {"fp32": "multiply-add", "fp64": "multiply-add", "mma": "matrix units", "local": "local memory"}
    return names.get(m.name, m.name), str(m.details["dtype"]), ""


def _row(m: Measured) -> dict[str, object]:
    label, kind, _ = _labels(m)
    size = m.details.get("bytes", "")
    return {"name": m.name, "what": label, "of": kind, "bytes": size, "rate": m.rate, "unit": m.unit, "seconds": min(m.samples)}


def _write_csv(measured: Iterable[Measured]) -> None:
    rows = [_row(m) for m in measured]
    writer = csv.DictWriter(sys.stdout, list(rows[0]))
    writer.writeheader()
    writer.writerows({name: table.cell(value) for name, value in row.items()} for row in rows)
