"""pyopencl warns of every build whose log is not empty. The log is kept in the Binary, so the warning is left out.

``warnings.catch_warnings`` changes the state of the process: where two threads use it by turns, the second to leave brings back what
the first had set, and a warning of somebody else may be lost for good. So threads that build at once share one such context.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

from portatile.device.opencl.driver import cl

_lock = threading.Lock()
_builds = 0
_context = contextlib.ExitStack()


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """No ``pyopencl.CompilerWarning`` while any thread is in here; all other warnings as before."""
    global _builds
    with _lock:
        if not _builds:
            _context.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", cl.CompilerWarning)
        _builds += 1
    try:
        yield
    finally:
        with _lock:
            _builds -= 1
            if not _builds:
                _context.close()
