"""`study portability WORKLOAD`: each device's winner on every other device, and its loss there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from portatile import device as devices
from portatile.cli import _console, _heat, _options, _table_output
from portatile.cli._workloads import per_workload
from portatile.device.base import Device
from portatile.errors import UsageError
from portatile.records import Problem, rate
from portatile.studies import heat, portability
from portatile.studies.portability import PortabilityRow
from portatile.trials import Budget


@per_workload("portability")
@click.option("--device", "selectors", multiple=True, help="Device, as `portatile devices` names it; repeat. Default: all.")
@click.option("--recorded", "elsewhere", multiple=True, help="Another machine's device with stored results, such as 'h200 cuda'; repeat.")
@click.option(
    "--tune", "budget", metavar="BUDGET", help="Tune on each device first: 30s, 200. Without it the best known configuration is used."
)
@click.option("--strategy", default="auto", show_default=True, help="How to search.")
@_options.seed("operands and search")
@_table_output.OPTIONS[0]
@_table_output.OPTIONS[1]
@_table_output.OPTIONS[2]
def command(
    problem: Problem,
    selectors: tuple[str, ...],
    elsewhere: tuple[str, ...],
    budget: str | None,
    strategy: str,
    seed: int,
    output: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Run each device's winner on every device. The loss is its time over that of the device's own winner.

    No failure ends the study. Winners outside a device's space are tried too, in a separate process, and the table says how that
    ended. A recorded device is one that this machine lacks: its best known winner has a row and no column. PP is Pennycook's measure
    of a winner: the harmonic mean of 1 / loss over the devices, 0 where one cannot run it.
    """
    target = _table_output.TableOutput(output, as_json, as_csv, picture=True)
    opened = chosen(selectors, 1 if elsewhere else 2)
    recorded = tuple(info for text in elsewhere for info in portability.recorded_devices(problem.workload, text))
    request = portability.PortabilityRequest((problem,), None if budget is None else Budget.parse(budget), recorded, strategy, seed)
    with _console.err.status("measuring") as status:
        rows = portability.matrix(opened, request, status.update if _console.err.is_terminal else _say)
    heats = [table(rows)]
    if target.give(PortabilityRow, rows, lambda: heat.svg(heats)):
        return
    for made in heats:
        _heat.show(made)
    _console.out.print("\nrow: whose winner; column: where it runs; value: its time over that of the device's own winner")
    notes(rows, opened)


def chosen(selectors: Sequence[str], fewest: int = 2) -> list[Device]:
    """The named devices, each once, or all but the simulator; raises UsageError for too few."""
    named = [devices.get(selector) for selector in selectors]
    found = named or [device for device in devices.devices() if "oclgrind" not in device.info.platform.lower()]
    different = list({device.info.id: device for device in found}.values())
    if len(different) < fewest:
        there = ", ".join(device.info.id for device in devices.devices())
        some = "two devices or more, or one and --recorded"
        raise UsageError(f"portability needs {some}; {len(different)} chosen of {there}")
    return different


def table(rows: Sequence[PortabilityRow]) -> heat.Heat:
    """The losses as a table: a row for each winner, a column for each device, and PP."""
    places, winners = (list(dict.fromkeys(names)) for names in zip(*((row.device, row.winner_of) for row in rows), strict=True))
    scores = portability.scores(rows)
    lines = []
    for winner in winners:
        mine = {row.device: row for row in rows if row.winner_of == winner}
        cells = [_cell(mine[place]) for place in places]
        score = scores[rows[0].problem, rows[0].dtype, winner]
        lines.append((*cells, heat.Cell(score, f"{score:.2f}", "harmonic mean of 1 / loss")))
    title = f"{rows[0].workload} {rows[0].problem} {rows[0].dtype}"
    return heat.Heat(title, "winner of", "on", tuple(winners), (*places, "PP"), tuple(lines))


def _cell(row: PortabilityRow) -> heat.Cell:
    if row.loss is None:
        return heat.Cell(None, row.status.partition(":")[0] or "?", row.status)
    mark = "*" if row.objection else ""
    return heat.Cell(min(1 / row.loss, 1.0), f"{row.loss:.2f}{mark}", f"{row.gflops:.1f} Gflop/s. {row.objection}".strip())


def notes(rows: Sequence[PortabilityRow], opened: Sequence[Device]) -> None:
    """Print each device, where its winner comes from, why something did not run, and which constraints were ignored."""
    for one in opened:
        own = next(row for row in rows if row.winner_of == row.device == one.info.id)
        speed = "" if own.gflops is None else f", {rate(own.gflops, 'Gflop/s')}"
        _console.out.print(f"{one.info.id}: {one.info.name} ({one.info.platform}){speed}; {own.found}", markup=False)
    for name in dict.fromkeys(row.winner_of for row in rows):
        if all(name != one.info.id for one in opened):
            found = next(row.found for row in rows if row.winner_of == name)
            _console.out.print(f"{name}: another machine's device; {found}", markup=False)
    for row in rows:
        if row.changed:
            _console.out.print(
                f"{row.winner_of} on {row.device}: with {row.changed}, which the device has no instructions for", markup=False
            )
        if row.loss is None:
            _console.out.print(f"{row.winner_of} on {row.device}: {row.status}", markup=False)
    objections = list(dict.fromkeys((row.winner_of, row.device, row.objection) for row in rows if row.objection))
    for winner, place, objection in objections:
        _console.out.print(f"* {winner} on {place}: not in the device's space, it {objection}", markup=False)


def _say(text: str) -> None:
    _console.err.print(text, markup=False)
