"""How often each way to compute a problem was timed in this process, and whether one that seems slower is timed again.

A time may include one-off costs: memory is mapped, pages are locked, graphs are made, parts are cut at wrong rates. So a way is given up
only after several timings, of which the least counts, and not while its times still fall. The stored time of an earlier process is tested
once more, as long as that costs little. A time that is mostly preparation counts as a try, but decides only until there is a better one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from math import inf

from portatile.device.base import Device
from portatile.records import Problem

_WORTH = 4.0, 4.0, 4.0, 1.5, 1.5
"""How many times longer than another way a way may take to be timed a second time, a third and so on, before the other is preferred."""
_WORTH_LATER = 2.0, 2.0
"""The same for a way that an earlier process had timed, from the first timing in this process on."""
_MOST = 8  # timings, as long as each is much less than those before, or an estimate
_FASTER = 0.85  # of the least earlier time: a time below this is much less
_CLOSE = 4.0, 1.25
"""How many times longer than all devices together a single device may take to be timed a second time and a third, although it is slower.
"""
_DISTURBED, _SHORT = 32.0, 1.0
"""How many times longer a single timing of at most ``_SHORT`` seconds may be, and still be tested again as possibly disturbed."""
_LATEST = 5  # timings, of which the least counts
_KINDS = 4096  # ways that are remembered

Key = tuple[str, ...]


@dataclass
class Tries:
    """The timings of a way in this process: their number, the latest ones, and whether the last one was much less than those before.

    ``stored``: an earlier process had timed the way. ``rough``: only estimates are known. ``calls`` counts estimates, too.
    """

    stored: bool
    number: int = 0
    calls: int = 0
    latest: deque[float] = field(default_factory=lambda: deque(maxlen=_LATEST))
    falling: bool = False
    rough: bool = False


timed: dict[Key, Tries] = {}


def key_of(device: Device, problem: Problem, what: str) -> Key:
    """The key of a way: ``what`` says how the problem is computed, regardless of the layout of its operands."""
    return device.info.id, replace(problem, layout={}).key, what


def count(key: Key, seconds: float, stored: bool, rough: bool = False) -> None:
    """Record a timing of a way; ``stored``: a time of it was known when this process began.

    A ``rough`` time is a lower estimate of what the way takes; the first measured time replaces estimates.
    """
    if key not in timed and len(timed) >= _KINDS:
        timed.clear()
    tries = timed.setdefault(key, Tries(stored))
    tries.calls += 1
    if rough and tries.latest and not tries.rough:
        tries.falling = False
        return
    if tries.rough and not rough:
        tries.latest.clear()
        tries.number = 0
    tries.rough, tries.falling = rough, seconds < _FASTER * min(tries.latest, default=inf)
    tries.number += 1
    tries.latest.append(seconds)


def least(key: Key) -> float | None:
    """The least of the latest timings of a way in this process; None where it was not timed."""
    tries = timed.get(key)
    return min(tries.latest, default=None) if tries is not None else None


def may_be_faster(key: Key, seconds: float, than: float) -> bool:
    """Whether a way that took at least ``seconds`` should be timed again, if another way takes ``than``."""
    tries = timed.get(key, Tries(True))
    worth = _WORTH_LATER if tries.stored else _WORTH
    if tries.calls >= (_MOST if tries.falling else len(_WORTH)):
        return False
    limit = worth[tries.number] if tries.number < len(worth) else 0.0
    if tries.falling:
        limit = max(limit, worth[0])
    return seconds < max(limit, _once(tries, seconds)) * than


def may_be_disturbed(key: Key, seconds: float, than: float) -> bool:
    """Whether a single device that took at least ``seconds`` should be timed again, if another way takes ``than``.

    False if an earlier process had timed it.
    """
    tries = timed.get(key)
    if tries is None or tries.stored or not 0 < tries.number <= len(_CLOSE):
        return False
    return seconds < max(_CLOSE[tries.number - 1], _once(tries, seconds)) * than


def _once(tries: Tries, seconds: float) -> float:
    """The factor for a way with a single short timing in this process."""
    return _DISTURBED if tries.calls == 1 and not tries.stored and seconds < _SHORT else 0.0


def once_more(key: Key) -> None:
    """Let a way that was given up be timed once more, because what it takes may have changed."""
    tries = timed.setdefault(key, Tries(True))
    tries.number, tries.calls, tries.falling = len(_WORTH_LATER if tries.stored else _WORTH) - 1, 0, False
