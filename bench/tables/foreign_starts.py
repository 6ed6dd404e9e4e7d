"""Trials that searches of recorded spaces save with what was fastest on other devices: a line for each kernel and device searched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from foreign_starts import mean_of
from recorded import Table, markdown, runs


def from_results(folder: Path) -> Iterator[Table]:
    """One table, of the newest run."""
    found = runs("foreign_starts", folder)
    if not found:
        return
    run = found[-1]
    budget, rows = run.document["budget"], []
    for recording in dict.fromkeys(row["recording"] for row in run.document["rows"]):
        for row in (row for row in run.document["rows"] if row["recording"] == recording):
            before, after = _means(row, budget)
            kernel, _, device = recording.rpartition("-")
            shares = ", ".join(f"{share:.2f}" for share in row["shares"])
            cells = (f"{kernel.replace('_', ' ')}, {device.replace('_', ' ')}, {row['configurations']}", row["known"].replace("_", " "))
            rows.append([*cells, shares, f"{before:.1f}", f"{after:.1f}", f"{before - after:+.1f}"])
    every = [_means(row, budget) for row in run.document["rows"]]
    if not every:
        return
    before, after = (fmean(pair[place] for pair in every) for place in (0, 1))
    rows.append([f"all {len(every)}", "", "", f"{before:.1f}", f"{after:.1f}", f"{before - after:+.1f}"])
    head = ("searched, configurations", "known from", "suggestions, share of the optimum", "trials to 95 %: without", "with", "saved")
    repeats = len(run.document["rows"][0]["with"]["to_95"]) if run.document["rows"] else 0
    text = f"{markdown(head, rows)}\nMeans of {repeats} searches of {budget} trials; commit {run.commit}.\n"
    yield Table("foreign-starts", text, frozenset({run.file}))


def _means(row: dict[str, Any], budget: int) -> tuple[float, float]:
    return mean_of(row["without"]["to_95"], budget), mean_of(row["with"]["to_95"], budget)
