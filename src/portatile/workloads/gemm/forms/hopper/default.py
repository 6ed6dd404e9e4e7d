"""The default of the hopper form: the tile that is done first by an estimate, k split where tiles are few."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm import units
from portatile.workloads.gemm.epilogue import block_of
from portatile.workloads.gemm.forms.hopper.point import Hopper, tile
from portatile.workloads.gemm.forms.matrix import default as fragments
from portatile.workloads.gemm.units import Tile

_TILES = (
    Tile(tile(128, 256, 4), 1.0, 2.4),
    Tile(tile(128, 128, 6), 0.86, 2.4),
    Tile(tile(64, 256, 4), 0.77, 2.4),
    Tile(tile(64, 128, 6), 0.70, 2.4),
    Tile(tile(64, 64, 12), 0.50, 2.4),
)
_PROMOTED = (  # of floats of eight bits
    Tile(replace(tile(128, 192, 4), PROMOTE=units.PROMOTED), 0.96, 2.4),
    Tile(replace(tile(256, 128, 4, blocks=2), PROMOTE=units.PROMOTED), 0.9, 2.4),
    Tile(replace(tile(128, 128, 6), PROMOTE=units.PROMOTED), 0.87, 2.4),
    Tile(replace(tile(64, 128, 6), PROMOTE=units.PROMOTED), 0.62, 2.4),
    Tile(replace(tile(64, 64, 12), PROMOTE=units.PROMOTED), 0.4, 2.4),
)
_SCALED = _PROMOTED[2:]  # beside factors of blocks of k


def point(problem: Problem, device: DeviceInfo, batch: int) -> Hopper | None:
    """The point for a device whose warp groups multiply the problem's types; None for others, and where fragments are done sooner."""
    other = fragments.estimate(problem, device, batch)
    tiles = _SCALED if block_of(problem) else _PROMOTED if units.promotes(problem) else _TILES
    fitting = [replace(one, point=replace(one.point, MAPS=1)) for one in tiles if units.fits(one.point, device)]  # type: ignore[type-var]
    if other is None or not device.can.warp_groups or not fitting:
        return None
    took, found = units.fastest(problem, device, batch, fitting)
    assert isinstance(found, Hopper)
    return found if took <= other[0] else None
