"""The data behind each chart: tidy tables as CSV, and every trial as one JSON document."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable, Sequence

from portatile.records import to_json
from portatile.reports import formatting
from portatile.reports.effects import Effect
from portatile.reports.groups import Group
from portatile.trials import Trial

Cell = str | int | float | bool | None


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """RFC 4180, with a line of names; None and infinities are empty, numbers unrounded."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def uri(text: str | bytes, kind: str = "text/csv") -> str:
    """A link that holds the text itself, so that the page needs no other file."""
    raw = text.encode() if isinstance(text, str) else text
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(raw).decode()}"


def summary_csv(groups: Sequence[Group]) -> str:
    """A row for each problem and device; the dictionaries are spelled."""
    rows = [{**group.summary()} for group in groups]
    for row, group in zip(rows, groups, strict=True):
        row["sizes"], row["options"] = formatting.config(group.problem.sizes), formatting.config(group.problem.options)
        row["config"] = "" if group.best is None else formatting.config(group.best.config)
    cells: list[list[Cell]] = [[value if isinstance(value, (str, int, float)) else None for value in row.values()] for row in rows]
    return csv_text(list(rows[0]) if rows else [], cells)


def trials_csv(group: Group) -> str:
    """A row for each trial, in order, with a column for each parameter."""
    names = list(dict.fromkeys(name for trial in group.trials for name in trial.config))
    columns = ["trial", "elapsed_seconds", "status", "seconds_per_run", "best_seconds_per_run", "error", *names]
    rows: list[list[Cell]] = []
    for step in group.steps:
        trial = step.trial
        figures: list[Cell] = [step.number, round(step.elapsed, 6), trial.status, trial.comparable, step.best, trial.error]
        rows.append(figures + [trial.config.get(name) for name in names])
    return csv_text(columns, rows)


def importance_csv(effects: Sequence[Effect]) -> str:
    """The share of the variance of log(time) that each parameter explains alone."""
    return csv_text(("parameter", "variance_explained"), [(effect.name, effect.share) for effect in effects])


def effects_csv(effects: Sequence[Effect]) -> str:
    """Times in seconds for each value of each parameter."""
    columns = ("parameter", "value", "valid", "failed", "fastest", "quartile_1", "median", "quartile_3", "slowest")
    rows: list[list[Cell]] = []
    for effect in effects:
        for value_effect in effect.values:
            head: list[Cell] = [effect.name, value_effect.value, len(value_effect.times), value_effect.failed]
            rows.append(head + [value_effect.quantile(share) for share in (0, 0.25, 0.5, 0.75, 1)])
    return csv_text(columns, rows)


def failures_csv(group: Group) -> str:
    """Every message with how often it came."""
    rows = [(failure.kind, count, message) for failure in group.failures for message, count in failure.messages]
    return csv_text(("kind", "count", "message"), rows)


def best_csv(group: Group) -> str:
    """Every valid configuration, fastest first."""
    names = list(dict.fromkeys(name for trial in group.ranked for name in trial.config))
    rows: list[list[Cell]] = []
    for place, trial in enumerate(group.ranked, 1):
        figures: list[Cell] = [place, trial.comparable, trial.spread, group.speedup(trial), trial.error]
        rows.append(figures + [trial.config.get(name) for name in names])
    return csv_text(("place", "seconds_per_run", "spread", "speedup", "error", *names), rows)


def trials_json(groups: Sequence[Group]) -> bytes:
    """Every trial with all its samples; ``problem`` and ``device`` are places in the lists of the same names."""
    problems, devices = _NumberedRecords(), _NumberedRecords()
    trials = []
    for group in groups:
        for trial in group.trials:
            places = {"problem": problems.place(trial.problem), "device": devices.place(trial.device)}
            trials.append(_fields(trial) | places)
    return to_json({"problems": problems.records, "devices": devices.records, "trials": trials})


class _NumberedRecords:
    """Records, each once, and where they stand."""

    def __init__(self) -> None:
        self.records: list[object] = []
        self._places: dict[bytes, int] = {}

    def place(self, record: object) -> int:
        key = to_json(record)
        if key not in self._places:
            self._places[key] = len(self.records)
            self.records.append(record)
        return self._places[key]


def _fields(trial: Trial) -> dict[str, object]:
    return {name: value for name, value in vars(trial).items() if name not in ("problem", "device")}


def _cell(cell: Cell) -> Cell:
    if isinstance(cell, float) and not math.isfinite(cell):
        return ""
    return formatting.value(cell) if isinstance(cell, bool) else cell
