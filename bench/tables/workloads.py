"""What `workloads.py` measured, a table for each device: for its terminal, and the newest of everything recorded for the pages.

A row is a problem, or another form of it; its figures may come from several runs, each the newest in which that row was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from measure import slug
from portatile.figures import svg
from portatile.figures.shares import Dot, ShareChart
from recorded import Picture, Run, markdown, natural, processor, runs
from recorded import Table as Page

BACKENDS = {"cuda": "CUDA", "opencl": "OpenCL"}
USUAL = "as it comes"
SIDES = ("default", "tuned")
PEERS = ("peer", "copies")
_FUNCTIONS = {"mri": 2}  # of a pair: sine and cosine
CEILINGS = {"copy": 1e9, "fp32": 1e12, "fp64": 1e12, "mma": 1e12, "special": 1e12}
COLUMNS = ("", "us", "rate", "", "share of the ceiling", "to the peer", "default", "tuned")


@dataclass(frozen=True)
class Figure:
    """One form of one problem on one device: seconds, work a second, and what binds it. ``peer`` is its time over this one's."""

    seconds: float
    rate: float
    unit: str
    share: float | None = None
    ceiling: str = ""
    peer: float | None = None
    config: Mapping[str, Any] | None = None
    searched: int = 0
    commit: str = ""
    file: str = ""


@dataclass
class Line:
    """A problem's figures through each back end, by form."""

    forms: dict[str, dict[str, Figure]] = field(default_factory=dict)
    unit: str = ""


Table = dict[str, Line]


Ceilings = Mapping[str, Mapping[str, float]]  # by device and name


def figures(rows: Iterable[Mapping[str, Any]], ceilings: Ceilings, run: Run | None = None) -> Iterator[tuple[str, str, str, Figure]]:
    """(problem, device, form, figure) of a run's rows, those of peers left out: the last peer before a row is that row's."""
    peers: dict[str, float] = {}
    source = (run.commit, run.file) if run else ()
    for row in rows:
        if "samples" not in row:
            continue  # it failed, and says why
        seconds = median(row["samples"])
        if row["form"].endswith(PEERS):
            peers[row["problem"]] = seconds
        elif row["device"] in ceilings:
            peer = peers[row["problem"]] / seconds if row["problem"] in peers else None
            about = _share(row, seconds, ceilings), row.get("ceiling", ""), peer, row.get("config"), row.get("searched", 0), *source
            yield row["problem"], row["device"], row["form"], Figure(seconds, row["work"] / seconds, row["unit"], *about)


def _share(row: Mapping[str, Any], seconds: float, ceilings: Ceilings) -> float | None:
    """As it was recorded; in older results only the ceiling's name was, from which it follows where bytes or functions bind."""
    name, limits = row.get("ceiling"), ceilings[row["device"]]
    if "share" in row or name not in ("copy", "special") or name not in limits:
        return row.get("share")
    functions = _FUNCTIONS.get(row["problem"].split()[0], 1)
    return 1e9 * float(row["work"]) * functions / limits[name] / seconds


def add(table: Table, problem: str, backend: str, form: str, figure: Figure) -> None:
    """Put a figure into its line; what is neither as it comes nor beside that has a line of its own."""
    if form not in (USUAL, *SIDES):
        problem, form, figure = f"{problem}, {form}", USUAL, replace(figure, config=None)
    line = table.setdefault(problem, Line())
    line.unit = figure.unit
    forms = line.forms.setdefault(backend, {})
    if form == USUAL:  # of an older run the sides would stand beside another choice
        forms.clear()
    forms[form] = figure


def cells(table: Table) -> list[list[str]]:
    """The table's lines, as ``COLUMNS`` names them: one figure for each back end."""
    backends = [name for name in BACKENDS if any(name in line.forms for line in table.values())]
    columns = []
    for problem, line in table.items():
        usual = {name: line.forms.get(name, {}).get(USUAL) for name in backends}

        def joined(texts: Iterable[str]) -> str:
            words = list(texts)
            return " / ".join(text or "-" for text in words) if any(words) else ""

        shares = joined(f"{figure.share:.2f}" if figure and figure.share is not None else "" for figure in usual.values())
        bound = sorted({figure.ceiling for figure in usual.values() if figure and figure.ceiling})
        columns.append(
            [
                problem,
                joined(_figure(1e6 * figure.seconds) if figure else "" for figure in usual.values()),
                joined(_figure(figure.rate) if figure else "" for figure in usual.values()),
                line.unit,
                f"{shares} {', '.join(bound)}" if shares else "",
                joined(f"{figure.peer:.2f}" if figure and figure.peer else "" for figure in usual.values()),
                *(joined(_side(line.forms.get(name, {}), side) for name in backends) for side in SIDES),
            ]
        )
    return columns


