"""How soon each strategy finds good configurations of recorded spaces, ours beside Kernel Tuner's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, read


def made(folder: Path) -> Iterator[Table]:
    """One table; the file is no run of a bench, but a scorer's own."""
    for path in sorted(folder.glob("strategies-*.json.gz")):
        document = read(path)
        rows = [
            [
                one["strategy"],
                str(one["seeds"]),
                f"{one['mean_P']:.2f}",
                f"{one['least_P']:.2f}",
                f"{one['within_5_percent']:.2f}",
                f"{one['within_1_percent']:.2f}",
                f"{1e3 * one['seconds_per_proposal']:.2g}",
                str(one.get("commit", document["commit"]))[:7],
            ]
            for one in document["strategies"]
        ]
        head = ("", "seeds", "mean P", "least P", "runs within 5 %", "runs within 1 %", "ms a proposal", "commit")
        yield Table("strategies", markdown(head, rows), frozenset({path.name}))
