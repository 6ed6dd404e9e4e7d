"""Files of shapes: rows of sizes, CSV with a header, or JSON lines, one shape a line.

Rows have the sizes in the workload's order, separated by blanks or commas. A CSV header names the sizes; it, and the objects of JSON lines,
may also name ``dtype`` and options. Blank lines and lines that begin with ``#`` are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from portatile.errors import ArgumentError, reason
from portatile.formats import bounded_reading
from portatile.records import Problem, Value
from portatile.workload import Workload
from portatile.workloads import precisions


def read(path: Path, workload: Workload, dtype: str, options: Mapping[str, Value], precision: str = "") -> tuple[Problem, ...]:
    """The problems in a file, each once, in the order of the file.

    ``dtype`` and ``options`` apply to rows that do not give their own. Products of a ``precision`` are problems of the workload that
    computes it. Raises ArgumentError with the number of a line that cannot be read, for a file without shapes, and where the
    ``precision`` leads to problems of several workloads.
    """
    names = list(workload.sizes)
    problems: dict[str, Problem] = {}
    for place, (number, line) in enumerate(_lines(path)):
        try:
            if line.startswith("{"):
                row: dict[str, Any] = msgspec.json.decode(line)
            else:
                cells = _cells(line)
                if place == 0 and not all(cell.isdigit() for cell in cells):  # the header
                    names = cells
                    continue
                if len(cells) != len(names):
                    raise ValueError(f"it has {len(cells)} numbers; a line is: {' '.join(names)}")
                row = dict(zip(names, cells, strict=True))
            problem = _problem(workload, row, dtype, options, precision)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, msgspec.DecodeError, csv.Error) as error:
            raise ArgumentError(f"{path}, line {number}: {error}") from None
        problems.setdefault(problem.key, problem)
    if not problems:
        raise ArgumentError(f"{path} holds no shapes; write one a line: {' '.join(names)}")
    computed = {problem.workload: problem.dtype for problem in problems.values()}
    if len(computed) > 1:
        which = ", ".join(f"{name} computes {kind}" for name, kind in computed.items())
        raise ArgumentError(f"{path}: with precision {precision} {which}; tune the shapes of each type by themselves")
    return tuple(problems.values())


def _lines(path: Path) -> list[tuple[int, str]]:
    """The lines with content, each with its number in the file."""
    try:
        lines = [(number, line.strip()) for number, line in enumerate(bounded_reading.content(path).decode("utf-8").splitlines(), 1)]
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} cannot be read: {reason(error)}") from None
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def _cells(line: str) -> list[str]:
    """The cells of a row, separated by commas if it has any, else by blanks."""
    return [cell.strip() for cell in (next(csv.reader([line], skipinitialspace=True)) if "," in line else line.split())]


def _problem(workload: Workload, row: Mapping[str, Any], dtype: str, options: Mapping[str, Value], precision: str) -> Problem:
    """The problem of one row: its sizes and options by name."""
    chosen: dict[str, Value] = dict(options)
    for name, value in row.items():
        if name in workload.sizes:
            chosen[name] = int(value)
        elif name in workload.options:
            chosen[name] = next((known for known in workload.options[name] if str(known).lower() == str(value).lower()), value)
        elif name != "dtype":
            chosen[name] = value  # an unknown name is refused with a list of the known ones
    return precisions.problem(precision, workload.name, str(row.get("dtype", dtype)), chosen)[0]
