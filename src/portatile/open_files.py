"""Whether this process may open as many files as drivers, workers, their pipes and the stores need.

Drivers and their compilers do not report a shortage: some abort the process if a file cannot be opened. So this is checked before one is
loaded.
"""

from __future__ import annotations

import contextlib
import sys

from portatile.errors import UsageError

_NEEDED = 32  # for a driver that compiles, or a search with one worker, with a margin
_ENOUGH = 256  # for as many workers as there may be


def check() -> None:
    """Raise the limit of open files if allowed; raises UsageError if it remains too low for drivers and searches."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= _ENOUGH:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_ENOUGH if hard == unlimited else min(hard, _ENOUGH), hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _NEEDED:
        raise UsageError(f"this process may open {soft} files, but devices need {_NEEDED}; allow more (ulimit -n {_ENOUGH})")
