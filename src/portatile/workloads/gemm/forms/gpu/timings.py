"""Timings of the gpu form's configurations on one device: the file to which a model is fitted, so that anybody can refit it."""

from __future__ import annotations

import gzip
import math
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from portatile.errors import ArgumentError
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.workloads.gemm.forms.gpu import estimate, ranking, variants
from portatile.workloads.gemm.forms.gpu.costs import Costs
from portatile.workloads.gemm.forms.gpu.point import Gpu

_SEED, _SHAPES = 20, 600
_LEAST, _LARGEST = 32, 10000  # the sides of a shape
_MOST = 7e10  # multiply-adds of a shape
_EACH_SQUARE = 8  # one in so many shapes is a square
_TILES, _LEFT = 2, 12  # candidates: tiles for every three points asked for, and points for each
_SQUARES = (1024, 256, 2048, 1537, 640, 384, 4096, 896, 503, 3000)


@dataclass(frozen=True)
class TimedShape:
    """One product on one device: each configuration with its microseconds."""

    sizes: tuple[int, int, int]
    dtype: str
    trans: str
    rows: tuple[tuple[Config, float], ...]


@dataclass(frozen=True)
class Timings:
    """Timings of configurations with the device, the command and the commit that made them."""

    device: DeviceInfo
    made: Mapping[str, str]
    shapes: tuple[TimedShape, ...] = ()


@dataclass(frozen=True, eq=False)
class TimedCase:
    """One problem: its timed configurations as the estimate sees them, their microseconds, and the least time of any point of the form."""

    name: str
    best: float
    shape: estimate.ProblemShape
    columns: variants.VariantColumns
    took: variants.Floats

    def estimated(self, costs: Costs) -> variants.Floats:
        """The estimate for each configuration, in microseconds."""
        return estimate.microseconds(self.shape, self.columns, costs)


def read(path: Path) -> Timings:
    """The timings in a file, compressed or not. Raises ArgumentError if it holds none."""
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes(), type=Timings)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        raise ArgumentError(f"{path} holds no timings of GEMM: {error}") from None


def cases(timings: Timings, dtype: str, problem_of: Any) -> list[TimedCase]:
    """The configurations among which the estimate may choose, for each shape of this element type. ``problem_of`` makes a problem from
    sizes, dtype and options.
    """
    found = []
    for timed in timings.shapes:
        if timed.dtype != dtype or not timed.rows:
            continue
        options: dict[str, Value] = {"trans_a": timed.trans[0], "trans_b": timed.trans[1]}
        problem = problem_of(dict(zip("mnk", timed.sizes, strict=True)), dtype, options)
        case = _case(problem, timings.device, timed)
        if case is not None:
            found.append(case)
    return found


def joined(timed: Sequence[TimedCase]) -> tuple[estimate.ProblemShape, variants.VariantColumns]:
    """The configurations of all these problems as columns, each with its problem's sizes."""
    counts = [len(case.took) for case in timed]
    columns: dict[str, Any] = {name: np.repeat([getattr(case.shape, name) for case in timed], counts) for name in estimate.COLUMNS}
    return replace(timed[0].shape, **columns), variants.joined([case.columns for case in timed])


