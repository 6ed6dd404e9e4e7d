"""The variants that the estimate compares: each tile with every sensible staging of the operands and split of k, as columns of numbers.

A problem has thousands of variants. They are arrays of numbers, which are made once for all problems of the same ``ProblemKind``; only the
chosen variants become points of the form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.workloads.gemm.capabilities import JOINED
from portatile.workloads.gemm.forms.gpu.point import MIRRORED_PAD, Gpu
from portatile.workloads.gemm.forms.gpu.tiles import GpuTile, tiles_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WAYS = ("free", "packed", "kept", "dots", "transposed", "columns", "elements", "shifted", "mirrored")
"""How an operand reaches local memory: ``free`` in vectors without extra cost; ``packed`` before; ``kept`` or ``dots`` along k, in vectors
or by elements; ``transposed`` in vectors or, as ``columns``, by elements; ``elements`` across k one by one; ``shifted`` as the vectors that
contain its rows; ``mirrored`` from the stored triangle of a symmetric matrix.
"""

CLUSTERS = (2, 4, 8)
"""Cluster sizes: work-groups that may add up their sums in each other's local memory."""

SPLITS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Work-groups that may share a tile's k."""

_SHARED = {4: (12, 16, 20, 24), 8: (16, 24, 32, 48, 64)}  # by cluster size, the splits of k over several clusters
_KEPT = 128  # bytes of a register tile, at most, if operands are kept along k: with more, they need too many registers
_PAIR = 0.8  # the cost of copying two elements at a time, over that of one by one
_MANY_ITEMS = 256  # work-items from which no registers are left for double buffering beside the addresses of a mirrored operand
_TOGETHER = {4: 0.7, 8: 0.42}  # the same for copies of both reals of a complex element at once, by the bytes of a real


@dataclass(frozen=True)
class ProblemKind:
    """The properties on which a problem's variants depend: how the operands are stored, and what the device can do.

    Of A and B (pairs): ``fast``: contiguous along k. ``whole``: can be copied in vectors. ``paired``: cannot, but can in pairs of float32.
    ``shifting``: can be copied only as the vectors that contain its rows. ``mirrored``: symmetric, with one triangle stored.

    ``packing``: the problem is large enough for packing to pay. ``joined``, ``clustered``: the last work-group, or a cluster, can add up
    sums. ``limit``: bytes of a work-group's local memory. ``items``: work-items of a work-group, at most. ``complex``: the reals compute a
    complex product.
    """

    dtype: str
    fast: tuple[bool, bool]
    whole: tuple[bool, bool]
    paired: tuple[bool, bool]
    packing: bool
    joined: bool
    clustered: bool
    limit: int
    items: int
    shifting: tuple[bool, bool] = (False, False)
    complex: bool = False
    mirrored: tuple[bool, bool] = (False, False)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 4 if self.dtype == "float32" else 8

    @property
    def tiles(self) -> tuple[GpuTile, ...]:
        """The candidate tiles of such problems, in the order of ``Costs.rates``."""
        return tiles_of(self.dtype, not self.fast[0] and self.fast[1])


class Staging(NamedTuple):
    """How both operands reach local memory: parameters of the form."""

    PACK_A: bool
    PACK_B: bool
    TURN: bool = False
    KEEP: bool = False
    PAD: int = 0
    PAIRS: bool = False
    HELD: bool = False
    SHIFT: bool = False

    @classmethod
    def at(cls, point: Gpu) -> Staging:
        """The staging of a point."""
        return cls(*(getattr(point, name) for name in cls._fields))

    @property
    def padding(self) -> int:
        """Elements by which a row in local memory may be longer than the tile."""
        return max(self.PAD, 4 * self.SHIFT)

    def of(self, point: Gpu) -> Gpu:
        """The point with this staging."""
        return replace(point, **self._asdict())


