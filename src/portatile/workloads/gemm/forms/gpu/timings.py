"""Timings of the gpu form's configurations on one device: the file that a model is fitted to, and that anybody can refit."""

from __future__ import annotations

import gzip
import math
import random
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from portatile.errors import ArgumentError
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.workloads.gemm.forms.gpu import estimate
from portatile.workloads.gemm.forms.gpu.costs import Costs
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.tiles import tiles

_SEED, _SHAPES = 20, 600
_LEAST, _LARGEST = 32, 10000  # a side
_MOST = 7e10  # multiply-adds
_EACH_SQUARE = 8  # shapes for each square
_TILES, _LEFT = 2, 12  # for three points that are wanted; points for each: what is looked at
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


@dataclass(frozen=True)
class Row:
    """A timed configuration as the estimate sees it: its shape, its point, which tile that is, and the part that its tail saves."""

    shape: estimate.Shape
    point: Gpu
    place: int
    groups: int
    saved: float | None
    took: float

    def estimated(self, costs: Costs) -> float:
        """Microseconds by the estimate."""
        return estimate.microseconds(self.shape, self.point, self.groups, costs.rates[self.place], self.saved, costs)


@dataclass(frozen=True)
class Case:
    """The rows of one problem, and the least time of all that were timed."""

    name: str
    best: float
    rows: tuple[Row, ...]


def read(path: Path) -> Timings:
    """The timings in a file, compressed or not. Raises ArgumentError for any other."""
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes(), type=Timings)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        raise ArgumentError(f"{path} holds no timings of GEMM: {error}") from None


def cases(timings: Timings, dtype: str, problem_of: Any) -> list[Case]:
    """The configurations that the estimate may choose among, for each shape of this element type; ``problem_of`` makes a problem of sizes,
    dtype, options.
    """
    found = []
    for timed in timings.shapes:
        if timed.dtype != dtype or not timed.rows:
            continue
        options: dict[str, Value] = {"trans_a": timed.trans[0], "trans_b": timed.trans[1]}
        problem = problem_of(dict(zip("mnk", timed.sizes, strict=True)), dtype, options)
        rows = [row for config, took in timed.rows if (row := _row(problem, timings.device, Gpu(**_parameters(config)), took)) is not None]
        if rows:
            name = f"{'x'.join(map(str, timed.sizes))} {timed.trans}"
            found.append(Case(name, min(took for _, took in timed.rows), tuple(rows)))
    return found


def designed() -> tuple[tuple[tuple[int, int, int], str], ...]:
    """Sizes and transpositions to time: by turns a square, and a product whose sides are drawn log-uniform, each rounded to a multiple of
    1, 4 or 8, so that skewed, short and odd ones are among them. Any beginning is a mixture; always the same ones.
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
    """Points to time: the best by the estimate, where each counts as slower for every one before it that has its tile, its size of tile,
    or shares k as it does, so that what the estimate misjudges is not all of them.
    """
    estimated = estimate.candidates(problem, device, limit, costs, _TILES * count // 3)
    left = sorted(estimated, key=lambda one: one.took)[: _LEFT * count]
    chosen: list[Gpu] = []
    before: dict[Any, int] = defaultdict(int)

    def delayed(one: estimate.Candidate) -> float:
        return one.took * math.exp(sum(weight * before[kind] for weight, kind in _kinds(one)))

    while left and len(chosen) < count:
        nearest = min(left, key=delayed)
        left.remove(nearest)
        chosen.append(nearest.point)
        for _, kind in _kinds(nearest):
            before[kind] += 1
    return chosen


def _kinds(one: estimate.Candidate) -> list[tuple[float, Any]]:
    """What a candidate has in common with others, and how much slower it counts for each of those."""
    point = one.point
    shared = "tail" if point.TAIL else "join" if point.JOIN else "cluster" if point.CLUSTER > 1 else point.SPLIT_K > 1
    return [
        (0.03, ("tile", one.place)),
        (0.015, ("size", point.rows, point.columns)),
        (0.01, ("parts", point.SPLIT_K)),
        (0.01, ("shared", shared)),
        (0.005, ("staged", point.PACK_A, point.PACK_B, point.TURN, point.KEEP)),
        (0.02, ("held", point.HELD)),
    ]


def _row(problem: Problem, device: DeviceInfo, point: Gpu, took: float) -> Row | None:
    """A configuration as a row; None for one that the estimate would not choose."""
    bare = replace(
        point, PACK_A=False, PACK_B=False, TURN=False, KEEP=False, PAD=0, PAIRS=False, HELD=False, SPLIT_K=1, TAIL=0, JOIN=False, CLUSTER=1
    )
    known = tiles(problem)
    place = next((place for place, tile in enumerate(known) if tile.point == bare and tile.tail == point.TAIL), None)
    if place is None:
        return None
    shape = estimate.shape_of(problem, device)
    staged = replace(point, SPLIT_K=1, TAIL=0, JOIN=False, CLUSTER=1)
    plain = {replace(one, PAIRS=False, HELD=False) for one in estimate.stagings(shape, known[place].point)}
    if replace(staged, PAIRS=False, HELD=False) not in plain:
        return None
    cut = point.cut(problem, device)
    if point.TAIL and cut is None:
        return None
    return Row(shape, point, place, known[place].groups, None if cut is None else cut.saved, took)


def _parameters(config: Config) -> dict[str, Any]:
    return {"MAD": "a*b+c", **{name: value for name, value in config.items() if name != "FORM"}}  # which MMA does not name
