"""A study's rows as a tidy table: one observation a row, one variable a column, as CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from portatile.records import to_json

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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
