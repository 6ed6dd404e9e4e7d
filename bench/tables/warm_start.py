"""Searches of one shape after another, with warm starts and without: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs


def from_results(folder: Path) -> Iterator[Table]:
    """One table."""
    rows, files = {}, {}
    for run in runs("warm_start", folder):
        for shape in run.document["shapes"]:
            cold, warm = shape["cold"], shape["warm"]
            device = processor(shape["device"]["name"])
            name = device, " x ".join(map(str, shape["sizes"].values()))
            near = [str(search["near_at"] or "never") for search in (cold, warm)]
            rows[name] = [*name, str(warm["warm_starts"]), *near, f"{cold['early']:.2f}", f"{warm['early']:.2f}", run.commit]
            files[name] = run.file
    head = ("device", "shape", "warm starts", "within 5 % at trial: without", "with", "early: without", "with", "commit")
    yield Table("warm-start", markdown(head, (row for _, row in sorted(rows.items()))), frozenset(files.values()))
