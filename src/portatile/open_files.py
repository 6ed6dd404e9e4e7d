"""Whether this process may open the files that drivers, workers, their pipes and the stores take.

Drivers and the compilers in them do not tell: some end the process where a file cannot be opened. So this is asked before one is loaded.
"""

from __future__ import annotations

import contextlib
import sys

from portatile.errors import UsageError

_NEEDED = 32  # of a driver that compiles, or a search with one worker, and some
_ENOUGH = 256  # ... with as many workers as there may be


def check() -> None:
    """Raise the limit of open files where that is allowed; raises UsageError where it is too low for drivers and searches."""
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
        raise UsageError(f"this process may open {soft} files, and devices take {_NEEDED}; allow more (ulimit -n {_ENOUGH})")
