"""What a search shows while it runs where nobody said what to do with its progress: a line in a notebook or on a terminal, else nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from portatile import notebooks
from portatile.tuning.search.request import Listener
from portatile.tuning.search.standing import PREPARING, Standings

_shown = threading.Lock()  # the one line that a terminal has for progress


@contextmanager
def shown(listen: Listener | None, several: bool = False) -> Iterator[Listener | None]:
    """``listen`` itself, if there is one; else what shows progress where somebody looks at it.

    Notebooks rewrite their output; a terminal that shows standard error has a line which is gone at the end, of one search at a time;
    anywhere else there is nothing, so that scripts and logs stay clean.
    """
    if listen is not None:
        yield listen
    elif notebooks.inside():
        yield _in_notebook(several)
    elif sys.stderr is not None and sys.stderr.isatty() and _shown.acquire(blocking=False):
        try:
            from portatile.tuning.search.progress_line import ProgressLine  # its library is slow to import

            with ProgressLine(PREPARING, several) as line:
                yield line
        finally:
            _shown.release()
    else:
        yield None


def _in_notebook(several: bool) -> Listener:
    progress = notebooks.Progress()
    if not several:
        return progress
    standings = Standings(several)
    return lambda one: progress(standings.told(one))
