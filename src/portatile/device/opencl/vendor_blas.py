"""CLBlast on an OpenCL device's own buffers and queues, through ctypes: for comparisons. It runs with the parameters that it ships with."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from typing import Any

from portatile.device.base import Device, Memory, Queue
from portatile.device.opencl.queue import ClQueue
from portatile.device.vendor_blas import VendorBlas
from portatile.errors import DeviceError
from portatile.records import Size3

_ROW_MAJOR, _AS_IS = 101, 111
_REAL = {"float32": ("CLBlastSgemm", ctypes.c_float), "float64": ("CLBlastDgemm", ctypes.c_double)}


def vendor_blas(device: Device) -> VendorBlas:
    """The library that the system's loader finds; it works on any device."""
    return Clblast()


class Clblast(VendorBlas):
    """The library that the system's loader finds. Raises DeviceError where there is none."""

    name = "CLBlast"

    def __init__(self) -> None:
        path = ctypes.util.find_library("clblast")
        try:
            self._library = ctypes.CDLL(path or "libclblast.so.1")
        except OSError:
            raise DeviceError("CLBlast is not installed: on Debian, apt-get install libclblast1") from None
        self.version = path or "libclblast.so.1"

    def gemm(self, queue: Queue, dtype: str, sizes: Size3, operands: Sequence[Memory]) -> None:
        assert isinstance(queue, ClQueue)
        _, n, k = sizes
        name, number = _REAL[dtype]
        a, b, c = (_matrix(memory, columns) for memory, columns in zip(operands, (k, n, n), strict=True))
        extents = [ctypes.c_size_t(size) for size in sizes]
        command = ctypes.c_void_p(queue.cl_queue.int_ptr)
        orders = _ROW_MAJOR, _AS_IS, _AS_IS
        status = getattr(self._library, name)(*orders, *extents, number(1), *a, *b, number(0), *c, ctypes.byref(command), None)
        if status:
            raise DeviceError(f"{name} reports {status}")


def _matrix(memory: Memory, columns: int) -> list[Any]:
    """Buffer, offset and leading dimension."""
    return [ctypes.c_void_p(memory.handle.int_ptr), ctypes.c_size_t(0), ctypes.c_size_t(columns)]
