"""NumPy arrays, Buffers and other libraries' CUDA arrays as matrices in memory, with the strides and alignment that kernels need."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from portatile.arguments.checks import ALL, DTYPES, NAMES, check_alive, check_dtype, remedy
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.copies import address
from portatile.device.dlpack import packed
from portatile.device.masked_arrays import refuse_masks
from portatile.dtypes import strided
from portatile.errors import ArgumentError
from portatile.records import Layout

MAX_ALIGNMENT = 128

Array = TypeVar("Array")


class Matrix(NamedTuple):  # a tuple, because one is made for every argument of every call
    """A matrix with one contiguous dimension, or a stack of such matrices.

    It is stored row by row; ``transposed`` means that its columns are the stored rows.

    - ``array``: the NumPy array or the Buffer; three-dimensional for a stack.
    - ``rows``, ``columns``: the shape as stored. ``stride``: elements from one stored row to the next (the leading dimension).
    - ``offset``: elements before the first one in a Buffer's memory. ``alignment``: of that memory, in bytes.
    - ``number``: matrices in the stack, ``step`` elements apart; a step of 0 means one matrix for all.
    - ``conjugated``: the computation uses the conjugates of the elements.
    - ``read``: the computation depends on the values; False for an output that is only written.
    """

    array: Any
    transposed: bool
    rows: int
    columns: int
    stride: int
    offset: int
    alignment: int
    number: int = 1
    step: int = 0
    conjugated: bool = False
    read: bool = True

    @property
    def on_device(self) -> bool:
        """Whether the matrix is in a device's memory already."""
        return isinstance(self.array, Buffer)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix, or of each matrix of a stack, as the caller sees it."""
        return (self.columns, self.rows) if self.transposed else (self.rows, self.columns)

    @property
    def layout(self) -> Layout:
        """The layout of the stored matrix or stack."""
        strides = (self.stride, 1) if self.number == 1 else (self.step, self.stride, 1)
        return Layout(strides, self.offset, self.alignment)

    @property
    def extent(self) -> int:
        """The number of elements in memory from the first one to the last, including gaps between rows."""
        if not (self.rows and self.columns):
            return 0
        return (self.number - 1) * self.step + (self.rows - 1) * self.stride + self.columns

    @property
    def packed(self) -> bool:
        """Whether the elements are stored without gaps."""
        return self.stride == self.columns and (self.number == 1 or self.step == self.rows * self.columns)

    def flipped(self) -> Matrix:
        """The same memory read as the transpose."""
        return self._replace(transposed=not self.transposed)

    def read_if(self, read: bool) -> Matrix:
        """The same matrix, marked as read by the kernels or as only written."""
        return self if read is self.read else self._replace(read=read)

    def span(self) -> NDArray[Any]:
        """The memory of a NumPy matrix from the first element to the last, as a contiguous array."""
        array: NDArray[Any] = self.array
        if self.packed:
            return array
        return strided(array, (self.extent,), (array.itemsize,))


def matrix(array: Any, name: str, types: tuple[str, ...] = DTYPES) -> Matrix:
    """``array`` as a Matrix; raises ArgumentError, with its ``name``, unless it is a two-dimensional array of one of the ``types``.

    Negative, zero and overlapping strides, unaligned views and foreign byte orders are refused: nothing is copied implicitly.
    """
    if type(array) is np.ndarray and array.ndim == 2 and array.dtype in NAMES and array.flags.carray and array.size:
        rows, columns = array.shape
        pointer = address(array)
        return Matrix(array, False, rows, columns, columns, 0, min(pointer & -pointer, MAX_ALIGNMENT))
    if type(array) is Buffer:
        return _device_matrix(array, name, types)
    if isinstance(array, np.ndarray):
        return _host_matrix(array, name, types)
    if is_cuda_array(array):
        return _device_matrix(Buffer.wrap(array), name, types)
    raise unknown(array, name)


def known(array: Any) -> bool:
    """Whether the routines accept such arrays: NumPy's, Buffers, and those in CUDA memory."""
    return isinstance(array, (np.ndarray, Buffer)) or is_cuda_array(array)


def unknown(array: Any, name: str) -> ArgumentError:
    """The error for an argument that is not an array that the routines accept, with what to pass instead."""
    number = array is None or isinstance(array, (str, bytes, int, float, complex, np.generic))
    advice = "" if name == "out" or number else ", or convert it with numpy.asarray"
    return ArgumentError(f"{name} is a {type(array).__name__}; pass a NumPy array, a portatile Buffer or a CUDA array{advice}")


def _host_matrix(array: NDArray[Any], name: str, types: tuple[str, ...]) -> Matrix:
    """A NumPy array that is not simply contiguous as a Matrix, with every check."""
    refuse_masks(array, name)
    _check_kind(array.dtype, array.shape, name, types)
    _check_aligned(array, name)
    transposed, rows, columns, stride = _stored(array.shape, array.strides, array.itemsize, name)
    return Matrix(array.T if transposed else array, transposed, rows, columns, stride, 0, _alignment(array))


def _check_aligned(array: NDArray[Any], name: str) -> None:
    if not array.flags.aligned:
        raise ArgumentError(f"{name} is an unaligned view; {remedy(name, f'copy it, for example with {name}.copy()')}")


def _alignment(array: NDArray[Any]) -> int:
    pointer = address(array)
    return min(pointer & -pointer, MAX_ALIGNMENT)


