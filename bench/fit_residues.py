"""Fit the constants of the estimate of products by residues to recorded times of their steps.

    PYTHONPATH=src python3 bench/fit_residues.py residues-nvidia-h200-20261126T073500Z.json.gz

The results lie in `bench/results/`, made by `bench/residues.py --steps` on a GPU with warp groups. Each constant is the one with the least
squares of relative errors, of its step alone. Written is `src/portatile/workloads/gemm_residues/costs.json`. Printed are, for each
problem, the times of both products as they were measured and as they are estimated, and where the product by residues begins to be faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import constants
from portatile import workloads
from portatile.workloads.gemm_residues import choice, costs, plan
from recorded import read

STEPS = ("residues_cut", "residues_cut", "gemm", "gemm", "residues_join", "residues_mend")


def fitted(documents: Sequence[Any]) -> costs.ResidueCosts:
    """The constants for the rows of all documents; raises SystemExit if no row has the times of its steps."""
    rows = [
        {**row, "count": document["compute_units"]}
        for document in documents
        for row in document["rows"]
        if row["name"] == "residues" and tuple(name for name, _ in row["steps"]) == STEPS
    ]
    if not rows:
        raise SystemExit("no row has the times of its steps: measure with `bench/residues.py --steps`")
    launch = min(_us(row, 5) for row in rows)
    of = {dtype: [row for row in rows if row["dtype"] == dtype] for dtype in dict.fromkeys(row["dtype"] for row in rows)}

    def rates(steps: tuple[int, ...], work: Any) -> dict[str, float]:
        """By dtype, the work of one compute unit in a microsecond of some steps beside their launches."""
        return {
            dtype: _rate([(work(row) / row["count"], sum(_us(row, step) - launch for step in steps)) for row in these])
            for dtype, these in of.items()
        }

    products, ended = _line(
        [(_depth(row), _us(row, 3) - launch, choice.waves(row["sizes"][:2], row["dtype"], row["count"]) * 128 * 256) for row in rows]
    )
    return costs.ResidueCosts(
        native=_native(documents, launch),
        products=products,
        ended=ended,
        leading=_rate([(row["sizes"][0] * row["sizes"][1] / row["count"], _us(row, 2) - launch) for row in rows]),
        cut=rates((0,), lambda row: choice.cut_bytes(row["sizes"][0], _depth(row), row["dtype"])),
        cut_across=rates((1,), lambda row: choice.cut_bytes(row["sizes"][1], _depth(row), row["dtype"])),
        joined=rates((4, 5), lambda row: choice.join_bytes(row["sizes"][:2], row["dtype"])),
        launch=launch,
    )


def _us(row: Mapping[str, Any], step: int) -> float:
    return float(1e6 * row["steps"][step][1])


def _depth(row: Mapping[str, Any]) -> int:
    return plan.padded(row["sizes"][2])


def _native(documents: Sequence[Any], launch: float) -> dict[str, float]:
    """Multiply-adds of one compute unit in a microsecond, of the fastest native product of each dtype."""
    best: dict[str, float] = {}
    for document in documents:
        for row in document["rows"]:
            if row["name"] == "native" and row["burst"]:
                work = float(np.prod(row["sizes"]))
                took = (8 if row["dtype"].startswith("complex") else 2) * work / row["burst"] / 1e6 - launch
                best[row["dtype"]] = max(best.get(row["dtype"], 0.0), work / took / document["compute_units"])
    return best


def _rate(pairs: Sequence[tuple[float, float]]) -> float:
    """The rate r with the least squares of (work / r - time) / time."""
    shares = np.array([work / took for work, took in pairs if took > 0])
    return float(1 / (shares.sum() / (shares**2).sum()))


def _line(points: Sequence[tuple[int, float, int]]) -> tuple[float, float]:
    """The rate r and the constant e with the least squares of (elements (depth / r + e) - time) / time."""
    matrix = np.array([[elements * depth / took, elements / took] for depth, took, elements in points])
    inverse, ended = np.linalg.lstsq(matrix, np.ones(len(points)), rcond=None)[0]
    return float(1 / inverse), float(max(ended, 0.0))


def main() -> None:
    """Fit, write, and compare."""
    paths = constants.named_results(__doc__)
    documents = [read(path) for path in paths]
    constants.write(costs.FILE, "fit_residues.py", paths, asdict(fitted(documents)))
    costs.known.cache_clear()
    _compare(documents)


def _compare(documents: Sequence[Any]) -> None:
    """Print measured and estimated times."""
    workload = workloads.get("gemm_residues")
    for document in documents:
        for row in document["rows"]:
            if row["name"] in ("residues", "native") and row["burst"] and row["dtype"] in costs.known().native:
                problem = workload.problem(dict(zip("mnk", row["sizes"], strict=True)), row["dtype"])
                flops = (8 if row["dtype"].startswith("complex") else 2) * float(np.prod(row["sizes"]))
                estimate = (choice.residues if row["name"] == "residues" else choice.native)(problem, document["compute_units"])
                shape = " x ".join(map(str, row["sizes"]))
                print(f"{row['dtype']:10} {shape:20} {row['name']:9} {flops / row['burst'] / 1e6:9.0f} us, estimated {estimate:9.0f}")
    for dtype in costs.known().native:
        sizes = range(256, 8193, 64)
        problems = ((size, workload.problem(dict.fromkeys("mnk", size), dtype)) for size in sizes)
        first = next((size for size, one in problems if choice.residues(one, 132) < choice.native(one, 132)), None)
        print(f"{dtype}: faster than the native product from squares of {first} on")


if __name__ == "__main__":
    main()
