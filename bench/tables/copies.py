"""How fast GEMM packs operands and copies them into images, over a copy kernel in the same run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, runs

WHAT = {
    "panels": "packed panels",
    "panels turned": "packed panels, transposed on the way",
    "image": "image",
    "image turned": "image, transposed on the way",
    "driver to image": "the driver's copy of a buffer into an image",
}
BACKENDS = {"cuda": "CUDA", "opencl": "OpenCL"}
WHAT |= {name.replace("turned", "transposed"): meaning for name, meaning in WHAT.items()}


def from_results(folder: Path) -> Iterator[Table]:
    """One table, of the newest run."""
    for run in runs("copies", folder)[-1:]:
        rows = [row for row in run.document["rows"] if row.get("share") is not None and row["what"] in WHAT and row["n"] >= 2048]
        series = sorted({(row["dtype"], row["device"].partition(":")[0], row["n"]) for row in rows})
        shares = {(WHAT[row["what"]], row["dtype"], row["device"].partition(":")[0], row["n"]): row["share"] for row in rows}
        names = list(dict.fromkeys(name for name, *_ in shares))
        lines = [
            [f"{dtype}, {BACKENDS[backend]}, {n}", *(f"{shares[name, dtype, backend, n]:.2f}" for name in names)]
            for dtype, backend, n in series
        ]
        head = ("", *names)
        yield Table("copies", markdown(head, lines), frozenset({run.file}))
