"""A study's rows as a tidy table: one observation a row, one variable a column, as CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from portatile.records import to_json


def columns(kind: type[Any]) -> tuple[str, ...]:
    """The variables of a row, in order: the fields of the dataclass ``kind``."""
    return tuple(field.name for field in fields(kind))


def to_csv(kind: type[Any], rows: Sequence[Any]) -> str:
    """Rows of the dataclass ``kind`` as comma-separated values with a header; nothing stands for None."""
    names = columns(kind)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if (value := getattr(row, name)) is None else value for name in names] for row in rows)
    return text.getvalue()


def as_json(rows: Sequence[Any]) -> str:
    """Rows as one JSON list of objects."""
    return to_json(list(rows)).decode()
