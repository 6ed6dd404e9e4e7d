"""Products of random shapes that nobody tuned, over the vendor's library: the newest run on each device, with Buffers, of fewer bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorded import Table, markdown, processor, runs


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device."""
    from random_shapes import BACKENDS, beyond, summary, ways  # needs portatile, which the other tables do not

    newest = {
        (processor(run.document["device"]), any(way in BACKENDS for way in ways(run.document["rows"])), _narrow(run.document["rows"])): run
        for run in runs("random_shapes", folder)
    }
    for (device, both, narrow), run in sorted(newest.items()):
        text = markdown(("products", "shapes", "geometric mean", "at least 0.92", "at least 0.85", "least"), summary(run.document["rows"]))
        sizes = " to ".join(map(str, run.document["sizes"]))
        note = (
            f"Sides from {sizes}; `{run.document.get('command', '')}`; commit {run.commit}. {beyond(run.document['rows'])}".rstrip()
            + "\n\n"
        )
        name, title = f"random-shapes-{'-'.join(device.lower().split())}", f"Random shapes, {device}"
        if both:
            name, title = f"{name}-buffers", f"{title}: through CUDA and OpenCL"
        if narrow:
            name, title = name.replace("shapes", "units"), f"{title}: types of 16 and 8 bits"
        yield Table(name, note + text, frozenset({run.file}), title)


def _narrow(rows: list[dict[str, Any]]) -> bool:
    """Whether the rows are products of other types than float32 and float64."""
    return any(row["dtype"] not in ("float32", "float64") for row in rows)
