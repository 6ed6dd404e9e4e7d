"""Dynamic scheduling: the steps of a size are handed out to devices in pieces whose width follows each device's measured rate."""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import lcm

from portatile.runtime.in_parts.tasks import GRAIN

_PROBE = 32  # the first piece of a device whose rate is unknown is this fraction (1/32) of an equal share
_LEAST_SECONDS = 2e-3  # minimum seconds of a piece, so that the overhead of starting and ending it stays small
_CRUMB = 1e-4  # seconds; a smaller remainder is added to the piece before it
_KEPT = 0.8  # weight of the earlier pieces in a rate, decaying with each further piece
_FRACTION = 0.5  # fraction of a device's share of the remaining steps that its next piece takes; the rest corrects errors in the rates
FEWEST = 2  # pieces, below which a problem is not worth cutting
_FINE = 8  # rates per octave that ``about_in_time`` distinguishes
_STEPS = 8  # number of widths of wide pieces between two powers of two: few, so that prepared problems can be reused


class Pieces:
    """The steps of a size, handed out to devices on demand; safe to use from their threads.

    A piece begins at a multiple of ``period``; where possible its width is a multiple of the grain, and at least ``least`` steps, because
    each piece has a fixed cost. ``clock`` gives seconds.
    """

    def __init__(
        self, size: int, period: int, rates: Mapping[str, float], clock: Callable[[], float] = time.monotonic, least: int = 0
    ) -> None:
        self._free = [(0, size)]
        self._grain = lcm(period, GRAIN) if size > FEWEST * lcm(period, GRAIN) * len(rates) else period
        self._least = least
        self._rates = dict(rates)  # steps per second, 0 if unknown
        self._cold: set[str] = set()  # devices whose rate is known from first pieces only
        self._sums: dict[str, tuple[float, float]] = {}  # decayed sums of each device's steps and seconds
        self._held = dict.fromkeys(rates, 0)  # steps that each device has taken and not finished
        self._clock = clock
        self._since = dict.fromkeys(rates, 0.0)  # when each device began with the steps that it holds
        self._changed = threading.Condition()
        self._under_way = 0
        self.stopped = False

    def take(self, device: str, most: int, wait: bool = True) -> tuple[int, int] | None:
        """The next piece for a device, of at most ``most`` steps; None when everything is done.

        Waits while other devices may still give pieces back; without ``wait`` it returns None then. A device that would finish its piece
        after the fastest device could finish all that is left waits as well, in case the fastest one fails. A device that does not wait has
        pieces in progress: it is given no more than its share of the unfinished steps.
        """
        with self._changed:
            while not self._free or self._late(device) or not (wait or self._may_take_another(device)):
                if not wait or not (self._free or self._under_way):
                    return None
                self._changed.wait()
            low, high = self._free[-1]
            width = min(self._width(device), most, high - low)
            if width < high - low:
                width = max(self._rounded(width), min(self._grain, most, high - low))
            if high - low - width < max(self._rates.get(device, 0.0) * _CRUMB, self._least / 2):
                width = min(high - low, most)
            self._free.pop()
            if width < high - low:
                self._free.append((low + width, high))
            self._under_way += 1
            if not self._held.get(device):
                self._since[device] = self._clock()
            self._held[device] = self._held.get(device, 0) + width
            if not self._free:
                self._changed.notify_all()
            return low, low + width

    def done(self, device: str, steps: int, seconds: float, cold: bool = False) -> None:
        """Record that a piece is finished, ``seconds`` after the device's previous one. A ``cold`` rate counts only until there is a warm
        one.

        Two pieces in flight may end almost together, so the rate is a ratio of sums of steps and seconds rather than a mean of rates.
        """
        with self._changed:
            self._under_way -= 1
            self._held[device] = self._held.get(device, 0) - steps
            self._since[device] = self._clock()
            rate, was_cold = self._rates.get(device, 0.0), device in self._cold
            if seconds > 0 and steps and (was_cold or not (cold and rate)):
                anew = not rate or (was_cold and not cold)
                before = (0.0, 0.0) if anew else self._sums.get(device, (rate * seconds, seconds))
                self._sums[device] = _KEPT * before[0] + steps, _KEPT * before[1] + seconds
                self._rates[device] = self._sums[device][0] / self._sums[device][1]
                (self._cold.add if cold else self._cold.discard)(device)
            self._changed.notify_all()

    def give_back(self, low: int, high: int) -> None:
        """Return a piece that its device did not finish."""
        with self._changed:
            self._under_way -= 1
            if not self.stopped:
                self._free.append((low, high))
            self._changed.notify_all()

    def drop(self, device: str) -> None:
        """Record that a device takes no more pieces."""
        with self._changed:
            self._rates.pop(device, None)
            self._held.pop(device, None)
            self._changed.notify_all()

    def stop(self) -> None:
        """Hand out no more pieces."""
        with self._changed:
            self.stopped = True
            self._free.clear()
            self._changed.notify_all()

    @property
    def left(self) -> bool:
        """Whether any steps have not been taken."""
        with self._changed:
            return bool(self._free)

    @property
    def rates(self) -> Mapping[str, float]:
        """Steps per second of the devices that took part."""
        with self._changed:
            return dict(self._rates)

    @property
    def shown(self) -> Mapping[str, float]:
        """``rates`` without those of first pieces, which include loading kernels and allocating memory."""
        with self._changed:
            return {device: rate for device, rate in self._rates.items() if device not in self._cold}

    def _rounded(self, width: int) -> int:
        """A width rounded down to a multiple of the grain, and to one of a few values."""
        grains = width // self._grain
        step = 1 << max(grains.bit_length() - _STEPS.bit_length(), 0)
        return grains // step * step * self._grain

    def _horizon(self, device: str) -> float:
        """Seconds in which the fastest other device could finish all that is left; infinite where no rate is known."""
        others = [(rate, name) for name, rate in self._rates.items() if rate and name != device]
        if not others:
            return math.inf
        rate, name = max(others)
        return (self._left + self._undone(name)) / rate

    @property
    def _left(self) -> int:
        """The steps that no device has taken."""
        return sum(high - low for low, high in self._free)

    def _undone(self, device: str) -> float:
        """The steps that a device holds, less those that it should have finished by now."""
        done = self._rates.get(device, 0.0) * (self._clock() - self._since.get(device, 0.0))
        return max(self._held.get(device, 0) - done, 0.0)

    def _late(self, device: str) -> bool:
        """Whether even the thinnest piece would end here after the fastest other device could have done all; False for the fastest."""
        rate = self._rates.get(device, 0.0)
        low, high = self._free[-1]
        return bool(rate) and min(self._grain, high - low) / rate > self._horizon(device)

    def _may_take_another(self, device: str) -> bool:
        """Whether a device with pieces in progress should take another one."""
        held = self._held.get(device, 0)
        return not held or not self._rates.get(device) or self._fair(device) >= self._grain

    def _fair(self, device: str) -> float:
        """The device's share of the unfinished steps, less the steps that it holds."""
        known_rates = [rate for rate in self._rates.values() if rate]
        # devices whose rate is unknown are assumed to be as fast as the others on average
        total = sum(known_rates) * len(self._rates) / len(known_rates)
        undone = sum(map(self._undone, self._held))
        return (self._left + undone) * self._rates[device] / total - self._undone(device)

    def _width(self, device: str) -> int:
        rate = self._rates.get(device, 0.0)
        if not rate:
            return max(self._left // (_PROBE * max(len(self._rates), 1)), 1)
        fair = self._fair(device)
        least = max(rate * _LEAST_SECONDS, self._least)
        return max(int(_FRACTION * fair), int(min(least, fair, rate * _FRACTION * self._horizon(device))), 1)


def in_time(size: int, period: int, rates: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """The seconds until the last piece is done, and how long each device is busy, at known rates in steps per second.

    Simulates the scheduler with a virtual clock.
    """
    now = 0.0
    pieces = Pieces(size, period, rates, lambda: now)
    # a heap of events: time, device, steps that it finishes then, seconds that they took
    clock = [(0.0, device, 0, 0.0) for device, rate in rates.items() if rate]
    busy = dict.fromkeys(rates, 0.0)
    last = 0.0
    while clock:
        now, device, steps, took = heapq.heappop(clock)
        if steps:
            pieces.done(device, steps, took)
        piece = pieces.take(device, size, wait=False)
        if piece is None:
            continue
        steps = piece[1] - piece[0]
        took = steps / rates[device]
        busy[device] += took
        last = max(last, now + took)
        heapq.heappush(clock, (now + took, device, steps, took))
    return last, busy


def about_in_time(size: int, period: int, rates: Mapping[str, float]) -> float:
    """The first result of ``in_time``, with the rates rounded by a few per cent and memoised, because every call asks for it."""
    rounded = tuple((name, 2.0 ** (round(_FINE * math.log2(rate)) / _FINE)) for name, rate in rates.items() if rate)
    return _known_time(size, period, rounded) * sum(rate for _, rate in rounded) / sum(rates.values()) if rounded else 0.0


@lru_cache(maxsize=1024)
def _known_time(size: int, period: int, rates: tuple[tuple[str, float], ...]) -> float:
    return in_time(size, period, dict(rates))[0]
