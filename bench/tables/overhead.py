"""What a repeated call costs in Python, above the bare launches of the same kernels: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs, through


def made(folder: Path) -> Iterator[Table]:
    """One table."""
    rows, files = {}, {}
    for run in runs("overhead", folder):
        for row in run.document["rows"]:
            name = f"{processor(row['name'])}, {through(row)}", "NumPy arrays" if row["host_arrays"] else "Buffers"
            costs = [f"{row[one]:.1f}" for one in ("launch_us", "overhead_us", "compiled_overhead_us")]
            rows[name] = [*name, f"{row['size']}", *costs, run.commit]
            files[name] = run.file
    if rows:
        head = ("device", "arguments", "size", "bare launches, us", "matmul, us above", "compiled product, us above", "commit")
        yield Table("overhead", markdown(head, (row for _, row in sorted(rows.items()))), frozenset(files.values()))
