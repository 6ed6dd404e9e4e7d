#!/usr/bin/env python3
"""What does every set of several devices give for a problem on host arrays, and what does a simulation predict of it?

python3 bench/hybrid.py --device cuda:0 --device cuda:1 --device opencl:0:0
python3 bench/hybrid.py --device cuda:0 --device cuda:1 --only "matmul float64"    one of the problems: also coulomb_potential, mri_q
python3 bench/hybrid.py --size 256 --grid 8 --repeat 1                             whether it runs

It keeps the rows of `portatile study hybrid` for these problems: each device alone, every set of several, and one core.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure import facts, parser, print_table, rewrite, slug, until_stopped
from portatile import device as devices
from portatile import workloads
from portatile.device import names
from portatile.studies import hybrid
from portatile.studies.framework.study import Run


def problems(n: int, grid: int) -> dict[str, Any]:
    """A product of n rows and columns, the potential of 4000 atoms on a plane, an image of grid^3 voxels."""
    return {
        "matmul float64": workloads.problem("gemm", "float64", dict.fromkeys("mnk", n)),
        "coulomb_potential": workloads.problem("coulomb", "float32", {"atoms": 4000, "nx": 16 * grid, "ny": 16 * grid, "nz": 1}),
        "mri_q": workloads.problem("mri", "float32", {"samples": 2048, "voxels": grid**3}),
    }


class Kept:
    """The rows of each problem so far, in a file that is written again after each."""

    def __init__(self, options: Any, chosen: Sequence[Any]) -> None:
        infos = [one.info for one in chosen]
        known = zip(infos, names.short(infos), strict=True)
        named = [{"id": info.id, "name": info.name, "driver": info.driver, "short": short} for info, short in known]
        self._facts = {"bench": "hybrid", **facts(options.commit), "devices": named}
        self._path = options.out / f"hybrid-{slug(chosen[0].info.name)}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        self.rows: dict[str, list[hybrid.HybridRow]] = {}

    def add(self, name: str, row: hybrid.HybridRow) -> None:
        """Keep a row, and say what it holds."""
        self.rows.setdefault(name, []).append(row)
        self.write()
        print(
            f"{datetime.now(UTC):%T} {name}: {row.devices}: {row.seconds} s, predicted {row.predicted}, {row.shares} {row.status}",
            flush=True,
        )

    def write(self) -> Path:
        """The file."""
        kept = [{"case": name, "rows": [asdict(row) for row in hybrid.finish(rows)]} for name, rows in self.rows.items()]
        return rewrite(self._path, json.dumps({**self._facts, "cases": kept}, indent=1) + "\n")

    def tell(self) -> None:
        """What was measured."""
        cells = [[name, *_cells(row)] for name, rows in self.rows.items() for row in hybrid.finish(rows)]
        if cells:
            print(f"\nwritten to {self.write()}\n")
            print_table(["case", "devices", "seconds", "predicted", "off by", "over the best", "of the sum", "shares"], cells)


def _cells(row: hybrid.HybridRow) -> list[str]:
    figures = row.seconds, row.predicted, row.off, row.best_speedup, row.efficiency
    return [row.devices, *("" if value is None else f"{value:.3g}" for value in figures), row.shares]


def main() -> None:
    commands = parser(__doc__, "all")
    commands.add_argument("--size", type=int, default=8192, help="rows and columns of the matrices; default 8192")
    commands.add_argument("--grid", type=int, default=128, help="points of an axis of the volume; default 128")
    commands.add_argument("--repeat", type=int, default=8, help="runs of each set after the first; default 8")
    commands.add_argument("--seconds", type=float, default=300.0, help="begin no further problem after so many; default 300")
    commands.add_argument("--only", action="append", default=[], help="one of the problems; repeat; default: all")
    options = commands.parse_args()
    chosen = tuple(devices.several(options.device or devices.EVERY))
    kept, until = Kept(options, chosen), time.monotonic() + options.seconds
    with until_stopped():
        for name, problem in problems(options.size, options.grid).items():
            if (options.only and name not in options.only) or time.monotonic() > until:
                continue
            for row in hybrid.measure(Run(chosen, hybrid.HybridOptions(options.repeat), problem, say=lambda text: None)):
                kept.add(name, row)
    kept.tell()


if __name__ == "__main__":
    main()
