"""Routines on host arrays: in one piece, in slabs whose copies overlap, and in slabs one stage after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, runs


def from_results(folder: Path) -> Iterator[Table]:
    """One table: the newest run of each routine on each device."""
    rows, files = {}, {}
    for run in runs("slabs", folder):
        for row in run.document["rows"]:
            sizes = ", ".join(f"{name} {value}" for name, value in row["sizes"].items())
            through = f"{row['name']}, {'CUDA' if row['device'].startswith('cuda') else 'OpenCL'}"
            times = [f"{1e3 * row[way]:.0f}" for way in ("uncut", "whole", "apart")]
            rows[row["routine"], sizes, through] = [
                f"{row['routine']}: {sizes}",
                through,
                str(row["slabs"]),
                *times,
                f"{row['hidden']:.0%}",
                run.commit,
            ]
            files[row["routine"], sizes, through] = run.file
    head = ("", "device", "slabs", "in one piece, ms", "in slabs", "stage after stage", "of the copies hidden", "commit")
    yield Table("slabs", markdown(head, (row for _, row in sorted(rows.items()))), frozenset(files.values()))
