"""Where searches stand, in one line."""

from __future__ import annotations

from dataclasses import replace

from portatile.formatting import duration
from portatile.tuning.search.request import Progress
from portatile.workloads import speeds

PREPARING = "opening the device, preparing operands and reference"


class Standings:
    """Where the search on each device stands, in one line. ``several``: of several devices, each is named."""

    def __init__(self, several: bool = False) -> None:
        self._several = several
        self.last: dict[str, Progress] = {}  # by device

    def told(self, progress: Progress) -> str:
        """The line of all searches, after ``progress``; without the seconds left, which a terminal counts down."""
        self.last[progress.device.id] = progress
        return "; ".join(self.sentence(replace(one, seconds_left=None)) for one in self.last.values())

    def sentence(self, progress: Progress) -> str:
        """The best, what was tried and what is left on one device."""
        return f"{progress.device.id}: {_standing(progress)}" if self._several else _standing(progress)


def _standing(progress: Progress) -> str:
    best = "nothing valid yet"
    if progress.best is not None:
        best = f"best {speeds.speed(progress.best, speeds.known(progress.problem)) or duration(progress.best.comparable)}"
    return ", ".join(filter(None, (f"{best}  {progress.tried}", progress.left)))
