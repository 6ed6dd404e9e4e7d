"""Rungs 6 to 10 of the ladder of matrix products that ``matmul`` begins: register tiles in two dimensions, vector loads, prefetching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portatile.records import Config
from portatile.workloads.gemm.forms.generic.point import tile
from portatile.workloads.gemm.forms.gpu.point import pipeline
from portatile.workloads.gemm.point import Point

_TILES = tile(1, (8, 8), (16, 16), (1, 1), 16, True)
_WIDE = tile(4, (8, 8), (16, 16), (1, 1), 16, True)
_TENS = tile(2, (10, 10), (16, 16), (1, 1), 10, True)

TITLES: Mapping[int, str] = {
    6: "8 x 8 results in registers, tiles of 128 x 128",
    7: "the same with vectors of four",
    8: "the same through the read-only path",
    9: "the next tiles fetched during these sums",
    10: "10 x 10 results in registers, any size by zero padding",
}


def rung(number: int, dtype: str) -> Config:
    """The configuration of a rung; raises KeyError if the rung is not a configuration of ``gemm``.

    Examples:
        >>> rung(6, "float32")["TR"]
        8
    """
    ahead = pipeline(4, (16, 16), (2, 2), 16, 2, 8) if dtype == "float32" else pipeline(2, (16, 16), (2, 2), 16, 2, 8)
    points: Mapping[int, Point] = {6: _TILES, 7: _WIDE, 8: replace(_WIDE, LDG=True), 9: ahead, 10: _TENS}
    return points[number].config()
