"""`study map WORKLOAD`: the speed over every pair of values of two parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from portatile import device as devices
from portatile import workloads
from portatile.cli import _console, _heat, _options, _table_output
from portatile.cli._workloads import per_workload
from portatile.errors import ArgumentError, UnknownNameError, UsageError
from portatile.records import Problem, Value, duration
from portatile.space import ParameterSpace
from portatile.studies import heat, pairs
from portatile.studies.pairs import PairsRow


@per_workload("map")
@click.option("--down", required=True, metavar="NAME[=VALUES]", help="The parameter of the rows: TRR, or TRR=1,2,4 for some of its values.")
@click.option("--across", required=True, metavar="NAME[=VALUES]", help="The parameter of the columns, in the same way.")
@click.option("--fix", "fixed", multiple=True, metavar="NAME=VALUES", help="Values that another parameter may take; repeat.")
@click.option("--tries", type=click.IntRange(min=1), default=4, show_default=True, help="Configurations for each pair.")
@_options.device()
@_options.seed("what is tried")
@_table_output.OPTIONS[0]
@_table_output.OPTIONS[1]
@_table_output.OPTIONS[2]
def command(
    problem: Problem,
    down: str,
    across: str,
    fixed: tuple[str, ...],
    tries: int,
    device: str | None,
    seed: int,
    output: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Measure every pair of values of two parameters; a few tries for each pair choose the others.

    Every pair starts from the best configuration known for the problem, so tune it first. Every result is checked.
    """
    target = _table_output.TableOutput(output, as_json, as_csv, picture=True)
    opened = devices.get(device)
    space = workloads.get(problem.workload).space(problem, opened.info)
    names, only = [], {}
    for word in (down, across, *fixed):
        name, values = parameter(space, word)
        names.append(name)
        if values:
            only[name] = values
        elif word in fixed:
            raise ArgumentError(f"--fix {word}: write {name}=VALUE, of {', '.join(map(str, space.parameters[name]))}")
    request = pairs.PairsRequest(problem, names[0], names[1], only, tries, seed=seed)
    with _console.bar("measuring", len(pairs.pairs(space, request)) * tries) as advance:
        rows = pairs.sweep(opened, request, advance)
    made = table(rows)
    if target.give(PairsRow, rows, lambda: heat.svg([made])):
        return
    if not any(row.seconds for row in rows):
        raise UsageError(f"no configuration of the map is valid on {opened.info.name}: {next(row.status for row in rows)}")
    _heat.show(made)
    best = max((row for row in rows if row.gflops is not None), key=lambda row: row.relative or 0.0)
    missing = sum(row.seconds is None for row in rows)
    tail = f"; {_console.counted(missing, 'pair')} without a valid configuration" if missing else ""
    _console.out.print(
        f"\non {opened.info.name} ({opened.info.platform}, {opened.info.id}): {_unit(problem)}, the best of at most {tries} each{tail}"
    )
    _console.out.print(f"best: {best.down}={best.down_value} {best.across}={best.across_value}: {best.config}", markup=False)


def parameter(space: ParameterSpace, word: str) -> tuple[str, tuple[Value, ...]]:
    """A parameter and the values in a word like ``TRR=1,2``; no values for the name alone."""
    name, sign, text = word.partition("=")
    if name not in space.parameters:
        raise UnknownNameError("parameter", name, space.parameters)
    spelled = {str(value).lower(): value for value in space.parameters[name]}
    found = []
    for part in text.split(",") if sign else ():
        if part.strip().lower() not in spelled:
            raise ArgumentError(f"{word}: {part!r} is not one of {', '.join(map(str, space.parameters[name]))}")
        found.append(spelled[part.strip().lower()])
    return name, tuple(found)


def table(rows: Sequence[PairsRow]) -> heat.Heat:
    """The map as a table, without rows and columns that have no legal configuration."""
    found: Mapping[tuple[Value, Value], PairsRow] = {(row.down_value, row.across_value): row for row in rows}
    held = [row for row in rows if row.tried] or list(rows)
    downs, acrosses = (list(dict.fromkeys(getattr(row, name) for row in held)) for name in ("down_value", "across_value"))
    cells = tuple(tuple(_cell(found[down, across]) for across in acrosses) for down in downs)
    title = f"{rows[0].workload} {rows[0].problem} {rows[0].dtype} on {rows[0].name}"
    return heat.Heat(title, rows[0].down, rows[0].across, tuple(map(str, downs)), tuple(map(str, acrosses)), cells)


def _cell(row: PairsRow) -> heat.Cell:
    if row.seconds is None:
        return heat.Cell(None, "-" if not row.tried else row.status.partition(":")[0], row.status)
    text = f"{row.gflops:.4g}" if row.gflops else duration(row.seconds)
    return heat.Cell(row.relative, text, f"{row.relative:.0%} of the best; {row.config}")


def _unit(problem: Problem) -> str:
    return "Gflop/s" if workloads.get(problem.workload).flops(problem) else "time"
