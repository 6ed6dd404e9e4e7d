"""Launches without an event: pyopencl always requests one, which costs NVIDIA's driver 4 us on the host and 2 us on the device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from portatile.records import Size3


@cache
def bare(binding: Any) -> Callable[..., int] | None:
    """The driver's clEnqueueNDRangeKernel, with handles as integers and sizes made by ``sizes``; it returns 0 if the launch is queued.

    If it fails, a launch through ``binding``, pyopencl, raises the reason. None if the library behind pyopencl cannot be called directly.
    """
    try:
        # also finds symbols of the libraries that the module is linked with
        enqueue = ctypes.CDLL(binding._cl.__file__).clEnqueueNDRangeKernel
    except (AttributeError, OSError):
        return None
    pointer = ctypes.c_void_p
    enqueue.argtypes = [pointer, pointer, ctypes.c_uint, pointer, pointer, pointer, ctypes.c_uint, pointer, pointer]
    enqueue.restype = ctypes.c_int
    return enqueue


@lru_cache(maxsize=1024)
def sizes(size: Size3) -> ctypes.Array[ctypes.c_size_t]:
    """Three sizes as a C array."""
    return (ctypes.c_size_t * 3)(*size)
