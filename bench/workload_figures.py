#!/usr/bin/env python3
"""What `workloads.py` measured, a table for each device: for the terminal, and of the newest results as docs/measurements/workloads.md.

    python3 bench/workload_figures.py

A row is a problem, or another form of it; its figures may come from several runs, each the newest in which that row was measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from measure import HERE, RESULTS

DOCS = HERE.parent / "docs"
BACKENDS = {"cuda": "CUDA", "opencl": "OpenCL"}
USUAL = "as it comes"
SIDES = ("default", "tuned")
PEERS = ("peer", "copies")
_FUNCTIONS = {"mri": 2}  # of a pair: sine and cosine
COLUMNS = ("", "us", "rate", "", "share of the ceiling", "to the peer", "default", "tuned")

_HEAD = """# Figures of filters, potentials, reconstruction

Written by `bench/workload_figures.py` from `bench/results/workloads-*.json`, where the samples are: of each row the newest reading.
Where a device is reached through two back ends, figures are CUDA / OpenCL. Every result was checked before it was timed.

- **us**, **rate**: of a run as a call makes it, without tuning by the user, on memory of the device; the median of some bursts.
  Bytes are the least that must be moved: each input read once, each output written once. Volumes and orbitals are counted as passes, axis
  after axis, each of which reads and writes everything; where two axes are filtered at once less is moved, and shares may be above 1.
- **share of the ceiling**: how much of the run the resource takes at best that binds most, by what the device itself did in the same run:
  `copy` its memory, `fp32`, `fp64` its multiply-adds, `mma` its matrix units, `special` the unit of inverse roots, sines and cosines,
  which shared polynomials relieve, so that shares may be above 1.
- **to the peer**: its time over ours, in the same run. On GPUs PyTorch: a copy of as many bytes, its triad, its triangular solver. On CPUs
  SciPy's `convolve1d`, or the text that one writes first.
- **default**, **tuned**: the rate of the workload's own default, and of the best configuration that a short search found. `=` is the
  configuration of the call, and `default` where the search ended at that; nothing: not asked.
"""


@dataclass(frozen=True)
class Reading:
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


@dataclass
class Line:
    """A problem's readings through each back end, by form."""

    forms: dict[str, dict[str, Reading]] = field(default_factory=dict)
    unit: str = ""


Table = dict[str, Line]


Ceilings = Mapping[str, Mapping[str, float]]  # by device and name


def readings(rows: Iterable[Mapping[str, Any]], ceilings: Ceilings, commit: str = "") -> Iterator[tuple[str, str, str, Reading]]:
    """(problem, device, form, reading) of a run's rows, those of peers left out: the last peer before a row is that row's."""
    peers: dict[str, float] = {}
    for row in rows:
        if "samples" not in row:
            continue  # it failed, and says why
        seconds = median(row["samples"])
        if row["form"].endswith(PEERS):
            peers[row["problem"]] = seconds
        elif row["device"] in ceilings:
            peer = peers[row["problem"]] / seconds if row["problem"] in peers else None
            about = _share(row, seconds, ceilings), row.get("ceiling", ""), peer, row.get("config"), row.get("searched", 0), commit
            yield row["problem"], row["device"], row["form"], Reading(seconds, row["work"] / seconds, row["unit"], *about)


def _share(row: Mapping[str, Any], seconds: float, ceilings: Ceilings) -> float | None:
    """As it was recorded; in older results only the ceiling's name was, from which it follows where bytes or functions bind."""
    name, limits = row.get("ceiling"), ceilings[row["device"]]
    if "share" in row or name not in ("copy", "special") or name not in limits:
        return row.get("share")
    functions = _FUNCTIONS.get(row["problem"].split()[0], 1)
    return 1e9 * float(row["work"]) * functions / limits[name] / seconds


def add(table: Table, problem: str, backend: str, form: str, reading: Reading) -> None:
    """Put a reading into its line; what is neither as it comes nor beside that has a line of its own."""
    if form not in (USUAL, *SIDES):
        problem, form, reading = f"{problem}, {form}", USUAL, replace(reading, config=None)
    line = table.setdefault(problem, Line())
    line.unit = reading.unit
    forms = line.forms.setdefault(backend, {})
    if form == USUAL:  # of an older run the sides would stand beside another choice
        forms.clear()
    forms[form] = reading


def cells(table: Table) -> list[list[str]]:
    """The table's lines, as ``COLUMNS`` names them: one figure for each back end."""
    backends = [name for name in BACKENDS if any(name in line.forms for line in table.values())]
    found = []
    for problem, line in table.items():
        usual = {name: line.forms.get(name, {}).get(USUAL) for name in backends}

        def joined(texts: Iterable[str]) -> str:
            told = list(texts)
            return " / ".join(text or "-" for text in told) if any(told) else ""

        shares = joined(f"{one.share:.2f}" if one and one.share is not None else "" for one in usual.values())
        bound = sorted({one.ceiling for one in usual.values() if one and one.ceiling})
        found.append(
            [
                problem,
                joined(_figure(1e6 * one.seconds) if one else "" for one in usual.values()),
                joined(_figure(one.rate) if one else "" for one in usual.values()),
                line.unit,
                f"{shares} {', '.join(bound)}" if shares else "",
                joined(f"{one.peer:.2f}" if one and one.peer else "" for one in usual.values()),
                *(joined(_side(line.forms.get(name, {}), side) for name in backends) for side in SIDES),
            ]
        )
    return found


def _side(forms: Mapping[str, Reading], side: str) -> str:
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


def tables(folder: Path | None = None) -> dict[str, Table]:
    """By the device's name: of every row the newest reading."""
    found: dict[str, Table] = {}
    runs = [json.loads(path.read_text()) for path in (folder or RESULTS).glob("workloads-*.json")]
    for run in sorted(runs, key=lambda run: str(run["time"])):
        titles = {device["id"]: _title(device) for device in run["devices"]}
        ceilings = {device: run.get("ceilings", {}).get(device, {}) for device in titles}
        for problem, device, form, reading in readings(run["rows"], ceilings, run["commit"].split()[0][:7]):
            add(found.setdefault(titles[device], {}), problem, device.partition(":")[0], form, reading)
    return found


def _title(device: Mapping[str, str]) -> str:
    name = device["name"].replace("(R)", "")
    return name if name.startswith("NVIDIA") else f"{name}, driver {device['driver']}"


def page(found: Mapping[str, Table]) -> str:
    """The text of docs/measurements/workloads.md."""
    parts = [_HEAD]
    for title, table in sorted(found.items(), key=lambda item: -len(item[1])):
        head = ("problem", *COLUMNS[1:], "commit")
        lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        ordered = dict(sorted(table.items(), key=lambda item: _order(item[0], table)))
        for text, line in zip(cells(ordered), ordered.values(), strict=True):
            commits = sorted({one.commit for forms in line.forms.values() for one in forms.values()})
            lines.append(f"| {' | '.join([*text, ', '.join(commits)])} |")
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _order(problem: str, table: Table) -> tuple[int, int]:
    """Workload by workload, in the order in which they were first measured."""
    names = list(dict.fromkeys(name.split()[0].rstrip(",") for name in table))
    return names.index(problem.split()[0].rstrip(",")), list(table).index(problem)


if __name__ == "__main__":
    target = DOCS / "measurements" / "workloads.md"
    target.write_text(page(tables()))
    print(target)
