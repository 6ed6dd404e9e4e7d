"""What copies and fills ask of their arguments, the same for every back end; and copies between host arrays, by several threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from ctypes import addressof, c_char
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Image, Memory
from portatile.errors import ArgumentError

_COPIERS = 8  # threads at most that copy between host arrays: one moves 5 GB/s to new pages, the link 55
_SHARE = 1 << 21  # bytes for which another thread pays


def copied(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy one host array into another of its shape, large ones by several threads, each some of the first axis."""
    threads = min(_threads(), target.nbytes // _SHARE, len(target))
    if threads < 2:
        target[...] = source
        return
    bounds = [len(target) * each // threads for each in range(threads + 1)]
    parts = [slice(low, high) for low, high in pairwise(bounds)]
    list(_copiers().map(lambda part: np.copyto(target[part], source[part]), parts))


def _threads() -> int:
    return min(_COPIERS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), "portatile-copy")


def address(array: NDArray[Any]) -> int:
    """Where the first element of a host array lies."""
    try:
        return addressof(c_char.from_buffer(array.data))  # 0.3 us, the array's own attributes take 1 us
    except (TypeError, ValueError):  # read-only, with gaps, or empty
        return int(array.__array_interface__["data"][0])


def contiguous(array: NDArray[Any]) -> None:
    """Raise ArgumentError for a host array that is not C-contiguous."""
    if not array.flags.c_contiguous:
        raise ArgumentError(f"an array of shape {array.shape} and strides {array.strides} is not C-contiguous: copy it first")


def fits(memory: Memory, offset: int, nbytes: int) -> None:
    """Raise ArgumentError for bytes that do not lie in ``memory``, or for a part of an image, or for memory given back."""
    if memory.handle is None:
        raise ArgumentError("this memory has been released")
    if offset < 0 or nbytes < 0 or offset + nbytes > memory.nbytes:
        raise ArgumentError(f"{nbytes} bytes from byte {offset} on do not lie in memory of {memory.nbytes} bytes")
    if isinstance(memory, Image) and (offset or nbytes != memory.nbytes):
        raise ArgumentError(f"images are copied as a whole: {memory.nbytes} bytes, not {nbytes} from {offset} on")


def check_fill(pattern: bytes, offset: int, nbytes: int) -> None:
    """Raise ArgumentError for a pattern that cannot fill the place."""
    if len(pattern) not in (1, 2, 4) or nbytes % len(pattern) or offset % len(pattern):
        raise ArgumentError(f"a pattern of {len(pattern)} bytes does not fill {nbytes} bytes from {offset} on: 1, 2 or 4 bytes, aligned")
