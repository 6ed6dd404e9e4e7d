"""Triangles of C whose tiles all groups share evenly, so that no last wave leaves multiprocessors idle.

Known as stream-K (Osama et al., 2023): the steps of k of all tiles lie in a row, and each group has as many of them. Of a triangle of
several waves so many tiles are shared that one to two are left for each group; the others have a group each.
"""

from __future__ import annotations

from dataclasses import dataclass

from portatile.records import Value
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.triangle import Doubled, Quarters, Rest, count, rest
from portatile.workloads.gemm.passing import ceil_div

_LEAST = 64  # steps of k that a group has, at least
_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class SharedTiles:
    """How groups share the tiles of a triangle: the first ``tiles`` by ``share`` steps of KB each, the others whole.

    ``sharing`` groups have shares, ``groups`` are launched. No group has parts of more than ``pieces`` tiles; the text comes once
    for each of them, or is ``looped``.
    """

    share: int
    tiles: int
    sharing: int
    groups: int
    pieces: int
    looped: bool

    def planes(self, tile: int) -> int:
        """Bytes of the sums that groups leave, of two tiles of so many bytes each."""
        return 2 * self.sharing * tile


@dataclass(frozen=True)
class Tailed:
    """Whole waves of ``first`` tiles in one launch, and in the next one the ``rest``, with the ``smaller`` tiles of half their side."""

    first: Quarters | Doubled
    smaller: Gpu
    rest: Rest


OneLaunch = SharedTiles | Quarters | Doubled | Rest
Sharing = OneLaunch | Tailed
"""How groups share the tiles of a triangle of C."""


def facts(sharing: OneLaunch | None) -> dict[str, Value]:
    """What the text has to know of it."""
    stream = sharing if isinstance(sharing, SharedTiles) else None
    return {
        "QUARTERS": isinstance(sharing, Quarters),
        "REST": isinstance(sharing, Rest),
        "DOUBLED": isinstance(sharing, Doubled | Rest) and sharing.elements > 0,
        "STREAMED": stream is not None,
        "LOOPED": stream is not None and stream.looped,
        "PIECES": 1 if stream is None or stream.looped else stream.pieces,
    }


def tailed(order: int, side: int, smaller: Gpu, slots: int, *, doubled: bool = False) -> Tailed | None:
    """Waves of ``slots`` groups that run at once, of tiles of this side beside the diagonal, and the rest; None without a whole wave."""
    along = ceil_div(order, side)
    first = along * (along - 1) // 2 // slots * slots
    whole = Doubled(first, side * side) if doubled else Quarters(first)
    return Tailed(whole, smaller, rest(order, smaller.rows, first, doubled=doubled)) if first else None


def streamed(order: int, k: int, zeros: str, point: Gpu, slots: int) -> SharedTiles | None:
    """How ``slots`` groups that run at once share a triangle of this order, of which nothing is wanted "above" or "below" the diagonal, as
    ``zeros`` says; None where whole tiles fill them as well.
    """
    wanted, steps = count(order, zeros, point.rows, point.columns), ceil_div(k, point.KB)
    waves, rest = divmod(wanted, slots)
    if rest == 0 or point.KG > 1 or k == 0 or wanted * steps > _INT_MAX:
        return None
    shared = rest + slots if waves else wanted
    share = max(ceil_div(shared * steps, slots), ceil_div(_LEAST, point.KB))
    sharing = ceil_div(shared * steps, share)
    return SharedTiles(share, shared, sharing, sharing + wanted - shared, 2 + (share - 2) // steps, not point.MMA)
