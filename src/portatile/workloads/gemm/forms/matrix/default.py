"""The default of the matrix form: the tile that is done first by an estimate, k split where tiles are few."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.matrix.point import MatrixUnits, tile
from portatile.workloads.gemm.units import UnitTile

_TILES = (  # rates are those of an H200, whose units this form fills by half
    UnitTile(replace(tile((2, 4), (4, 4), 3), RASTER=8), 0.44, 3.0),
    UnitTile(replace(tile((2, 2), (4, 4), 3), RASTER=8), 0.42, 2.0),
    UnitTile(tile((2, 2), (2, 2), 4), 0.35, 1.4),
)
_PROMOTED = (  # of floats of eight bits, which compute capability 9.0 multiplies as halves outside of warp groups; not measured yet
    UnitTile(replace(tile((2, 4), (4, 2), 3, double=0), RASTER=8, PROMOTE=units.PROMOTED), 0.2, 2.0),
    UnitTile(replace(tile((2, 2), (2, 2), 4), PROMOTE=units.PROMOTED), 0.16, 1.4),
)


def point(problem: Problem, device: DeviceInfo, batch: int) -> MatrixUnits | None:
    """The point for a device with an instruction for the problem's types; None for others."""
    fastest = estimate(problem, device, batch)
    return None if fastest is None else fastest[1]


def estimate(problem: Problem, device: DeviceInfo, batch: int) -> tuple[float, MatrixUnits] | None:
    """As ``point``, with the microseconds that it would take on an H200."""
    fitting = [one for one in (_PROMOTED if units.promotes(problem) else _TILES) if units.fits(one.point, device)]
    if not units.unit(problem, device) or not fitting:
        return None
    took, fastest = units.fastest(problem, device, batch, fitting)
    assert isinstance(fastest, MatrixUnits)
    return took, fastest
