"""How problems were computed by several devices, or are expected to be: the share of each device, and the latest split of each problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from portatile.device.base import Device
from portatile.formatting import duration, rate
from portatile.records import Problem
from portatile.runtime.several_devices.expected import Forecast


@dataclass
class Share:
    """What one device did: its steps of the size that was cut, in how many pieces, and the seconds in which it was busy."""

    device: str
    steps: int = 0
    pieces: int = 0
    seconds: float = 0.0
    failure: str = ""

    @property
    def rate(self) -> float:
        """Steps per second while busy; 0 where it did nothing."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Split:
    """How a problem was computed by several devices: the size that was cut, the share of each device, and the seconds of the whole.

    ``note`` says why fewer devices than were named took part. ``predicted`` is the efficiency that was predicted for a split that has run;
    0 where a rate was unknown. An ``expected`` split has not run: its shares follow from the rates that the devices showed earlier, or from
    their tuning. ``forecast`` has the expected times of all devices together and of each alone. ``crossed``: bytes transferred in either
    direction between host arrays and devices with their own memory.
    """

    problem: Problem
    size: str
    seconds: float
    shares: tuple[Share, ...]
    note: str = ""
    expected: bool = False
    predicted: float = 0.0
    forecast: Forecast | None = None
    crossed: int = 0

    @property
    def efficiency(self) -> float:
        """The work done, divided by the work that the devices could have done in these seconds at their rates: 1 if no device waited."""
        possible = self.seconds * sum(share.rate for share in self.shares)
        return sum(share.steps for share in self.shares) / possible if possible else 0.0

    def __str__(self) -> str:
        total = max(sum(share.steps for share in self.shares), 1)
        parts = [f"{share.device} {100 * share.steps / total:.1f} %" for share in self.shares if share.steps]
        failed = [f"{share.device} failed: {share.failure}" for share in self.shares if share.failure]
        how = f"{'expected in ' if self.expected else ''}{duration(self.seconds)}, efficiency {self.efficiency:.2f}"
        if self.predicted:
            how += f" where {self.predicted:.2f} was expected"
        if self.crossed and self.seconds > 0:
            how += f"; {self.crossed / 1e9:.3g} GB crossed the links, {rate(self.crossed / self.seconds / 1e9, 'GB/s')}"
        shared = f": {', '.join(parts)}; {how}" if parts else ""  # no parts: nothing is known of any device
        text = f"{self.problem.workload} cut along {self.size}{shared}" if self.size else ""
        before = str(self.forecast) if self.forecast is not None and self.forecast.alone else ""
        return "; ".join(filter(None, (text, *failed, self.note, before)))


Name = tuple[str, tuple[str, ...]]
"""A problem, without the layout of its operands, and devices."""

_MOST = 1024  # problems that are remembered
_last: dict[Name, Split | Callable[[], Split]] = {}


def last(problem: Problem, devices: Sequence[Device]) -> Split | None:
    """How these devices computed the problem the last time in this process; None if they did not."""
    return _made(name(problem, devices))


def keep(devices: Sequence[Device], split: Split) -> Split:
    """Record a split as the latest of its problem."""
    _keep(name(split.problem, devices), split)
    return split


def keep_lazily(place: Name, make: Callable[[], Split]) -> None:
    """Record a split as the latest of its problem; ``make`` builds it when it is asked for."""
    _keep(place, make)


def latest() -> Split | None:
    """How several devices computed the latest problem of this process; None where there was none."""
    return _made(next(reversed(_last), None))


def name(problem: Problem, devices: Sequence[Device]) -> Name:
    """The key of the latest split of a problem by these devices."""
    return replace(problem, layout={}).key, tuple(device.info.id for device in devices)


def _keep(place: Name, split: Split | Callable[[], Split]) -> None:
    _last.pop(place, None)  # keeps the latest last
    if len(_last) >= _MOST:
        _last.pop(next(iter(_last)), None)
    _last[place] = split


def _made(place: Name | None) -> Split | None:
    split = None if place is None else _last.get(place)
    if callable(split):
        assert place is not None
        split = _last[place] = split()
    return split
