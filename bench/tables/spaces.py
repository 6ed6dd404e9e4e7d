"""How long search spaces take to build, count and draw from, beside Kernel Tuner's: the newest run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from recorded import Table, markdown, runs

WHAT = ("build", "count", "list", "draw", "neighbours")


def from_results(folder: Path) -> Iterator[Table]:
    """One table."""
    for run in runs("spaces", folder)[-1:]:
        rows = []
        for space in run.document["spaces"]:
            for tool, results in space["runs"].items():
                cells = [
                    f"{median(result[what] for result in results):.3g}" if all(what in result for result in results) else ""
                    for what in WHAT
                ]
                rows.append([space["space"], tool.replace("_", " "), *cells, run.commit])
        yield Table("spaces", markdown(("space", "", *(f"{what}, s" for what in WHAT), "commit"), rows), frozenset({run.file}))
