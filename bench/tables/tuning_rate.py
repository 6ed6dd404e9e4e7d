"""Trials a minute beside Kernel Tuner's, on the same kernel and configurations: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from recorded import Table, markdown, processor, runs


def from_results(folder: Path) -> Iterator[Table]:
    """One table."""
    rows, files = {}, {}
    for run in runs("tuning_rate", folder):
        for tool, results in run.document["runs"].items():
            who, _, selector = tool.rpartition(" ")
            name = (
                processor(results[0]["name"]),
                {"cuda": "CUDA", "opencl": "OpenCL"}[selector.partition(":")[0]],
                str(results[0]["trials"]),
            )
            rows.setdefault(name, {})[who] = f"{median(map(_rate, results)):.0f}"
            rows[name]["commit"], files[name] = run.commit, run.file
    lines = [
        [f"{name}, {backend}", count, row.get("portatile", ""), row.get("Kernel Tuner", ""), row["commit"]]
        for (name, backend, count), row in sorted(rows.items())
    ]
    yield Table("tuning-rate", markdown(("", "configurations", "portatile", "Kernel Tuner", "commit"), lines), frozenset(files.values()))


def _rate(results: dict[str, Any]) -> float:
    return 60 * float(results["trials"]) / float(results["seconds"])
