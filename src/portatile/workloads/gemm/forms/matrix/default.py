"""The default of the matrix form: the tile with the least estimated time, with k split if there are few tiles."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.matrix.point import MatrixUnits, tile
from portatile.workloads.gemm.units import UnitTile

_TILES = (  # with the rates on an H200, whose matrix units this form keeps half busy
    UnitTile(replace(tile((2, 4), (4, 4), 3), RASTER=8), 0.44, 3.0),
    UnitTile(replace(tile((2, 2), (4, 4), 3), RASTER=8), 0.42, 2.0),
    UnitTile(tile((2, 2), (2, 2), 4), 0.35, 1.4),
)
_PROMOTED = (  # for 8-bit floats, which compute capability 9.0 converts to float16 outside of warp groups; not measured yet
    UnitTile(replace(tile((2, 4), (4, 2), 3, double=0), RASTER=8, PROMOTE=units.PROMOTED), 0.2, 2.0),
    UnitTile(replace(tile((2, 2), (2, 2), 4), PROMOTE=units.PROMOTED), 0.16, 1.4),
)


def point(problem: Problem, device: DeviceInfo, batch: int) -> MatrixUnits | None:
    """The point for a device with a matrix instruction for the problem's types; None for other devices."""
    fastest = estimate(problem, device, batch)
    return None if fastest is None else fastest[1]


def estimate(problem: Problem, device: DeviceInfo, batch: int) -> tuple[float, MatrixUnits] | None:
    """As ``point``, with its estimated microseconds on an H200."""
    fitting = [one for one in (_PROMOTED if units.promotes(problem) else _TILES) if units.fits(one.point, device)]
    if not units.unit(problem, device) or not fitting:
        return None
    took, fastest = units.fastest(problem, device, batch, fitting)
    assert isinstance(fastest, MatrixUnits)
    return took, fastest
