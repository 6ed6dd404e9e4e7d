"""What a repeated call costs the host, through each array library: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs, through


def made(folder: Path) -> Iterator[Table]:
    """One table."""
    rows, files = {}, {}
    for run in runs("overhead", folder):
        for row in run.document["rows"]:
            name = f"{processor(row['name'])}, {through(row)}", row["library"], row["call"]
            rows[name] = [*name, f"{row['size']}", f"{row['median_us']:.1f}", f"{row['least_us']:.1f}", run.commit]
            files[name] = run.file
    if rows:
        head = ("device", "arrays", "call", "size", "median, us", "least, us", "commit")
        yield Table("overhead", markdown(head, (row for _, row in sorted(rows.items()))), frozenset(files.values()))
