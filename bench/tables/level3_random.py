"""Random problems of level 3 on GPUs over cuBLAS called directly: the newest run on each device, by the types of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Run, Table, markdown, processor, runs


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device and set of types."""
    from level3_random import SHARES, summary  # needs portatile, which the other tables do not

    newest: dict[tuple[str, tuple[str, ...]], Run] = {}
    for run in runs("level3_random", folder):
        newest[processor(run.document["device"]), tuple(sorted({row["dtype"] for row in run.document["rows"]}))] = run
    for (device, types), run in sorted(newest.items()):
        sizes = " to ".join(map(str, run.document["sizes"]))
        note = f"Sizes from {sizes}; `{run.document.get('command', '')}`; commit {run.commit}. PyTorch's arrays.\n\n"
        shares = (f"at least {share}" for share in SHARES)
        text = markdown(("problems", "number", "geometric mean", *shares, "least"), summary(run.document["rows"]))
        title = f"Random problems of level 3 over {run.document['blas']['name']}, {device}: {', '.join(types)}"
        yield Table(f"level3-{'-'.join((*device.lower().split(), *types))}-random", note + text, frozenset({run.file}), title)
