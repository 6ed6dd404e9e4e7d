"""The default of the hopper form: the tile with the least estimated time, with k split if there are few tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm import units
from portatile.workloads.gemm.epilogue import block_of
from portatile.workloads.gemm.forms.hopper.point import RESTS, Hopper, tile
from portatile.workloads.gemm.forms.matrix import default as fragments
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.reals import moduli, types_of
from portatile.workloads.gemm.storage import transposed
from portatile.workloads.gemm.units import UnitTile

_LAUNCH = 1.4  # microseconds before a work-group multiplies, and after it ends
_TILES = tuple(
    UnitTile(tile(rows, columns, stages), rate, _LAUNCH)
    for rows, columns, stages, rate in (
        *((192, 192, 4, 0.97), (192, 160, 4, 0.95), (192, 128, 4, 0.94), (192, 96, 5, 0.92)),
        *((128, 256, 4, 1.0), (128, 240, 4, 0.98), (128, 224, 4, 0.97), (128, 208, 4, 0.96), (128, 192, 4, 0.95)),
        *((128, 176, 4, 0.94), (128, 160, 5, 0.93), (128, 144, 5, 0.92), (128, 128, 6, 0.92), (128, 64, 8, 0.9)),
        *((64, 256, 4, 0.92), (64, 192, 5, 0.92), (64, 128, 6, 0.9), (64, 96, 8, 0.9), (64, 64, 12, 0.9), (64, 32, 12, 0.9)),
    )
)
_TURNED = tuple(one for one in _TILES if one.point.items <= 384)  # with at most two consumer warp groups, as TURN needs
_BY_TURNS = UnitTile(replace(tile(256, 128, 6, blocks=2), ALTERNATE=True), 0.92, _LAUNCH)  # ping-pong, for elements of one or two bytes
_PROMOTED = tuple(  # for 8-bit floats
    UnitTile(replace(tile(rows, columns, stages, blocks), PROMOTE=units.PROMOTED), rate, _LAUNCH)
    for rows, columns, stages, blocks, rate in (
        *((192, 128, 4, 1, 0.85), (128, 192, 4, 1, 0.92), (128, 176, 4, 1, 0.92), (256, 128, 4, 2, 0.76), (128, 128, 6, 1, 0.76)),
        *((64, 128, 6, 1, 0.57), (64, 64, 12, 1, 0.37), (64, 32, 12, 1, 0.25)),
    )
)
_SCALED = tuple(one for one in _PROMOTED if max(one.point.rows, one.point.columns) <= 176)  # with block scales
_JOINED = 0.3  # microseconds that the work-groups of a cluster wait for each other
_PAIRED = 1.008  # the rate of clusters over that of single work-groups, for large products (probably because they draw less power)
_CUT = 1 << 33  # multiply-adds from which smaller tiles for the last rows are worth a second launch
_SAVES = 0.04  # the share of the waves that the smaller tiles must save
_TRIED = 6  # such configurations that are estimated: those whose tiles have the least work
_RESTS = 2  # such configurations that are timed among the contenders
_NEAR = 1.5  # a tile whose estimate is at most so many times the least may still be the fastest


def point(problem: Problem, device: DeviceInfo, batch: int) -> Hopper | None:
    """The point for a device whose warp groups multiply the problem's types; None for other devices, or if the matrix form is estimated to
    be faster.
    """
    other = fragments.estimate(problem, device, batch)
    fitting = _fitting(problem, device, batch)
    if other is None or not fitting:
        return None
    took, fastest = min(
        (units.fastest(problem, device, batch, fitting), *_with_rest(problem, device, batch, fitting)), key=lambda one: one[0]
    )
    assert isinstance(fastest, Hopper)
    return fastest if took <= other[0] else None


def contenders(problem: Problem, device: DeviceInfo, count: int) -> Iterator[Point]:
    """Each tile with its best split of k by the estimate, and the matrix form's best, as long as their estimates come near the least."""
    fitting = _fitting(problem, device, 1)
    found = [units.fastest(problem, device, 1, [one]) for one in fitting]
    found += sorted(_with_rest(problem, device, 1, fitting), key=lambda one: one[0])[:_RESTS]
    if found and (other := fragments.estimate(problem, device, 1)) is not None:
        found.append(other)
    least = min((took for took, _ in found), default=0.0)
    yield from (one for took, one in sorted(found, key=lambda pair: pair[0])[:count] if took <= _NEAR * least)


