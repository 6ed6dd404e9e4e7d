"""A study's rows as a tidy table (one observation per row, one variable per column), as CSV, JSON and readable text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from portatile.figures.quantities import written
from portatile.formatting import duration, percent
from portatile.records import to_json
from portatile.studies.framework.study import Column

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
LONGEST = 60  # letters of a cell in a terminal


def columns(kind: type[Any]) -> tuple[str, ...]:
    """The variables of a row, in order: the fields of the dataclass ``kind``."""
    return tuple(field.name for field in fields(kind))


def to_csv(kind: type[Any], rows: Sequence[Any]) -> str:
    """Rows of the dataclass ``kind`` as comma-separated values with a header; None is an empty cell."""
    names = columns(kind)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([cell(getattr(row, name)) for name in names] for row in rows)
    return text.getvalue()


def cell(value: object) -> object:
    """A value as a cell. Text that a spreadsheet would take for a formula stands behind an apostrophe, as spreadsheets write it."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


def as_json(rows: Sequence[Any]) -> str:
    """Rows as one JSON list of objects."""
    return to_json(list(rows)).decode()


def legend(shown: Sequence[Column], rows: Sequence[Any]) -> str:
    """An explanation of the column of errors, where there is one; else empty."""
    with_errors = any(column.name == "error" and any(getattr(row, "error", None) is not None for row in rows) for column in shown)
    return "error: the result's largest, as a share of the bound that rounding allows; up to 1 is right." if with_errors else ""


@dataclass(frozen=True)
class ReadableTable:
    """The rows for people: headings and cells; empty columns are gone. The first ``left`` columns are text; ``texts`` are all that are."""

    headings: tuple[str, ...]
    left: int
    texts: frozenset[int]
    cells: tuple[tuple[str, ...], ...]


def readable(shown: Sequence[Column], rows: Sequence[Any], longest: int = LONGEST) -> ReadableTable:
    """The columns of a study with their units, text cut to ``longest`` letters; the status of a row that is as it should be is left out."""
    cells = [[_cell(getattr(row, column.name), column, longest) for column in shown] for row in rows]
    used = [place for place in range(len(shown)) if any(line[place] for line in cells)]
    texts = frozenset(
        number for number, place in enumerate(used) if all(isinstance(getattr(row, shown[place].name), str | None) for row in rows)
    )
    left = next((number for number in range(len(used)) if number not in texts), len(used))
    headings = tuple(shown[place].heading for place in used)
    return ReadableTable(headings, left, texts, tuple(tuple(line[place] for place in used) for line in cells))


def _cell(value: Any, column: Column, longest: int) -> str:
    if value is None or (column.name == "status" and value == "ok"):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.splitlines()[0][:longest] if value else ""
    if column.unit == "s":
        return duration(value)
    return percent(value) if column.unit == "%" else str(value) if isinstance(value, int) else written(value)