def _side(forms: Mapping[str, Figure], side: str) -> str:
    """The rate of the default or of what a search found, or which of the others it is."""
    usual, one = forms.get(USUAL), forms.get(side)
    if one is None:
        known = usual is not None and usual.config is not None and (side == "default" or usual.searched)
        return "=" if known else ""
    default = forms.get("default")
    if side == "tuned" and default is not None and one.config == default.config:
        return f"default {_figure(one.rate)}"
    return _figure(one.rate)


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}" if value >= 100 else f"{value:.3g}"


def tables(recorded: Iterable[Run]) -> dict[str, Table]:
    """By the device's name: of every row the newest figure."""
    by_title: dict[str, Table] = {}
    for run in recorded:
        document = run.document
        titles = {device["id"]: _title(device) for device in document["devices"]}
        ceilings = {device: document.get("ceilings", {}).get(device, {}) for device in titles}
        for problem, device, form, figure in figures(document["rows"], ceilings, run):
            add(by_title.setdefault(titles[device], {}), problem, device.partition(":")[0], form, figure)
    return by_title


def _title(device: Mapping[str, str]) -> str:
    name = processor(device["name"])
    if name.startswith("NVIDIA"):
        return name
    return f"{name}, PoCL {device['driver']}" if name != device["name"].replace("(R)", "") else f"{name}, driver {device['driver']}"


def from_results(folder: Path) -> Iterator[Page | Picture]:
    """A table for each device, a table of the limits of the devices, and a picture of the shares on a GPU and a CPU."""
    recorded = runs("workloads", folder)
    listed = sorted(tables(recorded).items(), key=lambda item: ("NVIDIA" not in item[0], -len(item[1]), item[0]))
    for title, table in listed:
        ordered = dict(sorted(table.items(), key=lambda item: natural(item[0])))
        rows = []
        for text, line in zip(cells(ordered), ordered.values(), strict=True):
            commits = sorted({form.commit for forms in line.forms.values() for form in forms.values()})
            rows.append([*text, ", ".join(commits)])
        files = {form.file for line in table.values() for forms in line.forms.values() for form in forms.values()}
        yield Page(f"workloads-{slug(title)}", markdown(("problem", *COLUMNS[1:], "commit"), rows), frozenset(files), title)
    yield _ceilings(recorded)
    charts = {"NVIDIA" in title: chart for title, table in reversed(listed) if (chart := _shares(title, table)).rows}
    if charts:  # of the GPU and of the CPU with the most problems
        yield Picture("workloads.svg", svg.document([charts[on_gpu] for on_gpu in sorted(charts, reverse=True)]))


def _shares(title: str, table: Table) -> ShareChart:
    """The share of its ceiling that each problem reaches on a device, a row for each workload."""
    series = tuple(name for backend, name in BACKENDS.items() if any(backend in line.forms for line in table.values()))
    rows: dict[str, list[Dot]] = {}
    for problem, line in sorted(table.items(), key=lambda item: natural(item[0])):
        for backend, forms in line.forms.items():
            figure = forms.get(USUAL)
            if figure is not None and figure.share is not None and ", " not in problem:
                label = f"{problem}, {BACKENDS[backend]}: {figure.share:.2f} of {figure.ceiling}"
                rows.setdefault(problem.split()[0], []).append(Dot(figure.share, None, label, "", series.index(BACKENDS[backend])))
    text = "Each mark is a problem: the share of its ceiling, the measured limit of memory, arithmetic or special functions."
    return ShareChart(title, text, "share of the ceiling", tuple((row, tuple(dots)) for row, dots in rows.items()), series)


def _ceilings(recorded: Iterable[Run]) -> Page:
    """The newest ceilings of each device, through each back end."""
    known: dict[tuple[str, str], tuple[Run, Mapping[str, float]]] = {}
    for run in recorded:
        for device in run.document["devices"]:
            if ceilings := run.document.get("ceilings", {}).get(device["id"]):
                known[_title(device), BACKENDS[device["id"].partition(":")[0]]] = run, ceilings
    rows = [
        [
            f"{title}, {backend}",
            *(_figure(ceilings[name] / unit) if name in ceilings else "" for name, unit in CEILINGS.items()),
            run.commit,
        ]
        for (title, backend), (run, ceilings) in sorted(known.items())
    ]
    head = ("", "copy, GB/s", "fp32, Tflop/s", "fp64, Tflop/s", "mma, Tflop/s", "special, T/s", "commit")
    return Page("ceilings", markdown(head, rows), frozenset(run.file for run, _ in known.values()))
