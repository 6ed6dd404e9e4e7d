"""Stacks of level-3 problems on GPUs over PyTorch's batched calls: the newest row of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Run, Table, markdown, processor, runs
from tables.level3 import DTYPES


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device."""
    recorded: dict[str, list[Run]] = {}
    for run in runs("level3_stacks", folder):
        recorded.setdefault(processor(run.document["device"]), []).append(run)
    for device, mine in sorted(recorded.items()):
        cells: dict[tuple[str, str], dict[str, tuple[str, Run]]] = {}
        for run in mine:
            for row in run.document["rows"]:
                name = row["routine"], f"{row['count']} of order {row['order']}"
                cells.setdefault(name, {})[row["dtype"]] = f"{row['ratio']:.2f}", run
        rows = [
            [*name, *(row[dtype][0] if dtype in row else "" for dtype in DTYPES), list(row.values())[-1][1].commit]
            for name, row in cells.items()
        ]
        files = frozenset(run.file for row in cells.values() for _, run in row.values())
        text = markdown(("routine", "stack", *DTYPES, "commit"), rows)
        slug = "-".join(device.lower().split())
        yield Table(f"level3_stacks-{slug}", text, files, f"Stacks of level 3 over {mine[-1].document['peer']}, {device}")
