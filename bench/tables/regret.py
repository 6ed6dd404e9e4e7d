"""How much longer shapes that nobody tuned take with each rule of choosing, after a few others were tuned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from recorded import Table, markdown, processor, runs

RULES = ("dispatcher", "nearest", "default")


def from_results(folder: Path) -> Iterator[Table]:
    """One table for all devices."""
    rows = []
    newest = {run.document["device"]: run for run in runs("regret", folder)}
    for device, run in sorted(newest.items()):
        held = run.document["held"]
        tuned = run.document["tuned"].replace(",", ", ")
        for one in held:
            shape = " x ".join(map(str, one["sizes"].values()))
            rows.append([processor(device), shape, str(one["trials"]), *(f"{one['regret'][rule]:.0%}" for rule in RULES), run.commit])
        means = [f"{fmean(one['regret'][rule] for one in held):.0%} / {max(one['regret'][rule] for one in held):.0%}" for rule in RULES]
        rows.append([processor(device), f"mean / worst; tuned were {tuned}", "", *means, run.commit])
    head = ("device", "shape", "trials of its own search", "what a routine takes", "nearest", "default", "commit")
    yield Table("regret", markdown(head, rows), frozenset(run.file for run in newest.values()))
