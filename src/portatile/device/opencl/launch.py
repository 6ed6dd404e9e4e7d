"""Launches without an event: pyopencl always has one made, which costs NVIDIA's driver 4 us of the host and 2 us of the device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from portatile.records import Size3

Enqueue = Callable[[int, int, Size3, Size3], bool]


@cache
def bare(binding: Any) -> Enqueue | None:
    """A function of the handles of a queue and a kernel, and of global and local size: whether that launch was queued.

    If not, launching by ``binding``, which is pyopencl, tells why. None where the library behind it cannot be called directly.
    """
    try:
        enqueue = ctypes.CDLL(binding._cl.__file__).clEnqueueNDRangeKernel  # also finds what that module is linked with
    except (AttributeError, OSError):
        return None
    pointer = ctypes.c_void_p
    enqueue.argtypes = [pointer, pointer, ctypes.c_uint, pointer, pointer, pointer, ctypes.c_uint, pointer, pointer]
    enqueue.restype = ctypes.c_int

    def launch(queue: int, kernel: int, global_size: Size3, local_size: Size3) -> bool:
        status: int = enqueue(queue, kernel, 3, None, _sizes(global_size), _sizes(local_size), 0, None, None)
        return status == 0

    return launch


@lru_cache(maxsize=1024)
def _sizes(size: Size3) -> ctypes.Array[ctypes.c_size_t]:
    return (ctypes.c_size_t * 3)(*size)
