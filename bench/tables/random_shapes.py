"""Products of random shapes that nobody tuned, over the vendor's library: the newest run on each device, with Buffers, of fewer bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorded import Table, markdown, processor, runs


def from_results(folder: Path) -> Iterator[Table]:
    """Of each device a table of PyTorch's or NumPy's arrays, and one of Buffers through two back ends."""
    from random_shapes import BACKENDS, OPENCL_OVER_CUDA, beyond, summary, ways  # needs portatile, which the other tables do not

    found = list(runs("random_shapes", folder))
    kinds = {(processor(run.document["device"]), _narrow(run.document["rows"])) for run in found}
    for buffers, shown in ((False, ("device", "arrays")), (True, (*BACKENDS, *OPENCL_OVER_CUDA.values()))):
        for device, narrow in sorted(kinds):
            of_kind = [run for run in found if (processor(run.document["device"]), _narrow(run.document["rows"])) == (device, narrow)]
            suitable = [run for run in of_kind if any(way in shown for way in ways(run.document["rows"]))]
            if not suitable:
                continue
            run = suitable[-1]
            rows = run.document["rows"]
            text = markdown(("products", "shapes", "geometric mean", "at least 0.92", "at least 0.85", "least"), summary(rows, shown))
            command, sizes = run.document.get("command", ""), " to ".join(map(str, run.document["sizes"]))
            note = f"Sides from {sizes}; `{command}`; commit {run.commit}. {'' if buffers else beyond(rows)}".rstrip() + "\n\n"
            name, title = f"random-shapes-{'-'.join(device.lower().split())}", f"Random shapes, {device}"
            if buffers:
                name, title = f"{name}-buffers", f"{title}: through CUDA and OpenCL"
            if narrow:
                name, title = name.replace("shapes", "units"), f"{title}: types of 16 and 8 bits"
            yield Table(name, note + text, frozenset({run.file}), title)


def _narrow(rows: list[dict[str, Any]]) -> bool:
    """Whether the rows are products of other types than float32 and float64."""
    return any(row["dtype"] not in ("float32", "float64") for row in rows)
