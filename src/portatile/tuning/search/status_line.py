"""The status of searches as one line of text: the best time, what was tried, what is left of the budget."""

from __future__ import annotations

from dataclasses import replace

from portatile.formatting import duration
from portatile.tuning.search.request import Progress
from portatile.workloads import speeds

PREPARING = "opening the device, preparing operands and reference"


class StatusLine:
    """The status of the searches on one or several devices. With ``several`` each device is named in the line."""

    def __init__(self, several: bool = False) -> None:
        self._several = several
        self.last: dict[str, Progress] = {}  # by device

    def after(self, progress: Progress) -> str:
        """Record the progress of one search; returns the line of all of them, without the seconds left, which a terminal counts down."""
        self.last[progress.device.id] = progress
        return "; ".join(self.sentence(replace(one, seconds_left=None)) for one in self.last.values())

    def sentence(self, progress: Progress) -> str:
        """The best time, what was tried and what is left, for one search."""
        return f"{progress.device.id}: {_status(progress)}" if self._several else _status(progress)


def _status(progress: Progress) -> str:
    best = "nothing valid yet"
    if progress.best is not None:
        best = f"best {speeds.speed(progress.best, speeds.known(progress.problem)) or duration(progress.best.comparable)}"
    return ", ".join(filter(None, (f"{best}  {progress.tried}", progress.left)))