def _device_matrix(buffer: Buffer, name: str, types: tuple[str, ...]) -> Matrix:
    check_alive(buffer, name)
    return Matrix(buffer, *_device_form(buffer.shape, buffer.strides, buffer.dtype, buffer.offset, name, types), alignment(buffer))


@lru_cache(4096)
def _device_form(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], offset: int, name: str, types: tuple[str, ...]
) -> tuple[bool, int, int, int, int]:
    """The result of ``_stored`` for a Buffer, and its offset in elements. Cached: programs use few combinations of shape and strides."""
    _check_kind(dtype, shape, name, types)
    size = dtype.itemsize
    stored = _stored(shape, strides, size, name, on_device=True)
    if offset % size:
        raise ArgumentError(f"{name} begins {offset} bytes into its memory, which is not a multiple of {size}; copy it")
    return *stored, offset // size


def alignment(buffer: Buffer) -> int:
    """The alignment of a Buffer's memory in bytes, at most 128; drivers guarantee that much for memory without visible addresses."""
    handle = buffer.memory.handle
    return min(handle & -handle, MAX_ALIGNMENT) if isinstance(handle, int) and handle else MAX_ALIGNMENT


def is_packed(buffer: Buffer) -> bool:
    """Whether a Buffer is C-contiguous and begins at a multiple of its element size."""
    size = buffer.dtype.itemsize
    return buffer.strides == packed(buffer.shape, size) and buffer.offset % size == 0


def whole(buffer: Buffer) -> Matrix:
    """A contiguous Buffer of any shape as one row, for plans that handle the shape and the offset themselves."""
    return Matrix(buffer, False, 1, buffer.size, buffer.size, 0, 1)


def beginning(buffer: Buffer) -> tuple[int, int]:
    """The offset of a contiguous Buffer in its memory, in elements, and the memory's alignment."""
    return buffer.offset // buffer.dtype.itemsize, alignment(buffer)


def stack(array: NDArray[Any] | Buffer, name: str) -> Matrix:
    """A three-dimensional array as a stack of matrices; raises ArgumentError where ``matrix`` would refuse one of them."""
    size = array.dtype.itemsize
    count, step = array.shape[0], array.strides[0]
    transposed, rows, columns, stride = _stored(array.shape[1:], array.strides[1:], size, name, isinstance(array, Buffer))
    if isinstance(array, Buffer):
        first = _device_matrix(Buffer(array.memory, array.shape[1:], array.dtype, array.strides[1:], array.offset), name, ALL)
        return first._replace(array=array, number=count, step=step // size)
    _check_aligned(array, name)
    stored = array.swapaxes(1, 2) if transposed else array
    return Matrix(stored, transposed, rows, columns, stride, 0, _alignment(array), count, step // size)


def _check_kind(dtype: np.dtype[Any], shape: tuple[int, ...], name: str, types: tuple[str, ...]) -> None:
    check_dtype(dtype, name, types)
    if len(shape) != 2:
        raise ArgumentError(f"{name} has shape {shape}; it must be a matrix (two dimensions)")


def form(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[bool, int, int, int] | None:
    """(transposed, rows, columns, elements from row to row) of a strided matrix, with ``strides`` and ``size`` in bytes.

    None where kernels cannot read it: no dimension is contiguous, or rows overlap or have a negative stride.
    """
    if 0 in shape:
        return False, shape[0], shape[1], max(shape[1], 1)
    for transposed in (False, True):
        (rows, columns), (down, along) = (shape[::-1], strides[::-1]) if transposed else (shape, strides)
        if columns > 1 and along != size:
            continue
        if rows == 1:
            down = columns * size
        if down >= columns * size and down % size == 0:
            return transposed, rows, columns, down // size
    return None


def _stored(shape: tuple[int, ...], strides: tuple[int, ...], size: int, name: str, on_device: bool = False) -> tuple[bool, int, int, int]:
    """The result of ``form`` for a matrix; raises ArgumentError, with advice how to copy it, where kernels cannot read it."""
    stored = form(shape, strides, size)
    if stored is not None:
        return stored
    copied = f"portatile.Buffer.from_numpy({name}.numpy())" if on_device else f"numpy.ascontiguousarray({name})"
    raise ArgumentError(
        f"{name} has shape {shape} and strides {strides} bytes; one dimension must be contiguous and the other have a "
        f"positive stride past it: {remedy(name, f'copy it, for example with {copied}')}"
    )


def check_alike(a: Matrix, b: Matrix) -> None:
    """Raise ArgumentError if the operands a and b differ in dtype."""
    if a.array.dtype != b.array.dtype:
        raise ArgumentError(f"a is {a.array.dtype} and b is {b.array.dtype}; {_to_one_type(a.array.dtype, b.array.dtype)}")


def _to_one_type(a: np.dtype[Any], b: np.dtype[Any]) -> str:
    """Advice for operands of two dtypes: convert to NumPy's common dtype, if there is one."""
    try:
        common = np.result_type(a, b)
    except TypeError:
        return "convert both to one type, for example float32"
    if common in (a, b):
        return f"convert one of them, for example {'b' if common == a else 'a'} to {common}"
    return f"convert both to one type, for example {common}"


def check_square(a: Matrix, side: str, shape: tuple[int, int]) -> None:
    """Raise ArgumentError unless ``a`` is square and fits on that side (L or R) of a matrix ``b`` of ``shape``."""
    order = shape[0] if side == "L" else shape[1]
    if a.shape != (order, order):
        raise ArgumentError(f"a is {a.shape}; side {side} with a b of shape {shape} needs {(order, order)}")
