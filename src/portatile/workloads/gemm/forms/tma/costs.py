"""The constants of the tma form's estimate: the cost of each step of a product on a GPU of compute capability 9.0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("costs.json")
"""The constants, with the command and the timings behind them; written by ``bench/fit_tma.py``."""


@dataclass(frozen=True)
class TmaCosts:
    """The constants of the estimate for one compiler.

    Microseconds:

    - ``launch``: one launch. ``fill``: of a round of work-groups, before the first one multiplies and after the last one does.
    - ``wait``: for a stage from memory. ``turn``: from stage to stage if a copying warp requests them, ``asked`` if the multiplying warps
      do.
    - ``box``: for each box that is requested of the TMA.
    - ``gather``: before the work-groups of a cluster have met. ``arrive``: before a tile's last work-group knows that it is the last.
    - ``add``: the launch that adds partial sums.

    Megabytes per microsecond: ``cached`` and ``read`` by all work-groups, ``stored`` to C (divided by ``ragged`` if its rows are not
    aligned), ``added``; by one work-group ``first`` (the stages before it multiplies), ``exchanged`` (between its parts), ``gathered`` (in
    a cluster), ``alone`` (what four warps read of other work-groups' sums).

    ``rates``: the share of the units' multiply-adds that many warps reach, for operands NN or TT, TN, and NT. ``warps``: the resident warps
    that reach half of it. ``even``: the least share of it for work-groups whose warps are no multiple of four. ``loaded``: a
    multiprocessor's cycles for a load of 16 bytes from local memory by each work-item of a warp.
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
    """The constants of each compiler's language."""
    return msgspec.convert(msgspec.json.decode(FILE.read_bytes())["costs"], dict[str, TmaCosts])


def of(language: str) -> TmaCosts:
    """The constants for a compiler, or those of another one if it has none."""
    found = known()
    return found.get(language) or next(iter(found.values()))