def _with_rest(problem: Problem, device: DeviceInfo, batch: int, fitting: list[UnitTile]) -> Iterator[tuple[float, Point]]:
    """Some configurations whose last rows of C are computed in smaller tiles, if that may save time, with their estimated microseconds."""
    if batch > 1 or problem.sizes["m"] * problem.sizes["n"] * problem.sizes["k"] < _CUT:
        return
    small = {(one.point.rows, one.point.columns): one for one in reversed(fitting)}
    rests = [rest for rest, (rows, columns, _) in RESTS.items() if (rows, columns) in small]
    whole = [
        one
        for one in fitting
        if isinstance(one.point, Hopper) and not (one.point.ALTERNATE or one.point.TURN) and one.point.ALIGNED == "none"
    ]
    work = {one: _with(one, CLUSTER=1).point.groups(problem) * one.point.rows * one.point.columns / one.rate for one in whole}
    found: list[tuple[float, int, UnitTile]] = []
    for one in whole:
        for rest in rests if work[one] <= _NEAR * min(work.values()) else ():
            cut = (point := replace(one.point, REST=rest)).cut(problem, device)  # type: ignore[type-var]
            if cut is None:
                break
            if cut.saved > _SAVES:
                found.append((work[one] * (1 - cut.saved), cut.above, replace(one, point=point)))
    for _, above, one in sorted(found, key=lambda each: each[0])[:_TRIED]:
        below = one.point.bare(1)
        parts = (replace(problem, sizes={**problem.sizes, "m": m}) for m in (above, problem.sizes["m"] - above))
        tiles = replace(one, point=replace(one.point, REST="none")), small[below.rows, below.columns]  # type: ignore[type-var]
        yield sum(units.fastest(part, device, 1, [tile])[0] for part, tile in zip(parts, tiles, strict=True)), one.point


def _fitting(problem: Problem, device: DeviceInfo, batch: int) -> list[UnitTile]:
    """The tiles for the problem's types for which the device has instructions and local memory. They include clusters that share B's tile
    (for 8-bit floats only if rows are unaligned), operands copied to aligned rows first if they are unaligned, and otherwise ping-pong.
    """
    if not device.can.warp_groups or not units.unit(problem, device):
        return []
    tiles = _SCALED if block_of(problem) else _PROMOTED if units.promotes(problem) else _TURNED if units.turns(problem) else _TILES
    unaligned = "".join(name for name in "ab" if units.unaligned(problem, name))
    plain = tiles in (_TILES, _TURNED)
    across = not units.along(
        transposed(problem) if units.turns(problem) else problem, "b", fragments=True
    )  # B is copied in boxes of 128 bytes across k
    size = types_of(problem).operand.itemsize
    alone = tiles = tuple(one for one in tiles if not across or one.point.columns * size % units.LINE == 0)
    if device.can.clusters and (plain or unaligned):
        tiles = (*tiles, *(replace(_with(one, CLUSTER=2), launch=one.launch + _JOINED, rate=one.rate * _PAIRED) for one in alone))
    if plain and types_of(problem).operand.itemsize < 4 and not unaligned and not moduli(problem):
        tiles = (*tiles, _BY_TURNS)
    if batch == 1 and not units.turns(problem):
        for names in sorted({*unaligned, unaligned} - {""}, reverse=True):  # B first: most tiles read more of its rows
            took = units.aligned_copies_us(problem, names, device)
            tiles = (*tiles, *(replace(_with(one, ALIGNED=names), launch=one.launch + took) for one in alone))
    known: dict[str, Value] = {"MAPS": int(device.can.tensor_maps), "TURN": units.turns(problem)}
    tiles = tuple(_with(one, **known) for one in tiles)
    return [one for one in tiles if units.fits(one.point, device, one.point.local_beside(problem))]


def _with(one: UnitTile, **values: Value) -> UnitTile:
    return replace(one, point=replace(one.point, **values))  # type: ignore[type-var]
