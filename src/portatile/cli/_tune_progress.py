"""The progress of a search by `tune`: a live line on a terminal, elsewhere a line from time to time."""

from __future__ import annotations

from types import TracebackType

from portatile.cli import _console
from portatile.tuning.search import tuner
from portatile.tuning.search.progress_line import ProgressLine
from portatile.tuning.search.status_line import PREPARING, StatusLine

_PLAIN_SECONDS = 10.0  # between lines of progress where there is no terminal


class TuneProgress:
    """A listener to a search, and a context manager that begins and ends the display."""

    def __init__(self, preparing: str = PREPARING, several: bool = False) -> None:
        """``preparing`` is shown until the first trial. With ``several`` devices each line names its device."""
        self._preparing = preparing
        self._live = ProgressLine(preparing, several, _console.err) if _console.err.is_terminal else None
        self._status = StatusLine(several) if self._live is None else self._live.status
        self._printed: dict[str, tuner.Progress] = {}

    def __enter__(self) -> TuneProgress:
        if self._live is None:
            _console.err.print(self._preparing)
        else:
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        for name, last in self._status.last.items():
            if last is not self._printed.get(name):
                self._print(last)

    def __call__(self, progress: tuner.Progress) -> None:
        """Show the progress of the search."""
        if self._live is not None:
            self._live(progress)
            return
        self._status.last[progress.device.id] = progress
        printed = self._printed.get(progress.device.id)
        if printed is None or progress.best is not printed.best or progress.seconds - printed.seconds >= _PLAIN_SECONDS:
            self._print(progress)

    def _print(self, progress: tuner.Progress) -> None:
        _console.err.print(f"{progress.seconds:6.1f} s  {self._status.sentence(progress)}", markup=False, soft_wrap=True)
        self._printed[progress.device.id] = progress
