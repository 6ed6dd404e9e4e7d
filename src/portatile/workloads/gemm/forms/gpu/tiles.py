"""The tiles among which the estimate of the gpu form chooses, with their pipelines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean

from portatile.records import Problem
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from portatile.workloads.gemm.storage import k_fast

_CAUTION = 0.87  # what guessed rates are multiplied by, so that misjudged tiles are not chosen too often
_UNBOUND = 1.6  # the largest credible ratio of a tile's rate to that of its mirror image (rows and columns exchanged)


@dataclass(frozen=True)
class GpuTile:
    """A point without staging of operands, and the work-groups of it that a multiprocessor holds. ``tail``: it is
    used only with this TAIL.
    """

    point: Gpu
    groups: int
    tail: int = 0


def tiles(problem: Problem) -> tuple[GpuTile, ...]:
    """The candidate tiles for a problem, in the order of ``Costs.rates``."""
    return tiles_of(problem.dtype, not k_fast(problem, "a") and k_fast(problem, "b"))


def tiles_of(dtype: str, written: bool) -> tuple[GpuTile, ...]:
    """The candidate tiles for an element type; ``written``: A has k slow and B has k fast, so matrix instructions take them as written."""
    if dtype == "float32":
        return _FLOAT32
    return _WRITTEN if written else _FLOAT64


def completed(dtype: str, rates: tuple[float, ...]) -> tuple[float, ...]:
    """The rates of all tiles of an element type, of which timings gave the first ones. The others follow from the tiles' geometry, in
    proportion to the known ones but a little lower, so that misjudged tiles are not chosen too often.
    """
    guessed = [_by_geometry(tile.point, dtype) for tile in tiles_of(dtype, False)]
    scale = _CAUTION * math.exp(fmean(math.log(rate / guess) for rate, guess in zip(rates, guessed, strict=False)))
    return (*rates, *(min(scale * guess, _CAUTION * max(rates)) for guess in guessed[len(rates) :]))


def plausible(dtype: str, rates: tuple[float, ...]) -> tuple[float, ...]:
    """The rates, where a rate far above that of the tile's mirror image, which a fit to few timings left
    undetermined, is replaced by it.
    """
    shapes = [_shape(tile.point) for tile in tiles_of(dtype, False)]
    known = dict(zip(shapes, rates, strict=True))
    mirrored = [known.get((columns, rows, *rest), rate) for (rows, columns, *rest), rate in zip(shapes, rates, strict=True)]
    return tuple(mirror if rate > _UNBOUND * mirror else rate for rate, mirror in zip(rates, mirrored, strict=True))


def _shape(point: Gpu) -> tuple[int, ...]:
    """Rows and columns, followed by the properties that mirror images share."""
    return point.rows, point.columns, point.items, point.KB, point.STAGES, point.DOUBLE, point.KG


def _by_geometry(point: Gpu, dtype: str) -> float:
    """A rate in an arbitrary unit. It grows with the multiply-adds for each element that a work-item loads and for each that a work-group
    copies, and falls with the number of parts that divide k. The exponents are those of timings of nine thousand points on an H100 and an
    H200.
    """
    down, across = point.item_tile
    own = down * across / (down + across)
    tile = point.rows * point.columns / (point.rows + point.columns)
    of_own, of_tile, of_parts = (0.45, 0.15, -0.12) if dtype == "float32" else (0.0, 0.6, -0.16)
    return float(own**of_own * tile**of_tile * point.KG**of_parts)


_FLOAT32 = (
    GpuTile(replace(pipeline(4, (8, 8), (1, 1), 32, 3, 4), KG=2), 5),
    GpuTile(replace(pipeline(4, (8, 8), (2, 1), 32, 3, 4), KG=2), 4),
    GpuTile(replace(pipeline(4, (8, 8), (2, 1), 32, 3, 4), KG=4), 2),
    GpuTile(replace(pipeline(4, (8, 8), (1, 2), 32, 3, 4), KG=2), 4),
    GpuTile(pipeline(4, (8, 8), (1, 2), 32, 3, 4), 6),
    GpuTile(replace(pipeline(4, (8, 8), (2, 2), 32, 2, 4, double=1), KG=2), 3),
    GpuTile(replace(pipeline(4, (8, 8), (2, 2), 32, 3, 4), KG=2), 3),
    GpuTile(replace(pipeline(4, (8, 8), (2, 2), 32, 3, 4), KG=4), 1),
    GpuTile(replace(pipeline(4, (8, 16), (3, 1), 32, 3, 4), KG=2), 1),
    GpuTile(pipeline(4, (8, 16), (3, 1), 32, 3, 4), 3),
    GpuTile(replace(pipeline(4, (8, 8), (3, 1), 32, 3, 4), KG=2), 3),
    GpuTile(pipeline(4, (16, 8), (2, 2), 16, 3, 4), 3),
    GpuTile(pipeline(4, (8, 16), (2, 2), 16, 3, 4), 3),
    GpuTile(pipeline(4, (8, 16), (4, 2), 16, 3, 8), 2),
    GpuTile(pipeline(4, (16, 16), (4, 2), 16, 3, 4), 1),
    GpuTile(pipeline(4, (16, 16), (3, 2), 16, 3, 4), 1, tail=2),
    GpuTile(replace(pipeline(4, (8, 8), (1, 1), 32, 3, 4), KG=4), 3),
    GpuTile(replace(pipeline(4, (8, 8), (1, 2), 16, 3, 4), KG=2), 5),
    GpuTile(pipeline(4, (8, 8), (1, 2), 16, 3, 4), 8),
    GpuTile(pipeline(4, (8, 8), (2, 1), 32, 3, 4), 6),
    GpuTile(pipeline(4, (16, 16), (2, 2), 16, 3, 4), 1),
    GpuTile(pipeline(4, (16, 16), (3, 2), 16, 3, 4), 1),
    GpuTile(pipeline(4, (16, 8), (2, 1), 16, 3, 4), 5),
    # for short sides and short sums
    GpuTile(replace(pipeline(4, (4, 8), (1, 1), 64, 3, 8), KG=4), 6),
    GpuTile(replace(pipeline(4, (8, 4), (1, 1), 64, 3, 4), KG=4), 6),
    GpuTile(replace(pipeline(4, (16, 4), (1, 1), 32, 3, 4), KG=4), 3),
    GpuTile(replace(pipeline(4, (4, 16), (1, 1), 32, 3, 8), KG=4), 3),
    GpuTile(replace(pipeline(4, (16, 4), (1, 3), 32, 3, 4), KG=2), 4),
    GpuTile(replace(pipeline(4, (4, 16), (3, 1), 32, 3, 8), KG=2), 4),
    GpuTile(pipeline(4, (16, 4), (2, 2), 16, 3, 4), 7),
    GpuTile(pipeline(4, (4, 16), (2, 2), 16, 3, 8), 7),
    GpuTile(replace(pipeline(4, (16, 4), (2, 3), 16, 3, 4, 1), KG=2), 3),
    GpuTile(replace(pipeline(4, (4, 16), (3, 2), 16, 3, 8, 1), KG=2), 3),
    GpuTile(pipeline(4, (16, 12), (1, 1), 16, 4, 4), 5),
    GpuTile(pipeline(4, (12, 16), (1, 1), 16, 4, 8), 5),
    GpuTile(replace(pipeline(4, (8, 12), (1, 2), 32, 3, 4), KG=4), 1),
    GpuTile(replace(pipeline(4, (12, 8), (2, 1), 32, 3, 8), KG=4), 1),
    GpuTile(replace(pipeline(4, (8, 8), (1, 3), 32, 3, 8), KG=2), 4),
    GpuTile(pipeline(4, (16, 4), (2, 1), 32, 3, 4), 3),
    GpuTile(pipeline(4, (4, 16), (1, 2), 32, 3, 8), 3),
    GpuTile(replace(pipeline(4, (8, 4), (1, 3), 16, 4, 4), KG=2), 8),
    GpuTile(replace(pipeline(4, (4, 8), (3, 1), 16, 4, 8), KG=2), 8),
    GpuTile(replace(pipeline(4, (8, 12), (3, 1), 32, 3, 4), KG=2), 2),
    GpuTile(replace(pipeline(4, (8, 8), (1, 2), 32, 3, 4), KG=4), 2),
    GpuTile(replace(pipeline(4, (8, 12), (3, 1), 32, 3, 4), KG=4), 1),
)


_Row = tuple[tuple[int, int], tuple[int, int], int, int, int, int, int, int]
_MATRIX: tuple[_Row, ...] = (
    # warps, blocks, KB, STAGES, DOUBLE, KG, groups, tail
    ((1, 2), (2, 1), 16, 4, 2, 1, 6, 0),
    ((2, 2), (2, 1), 32, 3, 2, 1, 3, 0),
    ((2, 2), (2, 1), 16, 3, 1, 1, 4, 0),
    ((2, 2), (1, 2), 32, 3, 2, 1, 3, 0),
    ((2, 2), (2, 1), 32, 3, 2, 2, 2, 0),
    ((2, 2), (2, 2), 16, 4, 1, 1, 3, 0),
    ((4, 2), (1, 2), 32, 3, 2, 1, 2, 0),
    ((4, 2), (2, 1), 32, 3, 2, 1, 1, 0),
    ((4, 2), (2, 2), 32, 3, 2, 1, 1, 0),
    ((2, 2), (4, 2), 16, 4, 1, 1, 2, 0),
    ((4, 2), (2, 4), 16, 4, 1, 1, 1, 0),
    ((4, 2), (2, 4), 16, 4, 1, 1, 1, 1),
    ((1, 2), (1, 1), 16, 4, 2, 1, 10, 0),
    ((1, 2), (1, 1), 32, 3, 2, 2, 5, 0),
    ((1, 2), (2, 1), 32, 3, 2, 2, 4, 0),
    ((2, 2), (1, 1), 32, 3, 0, 4, 2, 0),
    ((2, 2), (1, 2), 32, 4, 2, 1, 2, 0),
    ((2, 2), (2, 3), 16, 4, 1, 1, 2, 0),
    ((4, 2), (2, 2), 16, 4, 1, 1, 1, 0),
    ((2, 2), (3, 2), 16, 4, 1, 1, 2, 0),
    ((1, 4), (3, 1), 16, 4, 1, 1, 3, 0),
    # for short sides and short sums
    ((1, 1), (1, 1), 64, 3, 0, 4, 4, 0),
    ((4, 1), (1, 1), 16, 4, 2, 1, 5, 0),
    ((4, 1), (1, 1), 32, 3, 2, 2, 2, 0),
    ((3, 1), (1, 1), 32, 4, 1, 2, 3, 0),
    ((2, 1), (1, 1), 32, 4, 2, 2, 4, 0),
    ((1, 3), (1, 1), 32, 4, 2, 2, 3, 0),
    ((3, 2), (1, 1), 16, 4, 1, 1, 5, 0),
    ((2, 3), (1, 1), 16, 4, 1, 1, 5, 0),
    ((2, 1), (1, 3), 32, 3, 1, 2, 3, 0),
    ((1, 3), (3, 1), 16, 3, 1, 1, 5, 0),
    ((2, 3), (2, 1), 32, 3, 1, 2, 1, 0),
    ((1, 4), (1, 2), 16, 4, 2, 1, 3, 0),
    ((4, 1), (1, 5), 16, 4, 1, 1, 2, 0),
    ((4, 2), (2, 3), 16, 4, 1, 1, 1, 0),
    ((1, 3), (3, 2), 16, 4, 2, 1, 3, 0),
    ((2, 1), (1, 5), 16, 3, 2, 1, 5, 0),
    ((3, 1), (1, 2), 64, 3, 1, 4, 1, 0),
    ((4, 1), (1, 3), 16, 4, 1, 1, 3, 0),
    ((4, 1), (2, 3), 16, 4, 1, 1, 2, 0),
    # for sums so short that double buffering in registers does not pay
    ((2, 2), (2, 2), 16, 4, 0, 1, 3, 0),
    ((2, 2), (4, 2), 16, 4, 0, 1, 2, 0),
)


def _matrix_tile(row: _Row, written: bool) -> GpuTile:
    """A tile for matrix instructions. Unless ``written``, rows and columns change places, which avoids moves between registers."""
    warps, blocks, kb, stages, double, parts, groups, tail = row
    point = matrix(warps[::-1], blocks[::-1], kb, stages, double, 4) if written else matrix(warps, blocks, kb, stages, double)
    return GpuTile(replace(point, KG=parts), groups, tail)


_FLOAT64, _WRITTEN = (tuple(_matrix_tile(row, written) for row in _MATRIX) for written in (False, True))
