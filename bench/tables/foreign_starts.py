"""Trials that searches of recorded spaces save with what was fastest on other devices: a line for each kernel and device searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from foreign_starts import mean_of, told
from recorded import Table, markdown, runs

Searches = Sequence[dict[str, Any]]

_HEAD = (
    "searched, configurations",
    "trials to 95 %",
    "saved: one other device",
    "saved: one device, another text",
    "saved: all together",
    "their shares of the optimum",
)


def from_results(folder: Path) -> Iterator[Table]:
    """One table, of the newest run."""
    found = [run for run in runs("foreign_starts", folder) if run.document["rows"]]
    if not found:
        return
    run = found[-1]
    searches, budget = run.document["rows"], run.document["budget"]
    names = list(dict.fromkeys(row["recording"] for row in searches))
    rows = [_line(name, [row for row in searches if row["recording"] == name], budget) for name in names]
    without = {row["recording"]: mean_of(row["without"]["to_95"], budget) for row in searches}
    means = (f"{fmean(_spared(row, budget) for row in kind):+.1f}" if kind else "" for kind in _kinds(searches))
    rows.append(["mean", f"{fmean(without.values()):.1f}", *means, ""])
    repeats = len(searches[0]["with"]["to_95"])
    text = f"{markdown(_HEAD, rows)}\nMeans of {repeats} searches of {budget} trials; commit {run.commit}.\n"
    yield Table("foreign-starts", text, frozenset({run.file}))


def _line(recording: str, searches: Searches, budget: int) -> list[str]:
    """A recording: the trials without, those saved with each device's results, with all, and how good the suggestions of all are."""
    kernel, _, device = recording.replace("_", " ").rpartition("-")
    without = mean_of(searches[0]["without"]["to_95"], budget)
    saved = (", ".join(f"{_spared(row, budget):+.1f}" for row in kind) for kind in _kinds(searches))
    shares = ", ".join(f"{share:.2f}" for row in _kinds(searches)[2] for share in row["shares"])
    return [f"{kernel}, {device}, {searches[0]['configurations']}", f"{without:.1f}", *saved, shares]


def _kinds(searches: Searches) -> tuple[Searches, Searches, Searches]:
    """Those that know one device's results for the same kernel text, one's for another text, and several devices' results."""
    pairs = [row for row in searches if len(_known(row)) == 1]
    same = [row for row in pairs if _kernel(told(row)) == _kernel(row["recording"])]
    return same, [row for row in pairs if row not in same], [row for row in searches if len(_known(row)) > 1]


def _known(row: dict[str, Any]) -> list[str]:
    known = row["known"]
    return [known] if isinstance(known, str) else known


def _kernel(recording: str) -> str:
    return recording.rpartition("-")[0]


def _spared(row: dict[str, Any], budget: int) -> float:
    return mean_of(row["without"]["to_95"], budget) - mean_of(row["with"]["to_95"], budget)
