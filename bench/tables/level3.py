"""TRSM, TRMM, SYMM, SYRK and SYR2K on one core of a processor over SciPy's BLAS, on GPUs over cuBLAS: the newest row of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recorded import Run, Table, markdown, processor, runs

DTYPES = ("float32", "float64", "complex64", "complex128")


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device and back end."""
    recorded: dict[tuple[str, bool], list[Run]] = {}
    for run in runs("level3", folder):
        recorded.setdefault((processor(run.document["device"]), run.document.get("through") == "opencl"), []).append(run)
    for (device, opencl), mine in sorted(recorded.items()):
        newest = newest_rows(mine)
        cells: dict[tuple[str, ...], dict[str, str]] = {}
        commits: dict[tuple[str, ...], str] = {}
        for (*name, dtype), (run, row) in newest.items():
            cells.setdefault(tuple(name), {})[dtype] = f"{row['ratio']:.2f}"
            commits[tuple(name)] = run.commit
        dtypes = [dtype for dtype in DTYPES if any(dtype in row for row in cells.values())]
        rows = [[*name, *(row.get(dtype, "") for dtype in dtypes), commits[name]] for name, row in cells.items()]
        text = markdown(("routine", "case", "size", "precision", *dtypes, "commit"), rows)
        yield Table(
            f"level3-{'-'.join(device.lower().split())}{'-opencl' if opencl else ''}",
            text,
            frozenset(run.file for run, _ in newest.values()),
            f"Level-3 BLAS over {mine[-1].document['blas']['name']}, {device}{', through OpenCL' if opencl else ''}",
        )


def newest_rows(recorded: list[Run]) -> dict[tuple[str, ...], tuple[Run, Mapping[str, Any]]]:
    """By routine, case, size, precision and dtype the newest row, and the run that has it."""
    newest: dict[tuple[str, ...], tuple[Run, Mapping[str, Any]]] = {}
    for run in recorded:
        for row in run.document["rows"]:
            precision = row.get("precision", "native")
            newest[row["routine"], row["case"], f"{row['m']} x {row['n']}", precision, row["dtype"]] = run, row
    return newest
