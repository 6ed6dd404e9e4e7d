"""What callers pass, as the kernels want it: memory, layout, and the copies that the device makes necessary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from portatile.device.base import Device, Memory, Queue
from portatile.errors import ArgumentError
from portatile.records import Layout

MAX_ALIGNMENT = 128
DTYPES = ("float32", "float64")
_TYPES = frozenset(np.dtype(name) for name in DTYPES)


class Matrix(NamedTuple):  # a tuple, because one is made for every argument of every call
    """A NumPy matrix that one of whose dimensions is contiguous, stored row by row: transposed if its columns are.

    ``rows`` x ``columns`` is the shape as stored, ``stride`` the elements from one row to the next, ``alignment`` that
    of the first element in bytes.
    """

    array: NDArray[Any]
    transposed: bool
    rows: int
    columns: int
    stride: int
    alignment: int

    @property
    def layout(self) -> Layout:
        """The layout of the stored matrix, from its first element on."""
        return Layout((self.stride, 1), 0, self.alignment)

    def span(self) -> NDArray[Any]:
        """The memory from the first element to the last, as a contiguous array."""
        if self.stride == self.columns:
            return self.array
        count = (self.rows - 1) * self.stride + self.columns if self.rows and self.columns else 0
        return as_strided(self.array, (count,), (self.array.itemsize,), writeable=self.array.flags.writeable)


def matrix(array: Any, name: str) -> Matrix:
    """``array`` as a Matrix; raises ArgumentError naming it where it is not a two-dimensional array of ``DTYPES``.

    Negative, zero and overlapping strides, unaligned views and foreign byte orders are refused: nothing is copied
    behind the caller's back.
    """
    if type(array) is np.ndarray and array.ndim == 2 and array.dtype in _TYPES and array.flags.carray and array.size:
        rows, columns = array.shape
        pointer = array.__array_interface__["data"][0]
        return Matrix(array, False, rows, columns, columns, min(pointer & -pointer, MAX_ALIGNMENT))
    return _any_matrix(array, name)


def _any_matrix(array: Any, name: str) -> Matrix:
    """As ``matrix``, for what is not simply contiguous; checks everything."""
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{name} is a {type(array).__name__}; pass a NumPy array, or convert it with numpy.asarray")
    if array.dtype.hasobject:
        raise ArgumentError(f"{name} holds Python objects; convert it, for example with {name}.astype('float64')")
    if array.dtype.name not in DTYPES or not array.dtype.isnative:
        raise ArgumentError(f"{name} has dtype {array.dtype.str}; supported are {', '.join(DTYPES)} in native byte order")
    if array.ndim != 2:
        raise ArgumentError(f"{name} has shape {array.shape}; it must be a matrix (two dimensions)")
    size = array.itemsize
    if not array.flags.aligned:
        raise ArgumentError(f"{name} is an unaligned view; copy it, for example with numpy.ascontiguousarray({name})")
    if array.size == 0:
        return Matrix(array, False, array.shape[0], array.shape[1], max(array.shape[1], 1), size)
    for transposed, view in ((False, array), (True, array.T)):
        rows, columns = view.shape
        down, along = view.strides
        if columns > 1 and along != size:
            continue
        if rows == 1:
            down = columns * size
        if down >= columns * size and down % size == 0:
            pointer = array.__array_interface__["data"][0]
            return Matrix(view, transposed, rows, columns, down // size, min(pointer & -pointer, MAX_ALIGNMENT))
    raise ArgumentError(
        f"{name} has shape {array.shape} and strides {array.strides} bytes; one dimension must be contiguous and the other have a "
        f"positive stride past it: copy it, for example with numpy.ascontiguousarray({name})"
    )


def writable(array: NDArray[Any], name: str) -> None:
    """Raise ArgumentError when an output cannot be written."""
    if not array.flags.writeable:
        raise ArgumentError(f"{name} is read-only; pass an array that may be written")


def apart(out: NDArray[Any], array: NDArray[Any], name: str) -> None:
    """Raise ArgumentError when an output shares memory with an input."""
    if np.may_share_memory(out, array):
        raise ArgumentError(f"the output overlaps {name}; pass an output of its own, or a copy of {name}")


@dataclass(frozen=True)
class Placed:
    """A matrix on a device: in its own memory where the device reaches that (``shared``), else in a copy."""

    stored: Matrix
    memory: Memory
    shared: bool

    def collect(self, queue: Queue) -> None:
        """Bring an output back to the caller's array; waits for the queue. Elements between its rows keep their values."""
        if self.shared:
            queue.finish()
            return
        stored, span = self.stored, self.stored.span()
        if stored.stride == stored.columns:
            queue.download(span, self.memory)
        else:
            copy = np.empty_like(span)
            queue.download(copy, self.memory)
            stored.array[...] = as_strided(copy, (stored.rows, stored.columns), (stored.stride * span.itemsize, span.itemsize))


def place(device: Device, queue: Queue, stored: Matrix, read: bool = True) -> Placed:
    """Put a matrix where the kernels reach it; a copy is uploaded only when the kernels ``read`` it."""
    span = stored.span()
    memory = device.share(span)
    if memory is not None:
        return Placed(stored, memory, True)
    memory = device.allocate(max(span.nbytes, span.itemsize))
    if read:
        queue.upload(memory, span, blocking=False)
    return Placed(stored, memory, False)
