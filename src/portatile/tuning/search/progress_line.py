"""The progress of a search as one line of a terminal, which is rewritten in place and removed at the end."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Display
from rich.progress import ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from portatile.tuning.search.request import Progress
from portatile.tuning.search.status_line import StatusLine


class _Left(ProgressColumn):
    """The remaining budget, counted down between trials too."""

    def render(self, task: Task) -> Text:
        ends = task.fields["ends"]
        return Text("" if ends is None else f"{max(ends - time.monotonic(), 0):.0f} s left")


class ProgressLine:
    """A listener and a context manager. ``preparing`` is shown until the first trial; with ``several`` devices, each is named.

    The line is shown on ``console``, or else on standard error. Other output to the same terminal appears above it.
    """

    def __init__(self, preparing: str, several: bool = False, console: Console | None = None) -> None:
        self.status = StatusLine(several)
        on_terminal = sys.stdout is not None and sys.stdout.isatty()  # otherwise printed text goes elsewhere
        columns = (SpinnerColumn(), TextColumn("{task.description}"), _Left())
        self._display = Display(
            *columns, console=console or Console(stderr=True, highlight=False), transient=True, redirect_stdout=on_terminal
        )
        self._task = self._display.add_task(preparing, total=None, ends=None)

    def __enter__(self) -> ProgressLine:
        self._display.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._display.stop()

    def __call__(self, progress: Progress) -> None:
        """Show the progress of the search."""
        ends = None if progress.seconds_left is None else time.monotonic() + progress.seconds_left
        self._display.update(self._task, description=escape(self.status.after(progress)), ends=ends)
