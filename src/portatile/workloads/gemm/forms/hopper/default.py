"""The default of the hopper form: the tile that is done first by an estimate, k split where tiles are few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm import units
from portatile.workloads.gemm.epilogue import block_of
from portatile.workloads.gemm.forms.hopper.point import Hopper, tile
from portatile.workloads.gemm.forms.matrix import default as fragments
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.reals import moduli, types_of
from portatile.workloads.gemm.units import Tile

_TILES = (
    Tile(tile(128, 256, 4), 1.0, 2.4),
    Tile(tile(128, 192, 4), 0.93, 2.4),
    Tile(tile(128, 128, 6), 0.86, 2.4),
    Tile(tile(64, 256, 4), 0.77, 2.4),
    Tile(tile(64, 128, 6), 0.70, 2.4),
    Tile(tile(64, 64, 12), 0.50, 2.4),
)
_BY_TURNS = Tile(replace(tile(256, 128, 6, blocks=2), ALTERNATE=True), 0.9, 2.4)  # of elements of one or two bytes
_PROMOTED = (  # of floats of eight bits
    Tile(replace(tile(128, 192, 4), PROMOTE=units.PROMOTED), 1.0, 2.4),
    Tile(replace(tile(128, 176, 4), PROMOTE=units.PROMOTED), 1.0, 2.4),
    Tile(replace(tile(256, 128, 4, blocks=2), PROMOTE=units.PROMOTED), 0.93, 2.4),
    Tile(replace(tile(128, 128, 6), PROMOTE=units.PROMOTED), 0.94, 2.4),
    Tile(replace(tile(64, 128, 6), PROMOTE=units.PROMOTED), 0.62, 2.4),
    Tile(replace(tile(64, 64, 12), PROMOTE=units.PROMOTED), 0.4, 2.4),
)
_SCALED = _PROMOTED[3:]  # beside factors of blocks of k
_JOINED = 0.5  # microseconds that a cluster's groups wait for each other
_PAIRED = 1.004  # times the rate of groups alone, where memory is read well
_NEAR = 1.5  # times the least estimate, up to which a tile may be the fastest


def point(problem: Problem, device: DeviceInfo, batch: int) -> Hopper | None:
    """The point for a device whose warp groups multiply the problem's types; None for others, and where fragments are done sooner."""
    other = fragments.estimate(problem, device, batch)
    fitting = _fitting(problem, device, batch)
    if other is None or not fitting:
        return None
    took, fastest = units.fastest(problem, device, batch, fitting)
    assert isinstance(fastest, Hopper)
    return fastest if took <= other[0] else None


def contenders(problem: Problem, device: DeviceInfo, count: int) -> Iterator[Point]:
    """Each tile with the best split of k by the estimate, and the matrix form's, as far as they may come near the fastest of them."""
    found = [units.fastest(problem, device, 1, [one]) for one in _fitting(problem, device, 1)]
    if found and (other := fragments.estimate(problem, device, 1)) is not None:
        found.append(other)
    least = min((took for took, _ in found), default=0.0)
    yield from (one for took, one in sorted(found, key=lambda pair: pair[0])[:count] if took <= _NEAR * least)


def _fitting(problem: Problem, device: DeviceInfo, batch: int) -> list[Tile]:
    """The tiles for the problem's types that the device has instructions and local memory for. Where memory is read less well, also with
    operands copied to aligned rows first; there, and for large products, where it was faster (less power, probably), also in clusters of
    groups that share what they read. Elsewhere also with warp groups that take turns.
    """
    if not device.can.warp_groups or not units.unit(problem, device):
        return []
    tiles = _SCALED if block_of(problem) else _PROMOTED if units.promotes(problem) else _TILES
    unaligned = "".join(name for name in "ab" if units.unaligned(problem, name))
    gain = 1.0 if unaligned else 0.0 if tiles is not _TILES else _PAIRED
    alone = tiles
    if device.can.clusters and gain:
        tiles = (*tiles, *(replace(_with(one, CLUSTER=2), launch=one.launch + _JOINED, rate=one.rate * gain) for one in alone))
    if tiles[0] is _TILES[0] and types_of(problem).operand.itemsize < 4 and not unaligned and not moduli(problem):
        tiles = (*tiles, _BY_TURNS)
    if batch == 1 and not units.turns(problem):
        for names in sorted({*unaligned, unaligned} - {""}, reverse=True):  # rather B, of which groups mostly read more rows
            took = units.aligned_us(problem, names, device)
            tiles = (*tiles, *(replace(_with(one, ALIGNED=names), launch=one.launch + took) for one in alone))
    known: dict[str, Value] = {"MAPS": int(device.can.tensor_maps), "TURN": units.turns(problem)}
    return [_with(one, **known) for one in tiles if units.fits(one.point, device)]


def _with(one: Tile, **values: Value) -> Tile:
    return replace(one, point=replace(one.point, **values))  # type: ignore[type-var]
