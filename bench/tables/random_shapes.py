"""Products of random shapes that nobody tuned, over the vendor's library: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device."""
    newest = {processor(run.document["device"]): run for run in runs("random_shapes", folder)}
    for device, run in sorted(newest.items()):
        from random_shapes import beyond, summary  # needs portatile, which the other tables do not

        text = markdown(("products", "shapes", "geometric mean", "at least 0.92", "at least 0.85", "least"), summary(run.document["rows"]))
        sizes = " to ".join(map(str, run.document["sizes"]))
        note = (
            f"Sides from {sizes}; `{run.document.get('command', '')}`; commit {run.commit}. {beyond(run.document['rows'])}".rstrip()
            + "\n\n"
        )
        yield Table(f"random-shapes-{'-'.join(device.lower().split())}", note + text, frozenset({run.file}), f"Random shapes, {device}")