@dataclass(frozen=True, eq=False)
class VariantColumns:
    """Variants as columns: ``place`` (of the tile), parameters, and how A and B reach local memory.

    ``deep``: KB. ``teams``: KG. ``ways``: places in WAYS. ``loose``: factors of the cost of copies. ``held``: whether copies go through
    registers. ``groups``: work-groups that a multiprocessor holds. ``saved``: the share of the waves that the tail saves.
    """

    place: Ints
    staging: Ints
    rows: Ints
    columns: Ints
    deep: Ints
    stages: Ints
    warps: Floats
    teams: Ints
    groups: Ints
    split: Ints
    join: Bools
    cluster: Ints
    tail: Ints
    saved: Floats
    packs: Ints
    ways_a: Ints
    ways_b: Ints
    loose_a: Floats
    loose_b: Floats
    held_a: Bools
    held_b: Bools

    def __len__(self) -> int:
        return len(self.place)

    def take(self, which: Any) -> VariantColumns:
        """The variants that an index or a mask selects."""
        return VariantColumns(**{one.name: getattr(self, one.name)[which] for one in fields(self)})

    def sharing(self, split: Ints) -> VariantColumns:
        """The variants with this split of k, where the last work-group adds up the sums."""
        return replace(self, split=split, join=split > 1, cluster=np.ones_like(split))

    @property
    def launches(self) -> Ints:
        """The number of launches, without those that pack."""
        again = (self.tail > 0) | ((self.split > 1) & ~self.join & (self.cluster == 1))
        return np.asarray(1 + again, np.int64)


@dataclass(frozen=True, eq=False)
class VariantTable:
    """Every variant of one kind of problems, grouped by tile. ``first``: for each tile its first staging, without split k."""

    kind: ProblemKind
    stagings: tuple[Staging, ...]
    columns: VariantColumns
    starts: tuple[int, ...]
    first: VariantColumns

    def of_tiles(self, places: Sequence[int]) -> VariantColumns:
        """The variants of these tiles, in this order."""
        return self.columns.take(np.concatenate([np.arange(self.starts[place], self.starts[place + 1]) for place in places]))

    def point(self, columns: VariantColumns, which: int) -> Gpu:
        """One of these variants as a point of the form."""
        staged = self.stagings[columns.staging[which]].of(self.kind.tiles[columns.place[which]].point)
        split, cluster, tail = (int(column[which]) for column in (columns.split, columns.cluster, columns.tail))
        found: Gpu = replace(staged, SPLIT_K=split, JOIN=bool(columns.join[which]), CLUSTER=cluster, TAIL=tail)
        return found


_Numbers = tuple[Any, ...]
"""One variant: its values in the order of the fields of VariantColumns."""


@lru_cache(maxsize=256)
def table(kind: ProblemKind) -> VariantTable:
    """Every variant that fits the device, for problems of any size."""
    known: dict[Staging, int] = {}
    first: list[_Numbers] = []
    found: list[_Numbers] = []
    shared: list[tuple[int, int, bool, int]] = []
    starts = [0]
    for place, tile in enumerate(kind.tiles):
        point = replace(tile.point, TAIL=tile.tail) if tile.tail else tile.point
        fits = point.items <= kind.items and point.local_bytes(kind.itemsize) <= kind.limit and not (kind.complex and tile.tail)
        # these need too many registers, and were seen to be a fifth slower
        fits = fits and not (any(kind.mirrored) and point.MMA and point.DOUBLE == 2 and point.items >= _MANY_ITEMS)
        staged = list(stagings(kind, point)) if fits else []
        if staged:
            first.append(_numbers(kind, place, point, staged[0]))
        staged = [one for one in staged if not (point.TAIL and one.PACK_B)]
        sharing = _sharing(kind, point, {one.padding for one in staged})
        for one in staged:
            shared += [(len(found), *way) for way in sharing[one.padding]]
            found.append(_numbers(kind, place, point, one, known.setdefault(one, len(known))))
        starts.append(len(shared))
    base, split, join, cluster = (np.array(column) for column in zip(*shared, strict=True)) if shared else [np.zeros(0, np.int64)] * 4
    columns = replace(_columns(found).take(base), split=split, join=join.astype(np.bool_), cluster=cluster)
    return VariantTable(kind, tuple(known), columns, tuple(starts), _columns(first))


