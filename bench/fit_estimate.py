"""The constants of `portatile.workloads.gemm.estimate` from timings: fits them, and says what the estimate's choices would have cost.

    python bench/fit_estimate.py --backend cuda --dtype float32

``held out`` fits to the shapes of the earlier runs and chooses for those of the last one, among the configurations that were timed there.
``loss`` is the chosen one's time over the best timed one's. Needs SciPy.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from measure import RESULTS, print_table
from portatile import workloads
from portatile.records import DeviceInfo, Problem, from_json
from portatile.workloads.gemm import estimate
from portatile.workloads.gemm.plan import tail
from portatile.workloads.gemm.point import Point

NAMES = tuple(field.name for field in fields(estimate.Costs))[:-1]
START = {"launch": 3.0, "fill": 1.0, "pack": 3.4, "packed": 4.2, "add": 4.8, "added": 2.5, "cached": 4.5, "read": 3.5, "warps": 1.5}
START |= {"stored": 16.0, "exchange": 1.9, "wait": 0.8, "drain": 0.02, "turned": 1.1, "kept": 1.08}
START |= {"columns": 12.0, "elements": 12.0, "dots": 12.0}
HELD = 0.1, 0.15  # how much a factor e of a cost, of a rate away from its start weighs beside a misjudged timing
TIED = 1.0  # the same of OpenCL's rates, which start from CUDA's: fewer of its configurations were timed
POWER = 2.0  # a timing weighs the best one's share of it to this power: what is slow need not be judged well


class Row(NamedTuple):
    """A timed configuration."""

    shape: Any
    point: Point
    tile: int
    saved: float | None
    took: float


class Case(NamedTuple):
    """The configurations of one problem."""

    name: str
    run: int
    best: float
    rows: list[Row]


def cases(document: dict[str, Any], backend: str, dtype: str) -> list[Case]:
    """What was timed, as far as the estimate may choose it."""
    info = from_json(json.dumps(document["devices"][backend]), DeviceInfo)
    found = []
    for entry in document["shapes"]:
        if (entry["backend"], entry["dtype"]) != (backend, dtype):
            continue
        options = {"trans_a": entry["trans"][0], "trans_b": entry["trans"][1]}
        problem = workloads.get("gemm").problem(dict(zip("mnk", entry["sizes"], strict=True)), dtype, options)
        rows = [row for timed in entry["rows"] if (row := read(problem, info, timed)) is not None]
        name = f"{'x'.join(map(str, entry['sizes']))} {entry['trans']}"
        found += [Case(name, entry["run"], entry["best"], rows)] if rows else []
    return found


def read(problem: Problem, info: DeviceInfo, timed: Sequence[float]) -> Row | None:
    """A row of the file; None for one that the estimate leaves out."""
    place, pack_a, pack_b, turn, keep, pad, split, took = timed
    tile = estimate.tiles(problem)[int(place)]
    bare = replace(tile.point, PACK_A=bool(pack_a), PACK_B=bool(pack_b), TURN=bool(turn), KEEP=bool(keep), PAD=int(pad))
    point, shape = replace(bare, SPLIT_K=int(split), TAIL=tile.tail), estimate.shape_of(problem, info)
    if bare not in estimate.stagings(shape, tile.point):
        return None
    cut = tail(problem, point, info) if tile.tail else None
    return None if tile.tail and cut is None else Row(shape, point, int(place), None if cut is None else cut.saved, took)


def guess(row: Row, problem_tiles: Sequence[estimate.Tile], costs: estimate.Costs) -> float:
    """The estimate for a row."""
    return estimate.microseconds(row.shape, row.point, problem_tiles[row.tile].groups, costs.rates[row.tile], row.saved, costs)


def fit(timed: list[Case], tiles: Sequence[estimate.Tile], start: estimate.Costs, tied: float) -> estimate.Costs:
    """The constants with the least weighted squares of logarithms."""
    first = np.log([*(getattr(start, name) for name in NAMES), *start.rates])
    hold = np.array([HELD[0]] * len(NAMES) + [tied] * len(start.rates))
    rows = [row for case in timed for row in case.rows]
    weights = np.array([(case.best / row.took) ** POWER for case in timed for row in case.rows])
    took = np.log([row.took for row in rows])

    def costs(logs: NDArray[np.float64]) -> estimate.Costs:
        values = [float(value) for value in np.exp(logs)]
        return estimate.Costs(*values[: len(NAMES)], rates=tuple(values[len(NAMES) :]))

    def misses(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        now = costs(logs)
        missed = weights * (np.array([math.log(guess(row, tiles, now)) for row in rows]) - took)
        return np.concatenate([missed, hold * (logs - first)])

    return costs(least_squares(misses, first, max_nfev=12, loss="soft_l1", f_scale=0.1).x)


def losses(timed: list[Case], tiles: Sequence[estimate.Tile], costs: estimate.Costs) -> dict[str, float]:
    """Of each case: the time of the row that is chosen over the best."""
    return {case.name: min(case.rows, key=lambda row: guess(row, tiles, costs)).took / case.best for case in timed}


def main() -> None:
    commands = argparse.ArgumentParser(description=__doc__)
    commands.add_argument("--timings", type=Path, default=max(RESULTS.glob("tiles-*.json"), default=None))
    commands.add_argument("--backend", choices=("cuda", "opencl"), default="cuda")
    commands.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    options = commands.parse_args()
    document = json.loads(options.timings.read_text())
    some = workloads.get("gemm").problem(dict.fromkeys("mnk", 64), options.dtype)
    tiles = estimate.tiles(some)
    start = estimate.Costs(**START, rates=(0.87 if options.dtype == "float32" else 0.93,) * len(tiles))
    tied = HELD[1]
    if options.backend == "opencl":
        start, tied = estimate.COSTS[options.dtype, "CUDA C++"], TIED
    language = from_json(json.dumps(document["devices"][options.backend]), DeviceInfo).can.language
    timed = cases(document, options.backend, options.dtype)
    last = max(case.run for case in timed)
    early, late = [case for case in timed if case.run < last], [case for case in timed if case.run == last]
    held, now = losses(late, tiles, fit(early, tiles, start, tied)), losses(timed, tiles, estimate.COSTS[options.dtype, language])
    again = fit(timed, tiles, start, tied)
    fitted = losses(timed, tiles, again)
    print_table(
        ["loss", "held out", "as it ships", "fitted to all"],
        [[name, f"{held[name]:.3f}" if name in held else "", f"{now[name]:.3f}", f"{fitted[name]:.3f}"] for name in now]
        + [["mean", *(f"{fmean(row.values()):.3f}" for row in (held, now, fitted))]],
    )
    print(*(f"{name}={getattr(again, name):.3g}" for name in NAMES), "rates", *(f"{rate:.3g}" for rate in again.rates))


if __name__ == "__main__":
    main()
