"""pyopencl warns of every build whose log is not empty, and of a look at a program before its build, which keeps pyopencl's own cache
out. The log is kept in the Binary, and the cache is meant to stay out, so both warnings are left out.

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
    """A context manager that suppresses these warnings of pyopencl while any thread is inside; all other warnings appear as usual."""
    global _builds
    with _lock:
        if not _builds:
            _context.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", cl.CompilerWarning)
            warnings.filterwarnings("ignore", "Pre-build attribute access", UserWarning)
        _builds += 1
    try:
        yield
    finally:
        with _lock:
            _builds -= 1
            if not _builds:
                _context.close()