def columns_of(kind: ProblemKind, points: Sequence[tuple[int, Gpu, float]]) -> VariantColumns:
    """Points as columns; for each point the place of its tile and the share of the waves that its tail saves."""
    numbers = []
    for place, point, saved in points:
        numbers.append(_numbers(kind, place, point, Staging.at(point), saved=saved))
    return _columns(numbers)


def _numbers(kind: ProblemKind, place: int, point: Gpu, staging: Staging, number: int = 0, saved: float = 0.0) -> _Numbers:
    """The values of a point with a staging, in the order of ``VariantColumns``."""
    (way_a, loose_a, held_a), (way_b, loose_b, held_b) = (_way(kind, point.MMA, staging, operand) for operand in (0, 1))
    return (
        *(place, number, point.rows, point.columns, point.KB, point.STAGES, point.items / 32, point.KG, kind.tiles[place].groups),
        *(point.SPLIT_K, point.JOIN, point.CLUSTER, point.TAIL, saved, staging.PACK_A + staging.PACK_B),
        *(way_a, way_b, loose_a, loose_b, held_a, held_b),
    )


def _columns(numbers: Sequence[_Numbers]) -> VariantColumns:
    kinds: list[Any] = [{"Ints": np.int64, "Floats": np.float64}.get(str(one.type), np.bool_) for one in fields(VariantColumns)]
    columns: list[Any] = [np.array([row[i] for row in numbers], kind) for i, kind in enumerate(kinds)]
    return VariantColumns(*columns)


def _way(kind: ProblemKind, along: bool, staging: Staging, operand: int) -> tuple[int, float, bool]:
    """How A (0) or B (1) reaches local memory: the place in WAYS, the factor of its copies' cost, and whether they go through registers.

    ``along``: an operand with k fast always stays so.
    """
    fast, whole, paired = kind.fast[operand], kind.whole[operand], kind.paired[operand]
    loose = _PAIR if paired and staging.PAIRS else 1.0
    if kind.mirrored[operand]:
        return WAYS.index("mirrored"), _TOGETHER[kind.itemsize] if kind.complex else 1.0, False
    if staging[operand]:
        name = "packed"
    elif kind.complex:
        name = "free"
    elif fast and (staging.KEEP or along):
        name = "kept" if whole else "dots"
    elif fast:
        name = "transposed" if staging.TURN and whole else "columns"
    else:
        name = "free" if whole else "shifted" if staging.SHIFT and kind.shifting[operand] else "elements"
    return WAYS.index(name), loose if name in ("dots", "elements") else 1.0, staging.HELD and name == "elements"


def _sharing(kind: ProblemKind, tile: Gpu, padding: Collection[int]) -> dict[int, list[tuple[int, bool, int]]]:
    """The ways to split k (SPLIT_K, JOIN, CLUSTER) that fit the local memory, for each padding of the rows; a tail allows only no split."""
    ways: list[tuple[int, bool, int]] = [(1, False, 1)]
    for split in SPLITS if not tile.TAIL else ():
        ways.append((split, False, 1))
        if kind.complex:  # only a second launch adds up its sums
            continue
        if kind.joined and tile.rows * tile.columns * kind.itemsize * split <= JOINED:
            ways.append((split, True, 1))
        if kind.clustered and split in CLUSTERS:
            ways.append((split, False, split))
        ways += [(split, True, cluster) for cluster, splits in _SHARED.items() if kind.clustered and split in splits]
    most = replace(tile, PAD=max(padding, default=0), CLUSTER=2)
    if most.local_bytes(kind.itemsize) <= kind.limit:
        return dict.fromkeys(padding, ways)
    clustered = {pad: replace(most, PAD=pad).local_bytes(kind.itemsize) <= kind.limit for pad in padding}
    alone = {pad: replace(most, PAD=pad, CLUSTER=1).local_bytes(kind.itemsize) <= kind.limit for pad in padding}
    return {pad: [way for way in ways if (clustered if way[-1] > 1 else alone)[pad]] for pad in padding}


