"""What each device's winner loses on the others: the newest matrix of each problem on each set of devices; and maps of two parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from portatile.figures import svg
from portatile.figures.heat import Cell, Heat
from recorded import PLATFORMS, Picture, Run, Table, markdown, processor, runs

Row = Mapping[str, Any]


def from_results(folder: Path) -> Iterator[Table | Picture]:
    """A table for each set of devices that took part, and a table of the maps for each problem; a picture of all maps."""
    recorded = runs("portability", folder)
    matrices: dict[str, tuple[Run, list[Row]]] = {}
    maps: dict[str, tuple[Run, list[Row]]] = {}
    for run in recorded:
        if run.document["rows"]:
            matrices[", ".join(sorted({processor(row["name"]) for row in run.document["rows"]}))] = run, run.document["rows"]
        by_problem: dict[str, list[Row]] = {}
        for row in run.document["maps"]:
            by_problem.setdefault(f"{row['name']}, {row['problem']} {row['dtype']}", []).append(row)
        maps |= {name: (run, rows) for name, rows in by_problem.items()}
    for title, (run, rows) in sorted(matrices.items()):
        yield Table(f"portability-{_slug(title)}", _matrix(rows, run), frozenset({run.file}), title)
    for title, (run, rows) in sorted(maps.items()):
        yield Table(f"map-{_slug(title)}", _map(rows, run), frozenset({run.file}), title)
    if maps:
        yield Picture("maps.svg", svg.document([heat for title, (_, rows) in sorted(maps.items()) for heat in _heats(title, rows)]))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _through(row: Row) -> str:
    return "CUDA" if row["device"].startswith("cuda") else PLATFORMS.get(row["platform"], "OpenCL")


def _matrix(rows: list[Row], run: Run) -> str:
    """Time over that of the device's own winner; a star where its rules leave the configuration out."""
    titles = {row["device"]: f"on {processor(row['name'])}, {_through(row)}" for row in rows}
    own = {row["winner_of"]: titles[row["device"]].removeprefix("on ") for row in rows if row["winner_of"] == row["device"]}
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        star = "*" if row["objection"] else ""
        cell = "failed" if row["loss"] is None else f"{row['loss']:.0f}{star}" if row["loss"] >= 10 else f"{row['loss']:.2f}{star}"
        winner = own.get(row["winner_of"], _elsewhere(row["winner_of"]))
        found.setdefault((shape(row["problem"]), row["dtype"], winner), {})[row["device"]] = cell
    lines = [
        [f"{problem} {dtype}", winner, *(cells.get(device, "") for device in titles)] for (problem, dtype, winner), cells in found.items()
    ]
    return markdown(("problem", "winner of", *titles.values()), lines) + f"\nCommit {run.commit}.\n"


def _elsewhere(winner: str) -> str:
    """A device that took no part but whose winner did: ``opencl pthread-NAME``."""
    backend, _, name = winner.partition(" ")
    return f"{name.replace('(R)', '')}, {'CUDA' if backend == 'cuda' else 'OpenCL'}"


def shape(text: str) -> str:
    """``m=512 n=512 k=512`` as 512."""
    sizes = [part.partition("=")[2] for part in text.split()]
    return sizes[0] if len(set(sizes)) == 1 else " x ".join(sizes)


def _map(rows: list[Row], run: Run) -> str:
    """Tflop/s by two parameters, of each device beside one another."""
    devices = list(dict.fromkeys(row["device"] for row in rows))
    across = list(dict.fromkeys(row["across_value"] for row in rows))
    speed = {(row["device"], row["down_value"], row["across_value"]): row["gflops"] for row in rows}
    lines = [
        [str(down), *(" / ".join(_speed(speed.get((device, down, column))) for device in devices) for column in across)]
        for down in dict.fromkeys(row["down_value"] for row in rows)
    ]
    note = f"Tflop/s ({' / '.join(devices)}); {rows[0]['down']} down, {rows[0]['across']} across; commit {run.commit}.\n\n"
    return note + markdown(("", *map(str, across)), lines)


def _heats(title: str, rows: list[Row]) -> Iterator[Heat]:
    """A heat map for each device: Tflop/s, darker for a larger share of the device's best pair."""
    for device in dict.fromkeys(row["device"] for row in rows):
        of_device = [row for row in rows if row["device"] == device]
        speed = {(row["down_value"], row["across_value"]): row["gflops"] for row in of_device}
        down, across = (list(dict.fromkeys(row[f"{way}_value"] for row in of_device)) for way in ("down", "across"))
        best = max(filter(None, speed.values()))
        cells = tuple(
            tuple(Cell(gflops / best if gflops else None, _speed(gflops)) for gflops in (speed.get((line, column)) for column in across))
            for line in down
        )
        names = tuple(map(str, down)), tuple(map(str, across))
        text = "Tflop/s of the best configuration for each pair; darker is faster."
        back_end = "CUDA" if device.startswith("cuda") else "OpenCL"
        yield Heat(f"{title}, {back_end}", rows[0]["down"], rows[0]["across"], *names, cells, text)


def _speed(gflops: float | None) -> str:
    return "-" if gflops is None else f"{gflops / 1e3:.1f}"