def designed() -> tuple[tuple[tuple[int, int, int], str], ...]:
    """The sizes and transpositions to time, always the same: some squares, and products with log-uniform random sides, each rounded to a
    multiple of 1, 4 or 8. So skewed, short and odd ones are among them, and the first ones of the list are already a mixture.
    """
    rng = random.Random(_SEED)
    found = []
    for turn in range(_SHAPES):
        unit = rng.choice((1, 4, 8))
        sides = [max(unit, round(math.exp(rng.uniform(math.log(_LEAST), math.log(_LARGEST))) / unit) * unit) for _ in range(3)]
        square = _SQUARES[turn // _EACH_SQUARE % len(_SQUARES)]
        sizes = (square, square, square) if turn % _EACH_SQUARE == 0 else (sides[0], sides[1], sides[2])
        if math.prod(sizes) <= _MOST:
            found.append((sizes, rng.choice("NT") + rng.choice("NT")))
    return tuple(found)


def candidates(problem: Problem, device: DeviceInfo, limit: int, costs: Costs, count: int) -> list[Gpu]:
    """The points to time: the best by the estimate, but varied. A point counts as slower for each point before it with the same tile, size
    of tile, or split of k, so that the estimate's misjudgements do not affect all of them.
    """
    found = ranking.candidates(problem, device, limit, costs, _TILES * count // 3, timed=True)
    best = np.argsort(found.took, kind="stable")[: _LEFT * count]
    took, v = found.took[best], found.columns.take(best)
    delay = np.zeros(len(best))
    chosen: list[int] = []
    alike = _alike(found.table, v)
    while len(chosen) < min(count, len(best)):
        delayed = took * np.exp(delay)
        delayed[chosen] = math.inf
        nearest = int(np.argmin(delayed))
        chosen.append(nearest)
        for weight, same in alike:
            delay += weight * (same == same[nearest])
    return [found.point(int(best[one])) for one in chosen]


def _alike(table: variants.VariantTable, v: variants.VariantColumns) -> list[tuple[float, variants.Ints]]:
    """Properties of candidates as numbers, with penalties: a candidate counts as slower for each earlier one with an equal number."""
    shared = np.select([v.tail > 0, v.join, v.cluster > 1, v.split > 1], [4, 3, 2, 1], 0)
    staged = [(one.PACK_A, one.PACK_B, one.TURN, one.KEEP, one.SHIFT) for one in table.stagings]
    places = {one: place for place, one in enumerate(dict.fromkeys(staged))}
    return [
        (0.03, v.place),
        (0.015, v.rows << 32 | v.columns),
        (0.01, v.split),
        (0.01, shared),
        (0.005, np.array([places[one] for one in staged])[v.staging]),
        (0.02, np.array([one.HELD for one in table.stagings], np.int64)[v.staging]),
    ]


def _case(problem: Problem, device: DeviceInfo, timed: TimedShape) -> TimedCase | None:
    """The timed configurations that the estimate could choose; None if there are none."""
    kind = estimate.kind_of(problem, device, device.local_memory)
    points, took = [], []
    rows = [row for row in timed.rows if row[0]["FORM"] == Gpu.FORM]
    for config, microseconds in rows:
        point = Gpu(**_parameters(config))
        place = _place(kind, point)
        cut = point.cut(problem, device)
        if place is not None and (cut is not None or not point.TAIL):
            points.append((place, point, 0.0 if cut is None else cut.saved))
            took.append(microseconds)
    if not points:
        return None
    name = f"{'x'.join(map(str, timed.sizes))} {timed.trans}"
    best = min(microseconds for _, microseconds in rows)
    return TimedCase(name, best, estimate.shape_of(problem, device), variants.columns_of(kind, points), np.array(took))


def _place(kind: variants.ProblemKind, point: Gpu) -> int | None:
    """The place of a point's tile; None for a tile, or a staging of it, that the estimate would not choose."""
    bare = replace(point, **variants.Staging(False, False)._asdict(), SPLIT_K=1, TAIL=0, JOIN=False, CLUSTER=1)
    staging = variants.Staging.at(point)._replace(PAIRS=False, HELD=False, SHIFT=False)
    known = {one._replace(PAIRS=False, HELD=False, SHIFT=False) for one in variants.stagings(kind, bare)}
    places = (place for place, tile in enumerate(kind.tiles) if tile.point == bare and tile.tail == point.TAIL)
    return next(places, None) if staging in known else None


def _parameters(config: Config) -> dict[str, Any]:
    return {"MAD": "a*b+c", **{name: value for name, value in config.items() if name != "FORM"}}  # configurations with MMA do not name MAD
