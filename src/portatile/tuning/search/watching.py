"""The default display of a running search: a status line in a notebook or on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from portatile import notebooks
from portatile.errors import ArgumentError
from portatile.tuning.search.request import Listener
from portatile.tuning.search.status_line import PREPARING, StatusLine

_shown = threading.Lock()  # the one line that a terminal has for progress


@contextmanager
def shown(listen: Listener | None, several: bool = False) -> Iterator[Listener | None]:
    """The caller's listener, or one that displays the progress, or None.

    In a notebook the status rewrites the output of the cell. On a terminal it is a line on standard error, which is removed at the end
    and shows one search at a time. Anywhere else nothing is displayed, so that scripts and logs stay clean.

    Raises ArgumentError for a listener that cannot be called.
    """
    if listen is not None and not callable(listen):
        raise ArgumentError(f"listen={listen!r} is called with every trial: pass a function, such as print, or leave it out")
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
    progress = notebooks.NotebookProgress()
    if not several:
        return progress
    status = StatusLine(several)
    return lambda one: progress(status.after(one))
