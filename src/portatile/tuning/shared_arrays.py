"""Shared arrays: the parent writes them once and every timing worker maps them, in a file without a name that never stays behind."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.dtypes import numpy_type
from portatile.tuning.protocol import ExpectedSlices, Slice
from portatile.workload import Expected

_ALIGNMENT = 4096


class SharedArrays:
    """The parent's side. Workers inherit ``descriptor``; the memory lives until the last process has closed it."""

    def __init__(self) -> None:
        self.descriptor = _anonymous_file()
        self._end = 0

    def put(self, array: NDArray[Any]) -> Slice:
        """Append a one-dimensional array."""
        raw = np.ascontiguousarray(array)
        offset = self._end
        view = memoryview(raw.view(np.uint8).reshape(-1).data) if raw.size else memoryview(b"")
        done = 0
        while done < len(view):
            done += os.pwrite(self.descriptor, view[done : done + (1 << 30)], offset + done)
        self._end = -(-(offset + len(view)) // _ALIGNMENT) * _ALIGNMENT
        return Slice(offset, raw.dtype.name, raw.size)

    def put_expected(self, expected: Expected) -> ExpectedSlices:
        """Append the expected content of an output."""
        indices = None if expected.indices is None else self.put(expected.indices)
        return ExpectedSlices(self.put(expected.values), self.put(expected.scale), indices, expected.reduction)

    def close(self) -> None:
        """Release the memory; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class SharedArraysView:
    """A worker's side: read-only views of the parent's arrays, without a copy."""

    def __init__(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b""

    def get(self, place: Slice) -> NDArray[Any]:
        """The array at ``place``."""
        kind = numpy_type(place.dtype)
        if not place.size:
            return np.empty(0, kind)
        return np.frombuffer(self._map, np.uint8, place.size * kind.itemsize, place.offset).view(kind)

    def get_expected(self, places: ExpectedSlices) -> Expected:
        """The expected content of an output."""
        indices = None if places.indices is None else self.get(places.indices)
        return Expected(self.get(places.values), self.get(places.scale), indices, places.reduction)


def _anonymous_file() -> int:
    """A descriptor of anonymous memory where the system supports it, else of a deleted file."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("portatile-operands", os.MFD_CLOEXEC)
    descriptor, name = tempfile.mkstemp(prefix="portatile-operands-")
    os.unlink(name)  # noqa: PTH108 - a descriptor's own file
    return descriptor
