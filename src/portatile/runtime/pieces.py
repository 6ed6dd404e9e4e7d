"""The steps of a size, handed out to devices piece by piece, in proportion to the rate that each of them shows."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Mapping
from math import lcm

from portatile.runtime.slabs import GRAIN

_PROBE = 32  # the first piece of a device whose rate nobody knows is one part of so many of what it would take with equal rates
_LEAST_SECONDS = 2e-3  # what a piece takes at least, so that starting and ending it costs little
_FRACTION = 0.5  # of what is left, in proportion to the rate: the rest evens out what was misjudged
FEWEST = 2  # pieces, below which a problem is not worth cutting


class Pieces:
    """The steps of a size, handed out to devices; safe to use from their threads.

    ``period`` is what a piece begins at a multiple of, ``grain`` what its width is a multiple of where it can be.
    """

    def __init__(self, size: int, period: int, rates: Mapping[str, float]) -> None:
        self._free = [(0, size)]
        self._grain = lcm(period, GRAIN) if size > FEWEST * lcm(period, GRAIN) * len(rates) else period
        self._rates = dict(rates)  # steps a second, 0 for what nobody knows
        self._size = size
        self._changed = threading.Condition()
        self._under_way = 0
        self.stopped = False

    def take(self, device: str, most: int, wait: bool = True) -> tuple[int, int] | None:
        """The next piece for a device, of at most ``most`` steps; None when everything is done.

        Waits while others may hand some back; without ``wait`` it says None then too.
        """
        with self._changed:
            while not self._free:
                if not self._under_way or not wait:
                    return None
                self._changed.wait()
            low, high = self._free.pop()
            width = min(self._wanted(device, high - low), most, high - low)
            if width < high - low:
                width = max(width // self._grain * self._grain, min(self._grain, most, high - low))
                if width < high - low:
                    self._free.append((low + width, high))
            self._under_way += 1
            return low, low + width

    def done(self, device: str, steps: int, seconds: float) -> None:
        """A piece is finished; ``seconds`` is how long the device took for it."""
        with self._changed:
            self._under_way -= 1
            if seconds > 0 and steps:
                known = self._rates.get(device, 0.0)
                self._rates[device] = steps / seconds if not known else 0.5 * (known + steps / seconds)
            self._changed.notify_all()

    def back(self, low: int, high: int) -> None:
        """A piece that its device did not finish."""
        with self._changed:
            self._under_way -= 1
            if not self.stopped:
                self._free.append((low, high))
            self._changed.notify_all()

    def drop(self, device: str) -> None:
        """A device takes no more."""
        with self._changed:
            self._rates.pop(device, None)
            self._changed.notify_all()

    def stop(self) -> None:
        """Hand out nothing more."""
        with self._changed:
            self.stopped = True
            self._free.clear()
            self._changed.notify_all()

    @property
    def left(self) -> bool:
        """Whether there is anything that nobody took."""
        with self._changed:
            return bool(self._free)

    @property
    def rates(self) -> Mapping[str, float]:
        """Steps a second of the devices that took part."""
        with self._changed:
            return dict(self._rates)

    def _wanted(self, device: str, left: int) -> int:
        rate = self._rates.get(device, 0.0)
        if not rate:
            return max(left // (_PROBE * max(len(self._rates), 1)), 1)
        known = [one for one in self._rates.values() if one]
        total = sum(known) * len(self._rates) / len(known)  # who is not known yet is taken to be like the others
        return max(int(_FRACTION * left * rate / total), int(rate * _LEAST_SECONDS), 1)


def in_time(size: int, period: int, rates: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """When the last piece would be done, in seconds, and how long each device would be busy, at known rates in steps a second.

    The pieces are those that would be handed out, in a clock that only counts.
    """
    pieces = Pieces(size, period, rates)
    clock = [(0.0, device) for device, rate in rates.items() if rate]
    busy = dict.fromkeys(rates, 0.0)
    last = 0.0
    while clock:
        now, device = heapq.heappop(clock)
        piece = pieces.take(device, size, wait=False)
        if piece is None:
            continue
        took = (piece[1] - piece[0]) / rates[device]
        busy[device] += took
        last = max(last, now + took)
        pieces.done(device, piece[1] - piece[0], took)
        heapq.heappush(clock, (now + took, device))
    return last, busy
