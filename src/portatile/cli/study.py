"""Answer a question about devices by a sweep: work-groups, local memory, portability, maps of parameters. Tidy tables as CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from portatile import device as devices
from portatile.cli import Suggesting, _console, _pairs, _portability, _table_output
from portatile.device.base import Device
from portatile.errors import UsageError
from portatile.records import duration
from portatile.studies import memory, work_group


class Studies(Suggesting):
    """The group of studies."""

    noun = "study"
    plural = "Studies"


@click.group("study", cls=Studies, commands=[_portability.command, _pairs.command])
def command() -> None:
    """Sweep over sizes and parameters on one or more devices. Every result is checked."""


_device = click.option(
    "--device", "selectors", multiple=True, help="Device, as `portatile devices` names it; repeat. Default: the best one."
)
_output, _json, _csv = _table_output.OPTIONS


@command.command("work-group")
@click.option("--workload", type=click.Choice(["coulomb", "mri"]), required=True, help="coulomb: 16 x 1 to 16 x 32; mri: 16 to the most.")
@click.option("--kind", type=click.Choice(["q", "fhd"]), help="For mri: Q (the default) or F^H d.")
@click.option("--scale", type=click.IntRange(min=1), default=1, show_default=True, help="Divides Parboil's sizes: 64 suits a small CPU.")
@click.option("--items", default="", help="Work-items of the groups to try, separated by commas; default: all.")
@_device
@_output
@_json
@_csv
def work_group_command(
    workload: str, kind: str | None, scale: int, items: str, selectors: tuple[str, ...], output: Path | None, as_json: bool, as_csv: bool
) -> None:
    """Time over the work-group's size, with and without -cl-fast-relaxed-math, relative to the best of each device and option."""
    if kind and workload != "mri":
        raise UsageError(f"--kind is only for --workload mri; leave it out for {workload}")
    target = _table_output.TableOutput(output, as_json, as_csv)
    opened = _chosen(selectors)
    chosen = _numbers(items, "--items") if items else ()
    request = work_group.WorkGroupRequest(workload, work_group.usual_problem(workload, scale, kind or "q"), items=chosen)
    total = sum(len(work_group.sizes(one, request)) for one in opened) * len(request.relaxed)
    with _console.bar("sweeping", total) as advance:
        rows = work_group.sweep(opened, request, advance)
    if not rows:
        raise UsageError(f"--items {items!r} names no work-group of {workload}; leave it out to try all")
    if target.give(work_group.WorkGroupRow, rows):
        return
    shown = [
        (r.device, r.work_group, "relaxed" if r.relaxed else "exact", _time(r.seconds), _figure(r.relative), _figure(r.error), _status(r))
        for r in rows
    ]
    columns = ("device", "work-group", "mathematics", "time", "relative", "error", "")
    _console.out.print(_console.table(" ".join(filter(None, (workload, rows[0].kind, rows[0].problem))), columns, shown, left=3))


@command.command("memory")
@click.option("--sizes", default="128,256,512,1024", show_default=True, help="Rows and columns of the matrices.")
@click.option("--blocks", default="2,4,8,16", show_default=True, help="Edges of work-group and tile.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True, help="Element type.")
@_device
@_output
@_json
@_csv
def memory_command(
    sizes: str, blocks: str, dtype: str, selectors: tuple[str, ...], output: Path | None, as_json: bool, as_csv: bool
) -> None:
    """Time matrix products from global memory and from tiles in local memory over size and block; small ones on the host too."""
    target = _table_output.TableOutput(output, as_json, as_csv)
    request = memory.MemoryRequest(_numbers(sizes, "--sizes"), _numbers(blocks, "--blocks"), dtype)
    opened = _chosen(selectors)
    total = len(memory.points(request)) * len(opened) + len(memory.on_the_host(request))
    with _console.bar("sweeping", total) as advance:
        rows = memory.sweep(opened, request, advance)
    if target.give(memory.MemoryRow, rows):
        return
    shown = [
        (
            r.device,
            r.algorithm,
            str(r.size),
            str(r.block),
            _time(r.kernel),
            _time(r.window),
            _figure(r.gflops),
            _share(r.reduction),
            _status(r),
        )
        for r in rows
    ]
    columns = ("device", "kernel", "size", "block", "kernel time", "with buffers", "Gflop/s", "saved", "")
    _console.out.print(_console.table(f"Square matrices, {dtype}", columns, shown, left=2))


def _chosen(selectors: Sequence[str]) -> list[Device]:
    return [devices.get(selector) for selector in selectors] or [devices.get()]


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise UsageError(f"{option} {text!r} is not a list of sizes; write for example 128,256")
    return found


def _time(value: float | None) -> str:
    return "" if value is None else duration(value)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _status(row: Any) -> str:
    return "" if row.status == "ok" else str(row.status)[:60]
