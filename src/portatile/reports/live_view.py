"""The content of a live page: the problems that are being searched, the best so far, failures, and the device's sensors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from portatile.errors import PortatileError
from portatile.figures import quantities
from portatile.records import DeviceInfo
from portatile.reports import page, write
from portatile.reports.groups import Group
from portatile.reports.page import LiveState
from portatile.reports.write import Selection
from portatile.store import known_results
from portatile.tuning.search import concurrent_searches
from portatile.tuning.sensors import Sensors

_GAP = 6.0  # seconds without a search after which the searches have ended; those of many shapes follow one another sooner
_REST = 10.0  # the pause after a read, in multiples of the time that reading and drawing took, so that a search is hardly disturbed
_UNITS = {"clock_mhz": "MHz", "memory_clock_mhz": "MHz memory", "temperature_c": "°C", "power_w": "W"}
_CLOCKS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Snapshot:
    """The page at one moment, and the state that its script polls to find out whether the page has changed."""

    html: str
    live: LiveState


class LiveView:
    """The searches of this user on this machine, as their store shows them; ``poll`` reads the store when it is time to."""

    def __init__(
        self,
        selection: Selection,
        period: float = 2.0,
        searching: Callable[[], Sequence[float]] = concurrent_searches.searching,
        gap: float = _GAP,
        rest: float = _REST,
    ) -> None:
        """``searching`` returns when each running search began; ``period``: the least seconds between two reads of the store."""
        self._selection, self._period, self._searching, self._gap, self._rest = selection, period, searching, gap, rest
        self._began: datetime | None = None
        self._seen = 0.0
        self._next = 0.0
        self._snapshot = self._drawn([], False, None)

    @property
    def begun(self) -> bool:
        """Whether a search was seen."""
        return self._began is not None

    def poll(self) -> Snapshot:
        """The present snapshot, drawn again if it is time to; after the end of the searches it stays the same."""
        now = time.monotonic()
        if self._snapshot.live.ended or now < self._next:
            return self._snapshot
        if running := self._searching():
            self._began, self._seen = self._began or datetime.fromtimestamp(min(running), UTC), now
        ended = self.begun and now - self._seen > self._gap
        self._snapshot = self._drawn(self._groups(), ended, self._snapshot)
        spent = time.monotonic() - now
        self._next = time.monotonic() + max(self._period, self._rest * spent)
        return self._snapshot

    def _groups(self) -> list[Group]:
        """The problems with trials since the searches began, that with the newest trial first."""
        if self._began is None:
            return []
        began = self._began.isoformat(timespec="seconds")
        groups: list[Group] = []
        with suppress(PortatileError):  # the store does not exist yet, or is busy: it is read at the next poll
            groups = write.select(self._selection)
        return sorted((group for group in groups if _newest(group) >= began), key=_newest, reverse=True)

    def _drawn(self, groups: Sequence[Group], ended: bool, before: Snapshot | None) -> Snapshot:
        facts = _facts(groups[0], None if ended else sensors(groups[0].device)) if groups else []
        state = "the search has ended" if ended else "searching" if self.begun else "waiting for a search"
        version = f"{len(groups)}-{sum(len(group.trials) for group in groups)}-{state.replace(' ', '-')}"
        live = LiveState(state, tuple(facts), version, ended)
        if before is not None and before.live.version == version:
            return Snapshot(before.html, live)
        waiting = "A search has begun; its first trial comes soon." if self.begun else "A search fills this page:"
        return Snapshot(page.render(groups, known_results(), waiting, live), live)


def _newest(group: Group) -> str:
    return max(trial.time for trial in group.trials)


def _facts(group: Group, reported: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """Facts about the problem under way: the best, its share, the number of trials, when the best came, and the device's sensors."""
    facts = [("now", f"{group.problem.workload} {group.title} on {group.device.name}")]
    if group.best is not None:
        facts.append(("best so far", ", ".join(filter(None, (quantities.duration(group.best.comparable), group.speed(group.best))))))
        if (share := group.share(group.best)) is not None:
            facts.append(("of the ceiling", f"{quantities.percent(share[1])} {share[0]}"))
        last = max((step.number for step in group.steps if step.improved), default=0)
        facts.append(("found at trial", f"{last} of {len(group.trials)}"))
    facts.append(("failed", str(group.failed)))
    values = [
        f"{quantities.digits(reported[name])}{quantities.NBSP}{unit}" for name, unit in _UNITS.items() if reported and name in reported
    ]
    if values:
        facts.append(("device", ", ".join(values)))
    return facts


def sensors(device: DeviceInfo) -> Mapping[str, float]:
    """The device's present clocks, temperature and power through NVIDIA's library; for a processor the mean clock of its cores.

    Empty if the system does not report them.
    """
    if device.kind != "cpu":
        opened = Sensors.of(device)
        return opened.read() if opened is not None else {}
    with suppress(OSError, ValueError):
        clocks = [float(text) for text in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _CLOCKS.read_text(), re.MULTILINE)]
        return {"clock_mhz": fmean(clocks)} if clocks else {}
    return {}
