"""Every set of several devices: a table of times beside predicted ones, and a picture of the newest run on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from portatile.figures import svg
from portatile.studies import hybrid
from recorded import Picture, Run, Table, markdown, runs

_HEAD = (
    "devices",
    "ms",
    "predicted, ms",
    "error of the prediction",
    "speed-up over the best",
    "share of the sum",
    "speed-up over one core",
    "division of the work",
    "host",
    "commit",
)


_ROUND = 1e3  # from which on a figure has all its digits before the point


def from_results(folder: Path) -> Iterator[Table | Picture]:
    """Of each problem the newest run on each set of devices and host; the picture: of the newest run, with several GPUs if there is one."""
    found = runs("hybrid", folder)
    newest = {(case["case"], *_host(run)): (run, case) for run in found for case in run.document["cases"]}
    for name in dict.fromkeys(case["case"] for _, case in newest.values()):
        chosen = [(run, case) for run, case in newest.values() if case["case"] == name]
        rows = [cells for run, case in chosen for cells in _rows(run, case)]
        slug = name.replace(" ", "-").replace("_", "-")
        files = frozenset(run.file for run, _ in chosen)
        yield Table(f"hybrid-{slug}", markdown(_HEAD, rows, numbers=False), files, f"Every set of devices: {name}")
    if newest:
        latest = max((run for run, _ in newest.values()), key=lambda run: (len(_gpus(run)) > 1, run.time))
        drawn = [chart for run, case in newest.values() if _host(run) == _host(latest) for chart in _charts(run, case)]
        yield Picture("hybrid.svg", svg.document(drawn))


def _gpus(run: Run) -> list[str]:
    return [one["id"] for one in run.document["devices"] if one["id"].startswith("cuda:")]


def _host(run: Run) -> tuple[str, ...]:
    """The devices of a run and its host, which is known by its cores."""
    return *(one["name"] for one in run.document["devices"]), str(run.document["cores"])


def _measured(case: Any) -> list[hybrid.HybridRow]:
    return [hybrid.HybridRow(**row) for row in case["rows"] if row["seconds"]]


def _named(run: Run, devices: str) -> str:
    """The devices of a row by their short names."""
    called = {one["id"]: one["short"] for one in run.document["devices"]}
    return " + ".join(called.get(name, name) for name in devices.split(" + "))


def _rows(run: Run, case: Any) -> Iterator[list[str]]:
    for row in _measured(case):
        assert row.seconds is not None
        predicted = "" if row.predicted is None else _short(1e3 * row.predicted)
        off = "" if row.off is None else f"{100 * row.off:+.0f} %"
        ratios = ["" if one is None else _short(one) for one in (row.best_speedup, row.efficiency, row.core_speedup)]
        host = f"{run.document['cores']} cores"
        yield [_named(run, row.devices), _short(1e3 * row.seconds / row.part), predicted, off, *ratios, row.shares, host, run.commit]


def _short(value: float) -> str:
    return f"{value:.3g}" if value < _ROUND else f"{value:.0f}"


def _charts(run: Run, case: Any) -> list[Any]:
    """The chart of speed-up over the best device alone, measured and predicted."""
    rows = [replace(row, devices=_named(run, row.devices)) for row in _measured(case)]
    charts = hybrid.figures(rows)[:1]
    return [replace(chart, title=f"{case['case']}: {chart.title[0].lower()}{chart.title[1:]}") for chart in charts]
