"""Timings of the gpu form's configurations on one device: the file that a model is fitted to, and that anybody can refit."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from portatile.errors import ArgumentError
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.workloads.gemm.forms.gpu import estimate
from portatile.workloads.gemm.forms.gpu.costs import Costs
from portatile.workloads.gemm.forms.gpu.point import Gpu


@dataclass(frozen=True)
class TimedShape:
    """One product on one device: each configuration with its microseconds."""

    sizes: tuple[int, int, int]
    dtype: str
    trans: str
    rows: tuple[tuple[Config, float], ...]


@dataclass(frozen=True)
class Timings:
    """What was timed, on which device, by which command at which commit."""

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


def read(path: Path) -> list[Timings]:
    """The timings in a file, of each back end; a file of ``bench/results/tiles-*`` is read too. Raises ArgumentError for any other."""
    try:
        document = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        if isinstance(document, dict) and "devices" in document:
            return [_of_bench(document, backend) for backend in document["devices"]]
        return [msgspec.convert(document, Timings)]
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise ArgumentError(f"{path} holds no timings of GEMM: {error}") from None


def cases(timings: Timings, dtype: str, problem_of: Any) -> list[Case]:
    """What the estimate may choose among, for each shape of this element type; ``problem_of`` makes a problem of sizes, dtype, options."""
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
    """Sizes and transpositions to time: squares, long and short sums, flat and tall ones, odd sizes; any beginning is a mixture."""
    squares = [(n, n, n) for n in (256, 1024, 640, 1537, 384, 2048, 896, 503)]
    others = [(64, 64, 8192), (4096, 128, 1024), (300, 3000, 600), (2500, 2500, 250), (100, 1000, 4000), (1999, 1001, 501)]
    others += [(512, 512, 8192), (128, 4096, 1024), (777, 555, 333), (1024, 512, 2048), (2000, 256, 800), (333, 1111, 2222)]
    mixed = [shape for pair in zip(squares, others, strict=False) for shape in pair] + others[len(squares) :]
    ways = ("NN", "NT", "TN", "TT")
    return tuple((sizes, ways[(place + turn) % 4]) for turn in range(4) for place, sizes in enumerate(mixed))


def candidates(problem: Problem, device: DeviceInfo, limit: int, costs: Costs, count: int) -> list[Gpu]:
    """Points to time: the best of each tile by the estimate, then the best of what is left."""
    shape = estimate.shape_of(problem, device)
    best: list[tuple[float, Gpu]] = []
    rest: list[tuple[float, Gpu]] = []
    for tile, rate in zip(estimate.tiles(problem), costs.rates, strict=True):
        if tile.point.items > device.max_work_group_size:
            continue
        guessed = []
        for point in estimate.variants(problem, shape, tile, device):
            cut = point.cut(problem, device)
            if point.local_bytes(problem.itemsize) <= limit and (not point.TAIL or cut is not None):
                saved = None if cut is None else cut.saved
                guessed.append((estimate.microseconds(shape, point, tile.groups, rate, saved, costs), point))
        guessed.sort(key=lambda pair: pair[0])
        best += guessed[:1]
        rest += guessed[1:]
    chosen = [*sorted(best, key=lambda pair: pair[0]), *sorted(rest, key=lambda pair: pair[0])]
    return [point for _, point in chosen[:count]]


def _row(problem: Problem, device: DeviceInfo, point: Gpu, took: float) -> Row | None:
    """A configuration as a row; None for one that the estimate would not choose."""
    bare = replace(point, PACK_A=False, PACK_B=False, TURN=False, KEEP=False, PAD=0, SPLIT_K=1, TAIL=0, JOIN=False)
    tiles = estimate.tiles(problem)
    place = next((place for place, tile in enumerate(tiles) if tile.point == bare and tile.tail == point.TAIL), None)
    if place is None:
        return None
    shape = estimate.shape_of(problem, device)
    staged = replace(point, SPLIT_K=1, TAIL=0, JOIN=False)
    if staged not in estimate.stagings(shape, tiles[place].point):
        return None
    cut = point.cut(problem, device)
    if point.TAIL and cut is None:
        return None
    return Row(shape, point, place, tiles[place].groups, None if cut is None else cut.saved, took)


def _parameters(config: Config) -> dict[str, Any]:
    return {"MAD": "a*b+c", **{name: value for name, value in config.items() if name != "FORM"}}  # which MMA does not name


def _of_bench(document: Mapping[str, Any], backend: str) -> Timings:
    """Timings as a script of ``bench`` wrote them: a configuration is the place of its tile and what its staging is."""
    device = msgspec.convert(document["devices"][backend], DeviceInfo)
    shapes = []
    for entry in document["shapes"]:
        if entry["backend"] == backend:
            transposed = _stored(entry["trans"])
            tiles = estimate.tiles_of(entry["dtype"], transposed)
            rows = tuple((_of_row(tiles, row).config(), float(row[-1])) for row in entry["rows"])
            shapes.append(TimedShape(tuple(entry["sizes"]), entry["dtype"], entry["trans"], rows))
    return Timings(device, {"command": str(document.get("bench", "")), "commit": str(document.get("commit", ""))}, tuple(shapes))


def _stored(trans: str) -> bool:
    """Whether A has k slow and B has it fast."""
    return trans == "TT"


def _of_row(tiles: Sequence[estimate.Tile], row: Iterable[float]) -> Gpu:
    place, pack_a, pack_b, turn, keep, pad, split, _ = (int(value) for value in row)
    tile = tiles[place]
    staged = replace(tile.point, PACK_A=bool(pack_a), PACK_B=bool(pack_b), TURN=bool(turn), KEEP=bool(keep), PAD=pad)
    return replace(staged, SPLIT_K=split, TAIL=tile.tail)
