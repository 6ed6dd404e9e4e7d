"""TRSM, TRMM, SYMM, SYRK and SYR2K on processors over SciPy's BLAS, on GPUs over cuBLAS: the newest row of each.

Of random problems of NumPy arrays it is the newest run on each device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from recorded import Run, Table, markdown, processor, runs

DTYPES = ("float32", "float64", "complex64", "complex128")
COLUMNS = ("problems", "geometric mean", "least", "median beyond the BLAS", "most")


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device and back end, and one of random problems."""
    recorded: dict[tuple[str, bool], list[Run]] = {}
    random: dict[tuple[str, int], Run] = {}
    for run in runs("level3", folder):
        options = run.document.get("options", {})
        if options.get("random"):
            random[processor(run.document["device"]), options["threads"]] = run
            continue
        recorded.setdefault((processor(run.document["device"]), run.document.get("through") == "opencl"), []).append(run)
    for (device, opencl), mine in sorted(recorded.items()):
        newest = newest_rows(mine)
        cells: dict[tuple[str, ...], dict[str, str]] = {}
        commits: dict[tuple[str, ...], set[str]] = {}
        for (*name, dtype), (run, row) in newest.items():
            cells.setdefault(tuple(name), {})[dtype] = f"{row['ratio']:.2f}"
            commits.setdefault(tuple(name), set()).add(run.commit)
        dtypes = [dtype for dtype in DTYPES if any(dtype in row for row in cells.values())]
        order = list(dict.fromkeys(name[:2] for name in cells))
        names = sorted(cells, key=lambda name: (size_of(name[2]), order.index(name[:2]), name[3]))
        rows = [[*name, *(cells[name].get(dtype, "") for dtype in dtypes), ", ".join(sorted(commits[name]))] for name in names]
        text = markdown(("routine", "case", "size", "precision", *dtypes, "commit"), rows)
        yield Table(
            f"level3-{'-'.join(device.lower().split())}{'-opencl' if opencl else ''}",
            text,
            frozenset(run.file for run, _ in newest.values()),
            f"Level-3 BLAS over {mine[-1].document['blas']['name']}, {device}{', through OpenCL' if opencl else ''}",
        )

    for (device, threads), run in sorted(random.items()):
        text = markdown(("routine, and the time of the BLAS", *COLUMNS), summary(run.document["rows"]))
        note = f"`{run.document.get('command', '')}`; commit {run.commit}. NumPy arrays, threads: {threads}.\n\n"
        title = f"level3-{'-'.join(device.lower().split())}-random-{threads}"
        yield Table(title, note + text, frozenset({run.file}), f"Random problems of level 3 over SciPy's BLAS, {device}")


def size_of(text: str) -> list[int]:
    """The sides that ``text`` names, to sort by."""
    return [int(side) for side in text.split(" x ")]


def summary(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """By routine and the time of the BLAS: how many, the geometric mean and the least of the ratios, and how much longer calls take."""
    lines = []
    for routine in dict.fromkeys(row["routine"] for row in rows):
        for low, high in pairwise((0.0, 20e-6, 1e-4, 1e-3, math.inf)):
            taken = [[median(row["samples"][who]) for who in ("portatile", "BLAS")] for row in rows if row["routine"] == routine]
            chosen = [(ours, theirs) for ours, theirs in taken if low <= theirs < high]
            if chosen:
                ratios = [theirs / ours for ours, theirs in chosen]
                more = sorted(1e6 * (ours - theirs) for ours, theirs in chosen)
                until = f"to {1e6 * high:.0f} us" if high < math.inf else "us and more"
                span = f"{routine}, BLAS {1e6 * low:.0f} {until}"
                figures = f"{geometric_mean(ratios):.3f}", f"{min(ratios):.2f}", f"{median(more):.1f} us", f"{more[-1]:.1f} us"
                lines.append([span, str(len(chosen)), *figures])
    return lines


def newest_rows(recorded: list[Run]) -> dict[tuple[str, ...], tuple[Run, Mapping[str, Any]]]:
    """By routine, case, size, precision and dtype the newest row, and the run that has it."""
    newest: dict[tuple[str, ...], tuple[Run, Mapping[str, Any]]] = {}
    for run in recorded:
        for row in run.document["rows"]:
            precision = row.get("precision", "native")
            newest[row["routine"], row["case"], f"{row['m']} x {row['n']}", precision, row["dtype"]] = run, row
    return newest
