"""Timings of the gpu form's configurations on one device: the file that a model is fitted to, and that anybody can refit."""

from __future__ import annotations

import gzip
import math
import random
import zlib
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

_SEED, _SHAPES = 20, 600
_LEAST, _LARGEST = 32, 10000  # a side
_MOST = 7e10  # multiply-adds
_EACH_SQUARE = 8  # shapes for each square
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
    """Points to time: two thirds of them the best of a tile by the estimate, then the best of what is left."""
    shape = estimate.shape_of(problem, device)
    best: list[tuple[float, Gpu]] = []
    rest: list[tuple[float, Gpu]] = []
    for tile, rate in zip(estimate.tiles(problem), costs.rates, strict=True):
        if tile.point.items > device.max_work_group_size:
            continue
        guessed = []
        for point in estimate.variants(shape, tile, device):
            cut = point.cut(problem, device)
            if point.local_bytes(problem.itemsize) <= limit and (not point.TAIL or cut is not None):
                saved = None if cut is None else cut.saved
                guessed.append((estimate.microseconds(shape, point, tile.groups, rate, saved, costs), point))
        guessed.sort(key=lambda pair: pair[0])
        best += guessed[:1]
        rest += guessed[1:]
    tops = sorted(best, key=lambda pair: pair[0])
    chosen = [*tops[: 2 * count // 3], *sorted(rest, key=lambda pair: pair[0]), *tops[2 * count // 3 :]]
    return [point for _, point in chosen[:count]]


def _row(problem: Problem, device: DeviceInfo, point: Gpu, took: float) -> Row | None:
    """A configuration as a row; None for one that the estimate would not choose."""
    bare = replace(point, PACK_A=False, PACK_B=False, TURN=False, KEEP=False, PAD=0, SPLIT_K=1, TAIL=0, JOIN=False, CLUSTER=1)
    tiles = estimate.tiles(problem)
    place = next((place for place, tile in enumerate(tiles) if tile.point == bare and tile.tail == point.TAIL), None)
    if place is None:
        return None
    shape = estimate.shape_of(problem, device)
    staged = replace(point, SPLIT_K=1, TAIL=0, JOIN=False, CLUSTER=1)
    if staged not in estimate.stagings(shape, tiles[place].point):
        return None
    cut = point.cut(problem, device)
    if point.TAIL and cut is None:
        return None
    return Row(shape, point, place, tiles[place].groups, None if cut is None else cut.saved, took)


def _parameters(config: Config) -> dict[str, Any]:
    return {"MAD": "a*b+c", **{name: value for name, value in config.items() if name != "FORM"}}  # which MMA does not name
