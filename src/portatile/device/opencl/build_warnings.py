"""Suppression of two warnings of pyopencl: one for every build with a non-empty log, and one for every access to a program before its
build, which portatile makes to disable pyopencl's own cache. The log is kept in the Binary.

``warnings.catch_warnings`` changes process-wide state: if two threads overlap in it, the second to leave restores what the first had set,
and other warnings may be lost for good. So threads that build at the same time share one such context.
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
    """A context manager that suppresses these two warnings while any thread is inside; all other warnings appear as usual."""
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
