"""TRSM, TRMM, SYMM, SYRK and SYR2K on one core of a processor over SciPy's BLAS, on GPUs over cuBLAS: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs

DTYPES = ("float32", "float64")


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device and back end."""
    newest = {(processor(run.document["device"]), run.document.get("through") == "opencl"): run for run in runs("level3", folder)}
    for (device, opencl), run in sorted(newest.items()):
        cells: dict[tuple[str, ...], dict[str, str]] = {}
        for row in run.document["rows"]:
            name = row["routine"], row["case"], f"{row['m']} x {row['n']}", row.get("precision", "native")
            cells.setdefault(name, {})[row["dtype"]] = f"{row['ratio']:.2f}"
        rows = [[*name, *(row.get(dtype, "") for dtype in DTYPES), run.commit] for name, row in cells.items()]
        text = markdown(("routine", "case", "size", "precision", *DTYPES, "commit"), rows)
        yield Table(
            f"level3-{'-'.join(device.lower().split())}{'-opencl' if opencl else ''}",
            text,
            frozenset({run.file}),
            f"Level-3 BLAS over {run.document['blas']['name']}, {device}{', through OpenCL' if opencl else ''}",
        )