def stagings(kind: ProblemKind, point: Gpu) -> Iterator[Staging]:
    """The stagings: each operand packed if that may pay, or copied, where one with k fast is transposed, kept along k, or copied by
    elements. Complex operands with k fast are packed only if their elements are not aligned.
    """
    spread = any(kind.mirrored) and not point.MMA
    for staged in _of_kind(kind, point):
        yield staged._replace(PAD=max(staged.PAD, MIRRORED_PAD)) if spread else staged


def _of_kind(kind: ProblemKind, point: Gpu) -> Iterator[Staging]:
    """As ``stagings``, without the padding of rows for a mirrored operand."""
    if kind.complex:
        packed = [fast and not whole for fast, whole in zip(kind.fast, kind.whole, strict=True)]
        loaded = any(fast and whole for fast, whole in zip(kind.fast, kind.whole, strict=True))
        yield Staging(packed[0], packed[1], PAD=4 if loaded and not point.MMA else 0)
        return
    plain = tuple(whole and (point.MMA or not fast) for fast, whole in zip(kind.fast, kind.whole, strict=True))
    for packs in product((False, True) if kind.packing else (False,), repeat=2):
        if any(pack and as_it_lies for pack, as_it_lies in zip(packs, plain, strict=True)):
            continue
        for staged in _unpacked(kind, point, Staging(*packs)):
            loose = [not pack and not whole for pack, whole in zip(packs, kind.whole, strict=True)]
            along = staged.KEEP or point.MMA
            pairs = any(
                is_loose and pair and (along or not fast) for is_loose, pair, fast in zip(loose, kind.paired, kind.fast, strict=True)
            )
            staged = staged._replace(PAIRS=pairs)
            yield staged
            if any(is_loose and not fast for is_loose, fast in zip(loose, kind.fast, strict=True)):
                yield staged._replace(HELD=True)
            if any(is_loose and shift for is_loose, shift in zip(loose, kind.shifting, strict=True)) and _shifts(point):
                left = zip(loose, kind.paired, kind.shifting, kind.fast, strict=True)
                pairs = any(is_loose and pair and not shift and (along or not fast) for is_loose, pair, shift, fast in left)
                yield staged._replace(SHIFT=True, PAIRS=pairs)


def _shifts(point: Gpu) -> bool:
    """Whether a point supports SHIFT, by its rules."""
    return (point.MMA or (point.VL == 4 and point.KB // point.KG % 4 == 0)) and not point.TAIL


def _unpacked(kind: ProblemKind, point: Gpu, staging: Staging) -> Iterator[Staging]:
    """The stagings of unpacked operands with k fast."""
    packs = (staging.PACK_A, staging.PACK_B)
    left = [whole for pack, fast, whole in zip(packs, kind.fast, kind.whole, strict=True) if fast and not pack]
    if point.MMA or not left:
        yield staging
        return
    turns = not (point.TBR & (point.TBR - 1) or point.TBC & (point.TBC - 1))
    if any(left) and turns:
        yield staging._replace(TURN=True, PAD=0 if all(left) else 4)
    else:
        yield staging._replace(PAD=4)
    if turns and point.TR * point.TRR * point.TC * point.TCR * kind.itemsize <= _KEPT:
        yield staging._replace(KEEP=True)


def joined(parts: Sequence[VariantColumns]) -> VariantColumns:
    """The columns of all parts, concatenated."""
    return VariantColumns(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(VariantColumns)))
