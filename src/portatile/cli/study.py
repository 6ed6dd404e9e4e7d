"""Answer a question about devices by a sweep: the work-group's size, the worth of local memory. Tidy tables as CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from portatile import device as devices
from portatile.cli import Suggesting, _console
from portatile.device.base import Device
from portatile.errors import UsageError
from portatile.studies import memory, tidy, work_group


class Studies(Suggesting):
    """The group of studies."""

    noun = "study"
    plural = "Studies"


@click.group("study", cls=Studies)
def command() -> None:
    """Sweep over sizes and parameters on one or more devices; every result is checked."""


_device = click.option(
    "--device", "selectors", multiple=True, help="Device, as `portatile devices` names it; repeat. Default: the best one."
)
_output = click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the table here: .csv or .json.")
_json = click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON list.")
_csv = click.option("--csv", "as_csv", is_flag=True, help="Print the rows as comma-separated values.")


@command.command("work-group")
@click.option("--workload", type=click.Choice(["coulomb", "mri"]), required=True, help="coulomb: 16 x 1 to 16 x 32; mri: 16 to the most.")
@click.option("--scale", type=click.IntRange(min=1), default=1, show_default=True, help="Divides Parboil's sizes: 16 suits a small CPU.")
@click.option("--items", default="", help="Work-items of the groups to try, separated by commas; default: all.")
@_device
@_output
@_json
@_csv
def work_group_command(
    workload: str, scale: int, items: str, selectors: tuple[str, ...], output: Path | None, as_json: bool, as_csv: bool
) -> None:
    """Time over the work-group's size, with and without -cl-fast-relaxed-math, relative to the best of each device and option."""
    suffix = _suffix(output)
    chips = _chosen(selectors)
    chosen = _numbers(items, "--items") if items else ()
    request = work_group.Request(workload, work_group.usual_problem(workload, scale), items=chosen)
    total = sum(len(work_group.sizes(chip, request)) for chip in chips) * len(request.relaxed)
    with _console.bar("sweeping", total) as advance:
        rows = work_group.sweep(chips, request, advance)
    if not rows:
        raise UsageError(f"--items {items!r} names no work-group that {workload} has; leave it out to try all")
    if _given(work_group.Row, rows, (output, suffix), as_json, as_csv):
        return
    shown = [
        (r.device, r.work_group, "relaxed" if r.relaxed else "exact", _time(r.seconds), _figure(r.relative), _figure(r.error), _status(r))
        for r in rows
    ]
    columns = ("device", "work-group", "mathematics", "time", "relative", "error", "")
    _console.out.print(_console.table(f"{workload} {rows[0].problem}", columns, shown, left=3))


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
    """Matrix products from global memory and from tiles in local memory, over size and block."""
    suffix = _suffix(output)
    request = memory.Request(_numbers(sizes, "--sizes"), _numbers(blocks, "--blocks"), dtype)
    chips = _chosen(selectors)
    with _console.bar("sweeping", len(memory.points(request)) * len(chips)) as advance:
        rows = memory.sweep(chips, request, advance)
    if _given(memory.Row, rows, (output, suffix), as_json, as_csv):
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
        raise UsageError(f"{option} {text!r} is no list of sizes; write for example 128,256")
    return found


def _suffix(output: Path | None) -> str:
    if output is not None and output.suffix not in (".csv", ".json"):
        raise UsageError(f"{output}: tables are written as .csv or .json")
    return output.suffix if output is not None else ""


def _given(kind: type[Any], rows: Sequence[Any], target: tuple[Path | None, str], as_json: bool, as_csv: bool) -> bool:
    """Write the file and print data where that is asked for; whether the terminal's table is not wanted any more."""
    path, suffix = target
    if path is not None:
        try:
            path.write_text(tidy.as_json(rows) + "\n" if suffix == ".json" else tidy.to_csv(kind, rows), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"the table cannot be written: {error}") from error
    if as_json:
        click.echo(tidy.as_json(rows))
    elif as_csv:
        click.echo(tidy.to_csv(kind, rows), nl=False)
    return as_json or as_csv


def _time(value: float | None) -> str:
    return "" if value is None else _console.seconds(value)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _status(row: Any) -> str:
    return "" if row.status == "ok" else str(row.status)[:60]
