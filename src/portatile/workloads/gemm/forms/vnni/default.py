"""The default of the vnni form: the register tile that suits the shape, and bands of rows whose panels stay in a processor's caches."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms.vnni.point import WORD, Vnni, dots
from portatile.workloads.gemm.reals import types_of

_NARROW = 8  # columns of C below which most of a vector would be idle
_ROWS = {16: 14, 32: 14}  # rows of the largest tile, by its columns: the registers beside two vectors across it suffice for so many
_BAND, _SHORT_BAND = 32, 8  # rows of tiles in a band
_CACHE = 1 << 22  # bytes of a band of A up to which caches keep it while columns of B stream past


def point(problem: Problem, device: DeviceInfo, batch: int) -> Vnni | None:
    """The point for a processor with an instruction for the problem's types; None for others."""
    m, n, k = (problem.sizes[size] for size in "mnk")
    if not dots(problem, device) or n < _NARROW or m == 0:
        return None
    columns = 16 if n <= 16 else 32
    down = -(-m // _ROWS[columns])
    rows = -(-m // down)  # tiles of rows that are as equal as possible
    tile = min(rows + rows % 2, _ROWS[columns])
    band = _BAND * tile * k * types_of(problem).operand.itemsize
    return Vnni(TR=tile, TC=columns, UNROLL=2 if k >= 2 * WORD else 1, RASTER=_BAND if band <= _CACHE else _SHORT_BAND)
