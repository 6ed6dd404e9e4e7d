"""How soon each strategy finds good configurations of recorded spaces, ours beside Kernel Tuner's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, read


def from_results(folder: Path) -> Iterator[Table]:
    """One table; the file is no run of a bench, but a scorer's own."""
    for path in sorted(folder.glob("strategies-*.json.gz")):
        document = read(path)
        rows = [
            [
                strategy["strategy"],
                str(strategy["seeds"]),
                f"{strategy['mean_P']:.2f}",
                f"{strategy['least_P']:.2f}",
                f"{strategy['within_5_percent']:.2f}",
                f"{strategy['within_1_percent']:.2f}",
                f"{1e3 * strategy['seconds_per_proposal']:.2g}",
                str(strategy.get("commit", document["commit"]))[:7],
            ]
            for strategy in document["strategies"]
        ]
        head = ("", "seeds", "mean P", "least P", "runs within 5 %", "runs within 1 %", "ms a proposal", "commit")
        yield Table("strategies", markdown(head, rows), frozenset({path.name}))
