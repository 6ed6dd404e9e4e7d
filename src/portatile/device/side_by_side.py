"""Several threads for work that one core does too slowly: copies between host arrays, and first touches of pages."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

from portatile import processes

_COPIERS = 8  # threads of a copy between two host arrays, at most: one moves 5 GB/s to new pages, the link 55
_LINKS = 4  # concurrent copies that share the threads: of several devices, in both directions


def side_by_side(size: int, count: int, run: Callable[[int, int], None]) -> None:
    """Call ``run(low, high)`` for ``count`` even parts of ``range(size)``, the last part in this thread, the others in a pool.

    Returns when all have ended; raises the first exception.
    """
    parts = list(pairwise(size * each // count for each in range(count + 1)))
    others = [_copiers().submit(run, low, high) for low, high in parts[:-1]]
    try:
        run(*parts[-1])
    finally:
        wait(others)
    for other in others:
        other.result()


def threads(copies: int = 1) -> int:
    """The number of threads for each of ``copies`` concurrent copies, at most."""
    return min(_COPIERS * copies, processes.cores())


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(_LINKS), "portatile-copy")
