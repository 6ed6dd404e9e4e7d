"""`study portability WORKLOAD`: each device's winner on every other device, and what it loses there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from portatile import device as devices
from portatile.cli import _console, _heat, _options, _tidy
from portatile.cli._workloads import per_workload
from portatile.device.base import Device
from portatile.errors import UsageError
from portatile.records import Problem, rate
from portatile.studies import heat, portability
from portatile.studies.portability import Row
from portatile.trials import Budget


@per_workload("portability")
@click.option("--device", "selectors", multiple=True, help="Device, as `portatile devices` names it; repeat. Default: all of them.")
@click.option("--tune", "budget", metavar="BUDGET", help="Tune on each device first: 30s, 200. Without: the best that is known.")
@click.option("--strategy", default="auto", show_default=True, help="How to tune.")
@_options.seed("operands and search")
@_tidy.OPTIONS[0]
@_tidy.OPTIONS[1]
@_tidy.OPTIONS[2]
def command(
    problem: Problem,
    selectors: tuple[str, ...],
    budget: str | None,
    strategy: str,
    seed: int,
    output: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Run each device's winner on every device; its time over that of the device's own winner is the loss.

    Nothing that fails ends the study: what a device's rules leave out is tried too, in a process of its own, and the table says how it
    ended. PP is Pennycook's measure of a winner: the harmonic mean of 1 / loss over the devices, 0 where one cannot run it.
    """
    target = _tidy.Target(output, as_json, as_csv, picture=True)
    chips = chosen(selectors)
    request = portability.Request((problem,), None if budget is None else Budget.parse(budget), strategy, seed)
    with _console.err.status("measuring") as status:
        rows = portability.matrix(chips, request, status.update if _console.err.is_terminal else _say)
    heats = [table(rows)]
    if target.give(Row, rows, lambda: heat.svg(heats)):
        return
    for made in heats:
        _heat.show(made)
    _console.out.print("\ndown: whose winner; across: where it runs; figures: its time over that of the device's own winner")
    notes(rows, chips)


def chosen(selectors: Sequence[str]) -> list[Device]:
    """The devices that are named, each once, or all but the simulator; raises UsageError for fewer than two."""
    named = [devices.get(selector) for selector in selectors]
    found = named or [device for device in devices.devices() if "oclgrind" not in device.info.platform.lower()]
    different = list({device.info.id: device for device in found}.values())
    if len(different) < 2:
        there = ", ".join(device.info.id for device in devices.devices())
        raise UsageError(f"portability takes two devices or more, and {len(different)} is chosen; there are: {there}")
    return different


def table(rows: Sequence[Row]) -> heat.Heat:
    """The losses as a table: a line for each winner, a column for each device, and PP."""
    places = list(dict.fromkeys(row.device for row in rows))
    scores = portability.scores(rows)
    lines = []
    for winner in places:
        mine = {row.device: row for row in rows if row.winner_of == winner}
        cells = [_cell(mine[place]) for place in places]
        score = scores[mine[winner].problem, mine[winner].dtype, winner]
        lines.append((*cells, heat.Cell(score, f"{score:.2f}", "harmonic mean of 1 / loss")))
    title = f"{rows[0].workload} {rows[0].problem} {rows[0].dtype}"
    return heat.Heat(title, "winner of", "on", tuple(places), (*places, "PP"), tuple(lines))


def _cell(row: Row) -> heat.Cell:
    if row.loss is None:
        return heat.Cell(None, row.status.partition(":")[0] or "?", row.status)
    mark = "*" if row.objection else ""
    return heat.Cell(min(1 / row.loss, 1.0), f"{row.loss:.2f}{mark}", f"{row.gflops:.1f} Gflop/s. {row.objection}".strip())


def notes(rows: Sequence[Row], chips: Sequence[Device]) -> None:
    """Who is who, where each winner comes from, why something did not run and what rules were passed over."""
    for chip in chips:
        own = next(row for row in rows if row.winner_of == row.device == chip.info.id)
        speed = "" if own.gflops is None else f", {rate(own.gflops, 'Gflop/s')}"
        _console.out.print(f"{chip.info.id}: {chip.info.name} ({chip.info.platform}){speed}; {own.found}", markup=False)
    for row in rows:
        if row.loss is None:
            _console.out.print(f"{row.winner_of} on {row.device}: {row.status}", markup=False)
    objections = list(dict.fromkeys((row.winner_of, row.device, row.objection) for row in rows if row.objection))
    for winner, place, objection in objections:
        _console.out.print(f"* {winner} on {place}: not in the device's space, it {objection}", markup=False)


def _say(text: str) -> None:
    _console.err.print(text, markup=False)
