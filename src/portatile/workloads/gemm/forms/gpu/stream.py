"""Stream-K for a triangle of C: work-groups share the tiles evenly, so that no last wave leaves multiprocessors idle.

The steps of k of all tiles form one sequence, of which every work-group takes an equal share (Osama et al., 2023). If the triangle takes
several waves, only the last one to two tiles of each work-group are shared; the others have a work-group each.
"""

from __future__ import annotations

from dataclasses import dataclass

from portatile.records import Value
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.triangle import Doubled, Quarters, Rest, count, rest
from portatile.workloads.gemm.passing import ceil_div

_LEAST = 64  # steps of k that a work-group computes, at least
_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class SharedTiles:
    """How work-groups share the tiles of a triangle: the first ``tiles`` in shares of ``share`` stages (KB steps) each, the others whole.

    ``sharing`` work-groups have shares, ``groups`` are launched. No work-group has parts of more than ``pieces`` tiles. The kernel text
    contains the code of a part once for each piece, or, if ``looped``, in a loop.
    """

    share: int
    tiles: int
    sharing: int
    groups: int
    pieces: int
    looped: bool

    def planes(self, tile: int) -> int:
        """Bytes of the planes for partial sums: each sharing work-group leaves those of two tiles, of ``tile`` bytes each."""
        return 2 * self.sharing * tile


@dataclass(frozen=True)
class Tailed:
    """Two launches: whole waves of ``first`` tiles, then the ``rest`` in ``smaller`` tiles of half the side."""

    first: Quarters | Doubled
    smaller: Gpu
    rest: Rest


OneLaunch = SharedTiles | Quarters | Doubled | Rest
Sharing = OneLaunch | Tailed
"""How work-groups share the tiles of a triangle of C."""


def facts(sharing: OneLaunch | None) -> dict[str, Value]:
    """What the kernel text has to know about the sharing."""
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
    """Waves of ``slots`` work-groups that run at once, each with a tile of this side off the diagonal, and the rest; None without a whole
    wave.
    """
    along = ceil_div(order, side)
    first = along * (along - 1) // 2 // slots * slots
    whole = Doubled(first, side * side) if doubled else Quarters(first)
    return Tailed(whole, smaller, rest(order, smaller.rows, first, doubled=doubled)) if first else None


def streamed(order: int, k: int, zeros: str, point: Gpu, slots: int) -> SharedTiles | None:
    """How ``slots`` work-groups that run at once share a triangle of this order, where C is not wanted on the side of the diagonal ("above"
    or "below") that ``zeros`` names; None if whole tiles occupy them as well.
    """
    wanted, steps = count(order, zeros, point.rows, point.columns), ceil_div(k, point.KB)
    waves, rest = divmod(wanted, slots)
    if rest == 0 or point.KG > 1 or k == 0 or wanted * steps > _INT_MAX:
        return None
    shared = rest + slots if waves else wanted
    share = max(ceil_div(shared * steps, slots), ceil_div(_LEAST, point.KB))
    sharing = ceil_div(shared * steps, share)
    return SharedTiles(share, shared, sharing, sharing + wanted - shared, 2 + (share - 2) // steps, not point.MMA)
