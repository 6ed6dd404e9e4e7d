"""The constants of the tma form's estimate: what each step of its products costs on a GPU of compute capability 9.0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("costs.json")
"""The constants, and the command and the timings that they come from: written by ``bench/fit_tma.py``."""


@dataclass(frozen=True)
class TmaCosts:
    """The constants of the estimate for one compiler.

    Microseconds: ``launch``; ``fill`` of a round of groups, until the first of them multiply and after the last; ``wait`` for a stage from
    memory; ``turn`` from stage to stage where a warp of its own asks for them, ``asked`` where those that multiply do; ``box`` for each
    box that the TMA is asked for; ``gather`` until a cluster's groups have met, ``arrive`` until a tile's last group knows that it is,
    ``add`` for the launch that adds. Megabytes a microsecond: ``cached`` and ``read`` of all groups, ``stored`` of C, ``ragged`` times less
    where its rows are not aligned, ``added``; of one group ``first`` of the stages before it multiplies, ``exchanged`` of the parts of a
    group, ``gathered`` of a cluster's, ``alone`` of what its four warps read of others. ``rates``: the part of the units' multiply-adds
    that many warps reach, for operands NN or TT, TN, NT. ``warps``: how many idle ones halve that. ``even``: the least part of it that
    groups reach whose warps are no multiple of four. ``loaded``: cycles of a multiprocessor for 16 bytes that each work-item of a warp
    loads from local memory.
    """

    launch: float
    fill: float
    first: float
    wait: float
    turn: float
    asked: float
    rates: tuple[float, ...]
    warps: float
    even: float
    box: float
    loaded: float
    cached: float
    read: float
    stored: float
    ragged: float
    exchanged: float
    gather: float
    gathered: float
    arrive: float
    alone: float
    add: float
    added: float


@cache
def known() -> dict[str, TmaCosts]:
    """The constants by the compiler's language."""
    return msgspec.convert(msgspec.json.decode(FILE.read_bytes())["costs"], dict[str, TmaCosts])


def of(language: str) -> TmaCosts:
    """The constants for a compiler, of another one where there are none."""
    found = known()
    return found.get(language) or next(iter(found.values()))
