"""How long search spaces take to build, count and draw from, beside Kernel Tuner's: the newest run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from recorded import Table, markdown, runs

WHAT = ("build", "count", "list", "draw", "neighbours")


def made(folder: Path) -> Iterator[Table]:
    """One table."""
    for run in runs("spaces", folder)[-1:]:
        rows = []
        for space in run.document["spaces"]:
            for tool, found in space["runs"].items():
                told = [f"{median(one[what] for one in found):.3g}" if all(what in one for one in found) else "" for what in WHAT]
                rows.append([space["space"], tool.replace("_", " "), *told, run.commit])
        yield Table("spaces", markdown(("space", "", *(f"{what}, s" for what in WHAT), "commit"), rows), frozenset({run.file}))
