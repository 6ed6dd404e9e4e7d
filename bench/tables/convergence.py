"""The newest recorded searches of every device and problem: a table of how soon they were near the best, and a picture of each search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor
from pathlib import Path
from typing import Any

from convergence import line
from recorded import Picture, Run, Table, markdown, runs

GOALS = (0.95, 0.98)
Curve = Sequence[Sequence[float]]
"""Seconds from the start of the process, and the share of the best known that the best so far has from then on."""

_WIDTH, _HEIGHT, _ACROSS = 380, 190, 2  # of a panel; panels in a row
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 30, 30
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.end{text-anchor:end}.mid{text-anchor:middle}.page{fill:#fff}"
    ".grid{stroke:#ddd}.goal{stroke:#777;stroke-dasharray:4 3}.run{fill:none;stroke:#0072b2;stroke-width:1.7;stroke-opacity:.75}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#333}.goal{stroke:#999}.page{fill:#0d1117}.run{stroke:#56b4e9}}"
)


@dataclass(frozen=True)
class Panel:
    """The searches of one problem on one device."""

    title: str
    curves: Sequence[Curve]
    seconds: float
    """What is shown; the budget of every search."""


def newest(recorded: Iterable[Run]) -> dict[str, tuple[Run, Mapping[str, Any]]]:
    """Of each problem on each device the newest searches, GPUs first."""
    by_title = {_title(series): (run, series) for run in recorded for series in run.document["series"]}
    return dict(sorted(by_title.items(), key=lambda item: ("PoCL" in item[0], item[0])))


def panels(by_title: Mapping[str, tuple[Run, Mapping[str, Any]]]) -> list[Panel]:
    """What the picture shows of them."""
    return [Panel(title, series["curves"], max(run["seconds"] for run in series["runs"])) for title, (_, series) in by_title.items()]


def from_results(folder: Path) -> Iterator[Table | Picture]:
    """The table and the picture."""
    by_title = newest(runs("convergence", folder))
    rows = []
    for title, (run, series) in by_title.items():
        _, speed, first, rate, *goals, end = line(dict(series), ())
        rows.append([title, run.document["budget"], f"{float(speed) / 1e3:.3g}", first, rate, *goals, end, run.commit])
    within = [f"within {1 - goal:.0%} for good, s: median / worst" for goal in GOALS]
    head = ("", "budget", "best, Tflop/s", "first trial, s", "trials a minute", *within, "at the end: median / worst", "commit")
    yield Table("convergence", markdown(head, rows), frozenset(run.file for run, _ in by_title.values()))
    yield Picture("convergence.svg", picture(panels(by_title)))


def _title(series: Mapping[str, Any]) -> str:
    task, device = series["task"], series["runs"][0]["device"]
    sizes = list(dict.fromkeys(task["sizes"].values()))
    shape = f"{sizes[0]}^3" if len(sizes) == 1 else " x ".join(map(str, task["sizes"].values()))
    platform = {"NVIDIA CUDA": "OpenCL", "Portable Computing Language": "PoCL"}.get(device["platform"], device["platform"])
    where = device["name"].replace("(R)", "").removeprefix("pthread-")
    through = "CUDA" if device["id"].startswith("cuda") else platform
    return f"{where}, {through}: {task['workload']} {shape} {task['dtype']}"


def picture(shown: Sequence[Panel]) -> str:
    """A self-contained SVG."""
    rows = ceil(len(shown) / _ACROSS)
    width, height = _WIDTH * _ACROSS, _HEIGHT * rows
    parts = [part for place, panel in enumerate(shown) for part in _panel(panel, place % _ACROSS * _WIDTH, place // _ACROSS * _HEIGHT)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    about = "<title>The best so far of every search, as a share of the best known, against seconds from its start</title>"
    return f'{head}{about}<style>{_STYLE}</style><rect class="page" width="100%" height="100%"/>{"".join(parts)}</svg>\n'


def _panel(panel: Panel, left: int, top: int) -> Iterator[str]:
    low = min(0.8, floor(10 * min(share for curve in panel.curves for _, share in curve)) / 10)
    west, east, north, south = left + _LEFT, left + _WIDTH - _RIGHT, top + _TOP, top + _HEIGHT - _BOTTOM

    def across(seconds: float) -> float:
        return west + (east - west) * seconds / panel.seconds

    def down(share: float) -> float:
        return south - (south - north) * (share - low) / (1 - low)

    yield _text("title", west, top + 18, panel.title)
    for tenth in range(round(10 * low), 11):
        y = down(tenth / 10)
        yield f'<path class="grid" d="M{west} {y:.1f}H{east}"/>' + _text("end", west - 6, y + 4, f"{tenth / 10:g}")
    yield "".join(f'<path class="goal" d="M{west} {down(goal):.1f}H{east}"/>' for goal in GOALS)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if panel.seconds / step <= 6)
    yield "".join(_text("mid", across(at), south + 16, f"{at} s") for at in range(0, floor(panel.seconds) + 1, step))
    for number, curve in enumerate(panel.curves):
        (first, share), *rest = curve
        path = f"M{across(first):.1f} {south}V{down(share):.1f}" + "".join(f"H{across(at):.1f}V{down(value):.1f}" for at, value in rest)
        label = f"search {number + 1}: first trial after {first:.1f} s with {share:.2f} of the best, {curve[-1][1]:.2f} at the end"
        yield f'<path class="run" d="{path}"><title>{escape(label)}</title></path>'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
