"""Several threads for what one core does too slowly: copies between host arrays, and first touches of their pages."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

from portatile import processes

_COPIERS = 8  # threads at most that copy between two host arrays: one moves 5 GB/s to new pages, the link 55
_LINKS = 4  # such copies for whose threads there is room: of several devices, either way


def side_by_side(size: int, count: int, run: Callable[[int, int], None]) -> None:
    """``run(low, high)`` for ``count`` even parts of a size, all but the last by other threads. Raises what one did, when all ended."""
    parts = list(pairwise(size * each // count for each in range(count + 1)))
    others = [_copiers().submit(run, low, high) for low, high in parts[:-1]]
    try:
        run(*parts[-1])
    finally:
        wait(others)
    for other in others:
        other.result()


def threads(copies: int = 1) -> int:
    """Threads at most for so many copies at once."""
    return min(_COPIERS * copies, processes.cores())


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(_LINKS), "portatile-copy")
