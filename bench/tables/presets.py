"""The named configurations of GEMM's generator as a share of the default's speed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Run, Table, markdown, runs


def from_results(folder: Path) -> Iterator[Table]:
    """One of the presets, and one of the ways to an operand, as far as they are recorded."""
    for name, staging in (("presets", False), ("staging", True)):
        recorded = [run for run in runs("presets", folder) if bool(run.document["options"].get("staging")) is staging]
        if recorded:
            yield _table(name, recorded[-1])


def _table(name: str, run: Run) -> Table:
    rows = [row for row in run.document["rows"] if "gflops" in row]
    series = list(dict.fromkeys((row["dtype"], row["device"]) for row in rows))
    speed = {(row["preset"], row["dtype"], row["device"]): row["gflops"] for row in rows}
    names = list(dict.fromkeys(row["preset"] for row in rows))
    lines = [
        [preset, *(f"{speed[preset, *place] / speed['default', *place]:.2f}" if (preset, *place) in speed else "" for place in series)]
        for preset in names
    ]
    head = (
        f"share of the default at {run.document['options']['size']}",
        *(f"{dtype} {'CUDA' if device.startswith('cuda') else 'OpenCL'}" for dtype, device in series),
    )
    return Table(name, markdown(head, lines), frozenset({run.file}))
