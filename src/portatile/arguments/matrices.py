"""What callers pass, as the kernels want it: NumPy arrays, Buffers, and other libraries' CUDA arrays as matrices in memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.device.buffer import Buffer, is_cuda_array, refuse_masks
from portatile.device.copies import address
from portatile.device.dlpack import packed
from portatile.errors import ArgumentError
from portatile.records import Layout

MAX_ALIGNMENT = 128
DTYPES = ("float32", "float64")
NAMES = {np.dtype(name): name for name in DTYPES}  # to ask a dtype for its own takes 3 us
_TYPES = frozenset(NAMES)

Array = TypeVar("Array")


class Matrix(NamedTuple):  # a tuple, because one is made for every argument of every call
    """A matrix one of whose dimensions is contiguous, stored row by row: ``transposed`` if it is its columns that are.

    Or a stack of ``number`` such matrices, ``step`` elements apart (0: one for all), and ``array`` has three dimensions.

    ``array`` is the NumPy array or the Buffer, ``rows`` x ``columns`` its shape as stored, ``stride`` the elements from one row
    to the next, ``offset`` those before the first one in a Buffer's memory, ``alignment`` that of the memory in bytes.
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

    @property
    def on_device(self) -> bool:
        """Whether it lies in a device's memory already."""
        return isinstance(self.array, Buffer)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix, or of each, not as stored."""
        return (self.columns, self.rows) if self.transposed else (self.rows, self.columns)

    @property
    def layout(self) -> Layout:
        """The layout of the stored matrix, or of the stack."""
        strides = (self.stride, 1) if self.number == 1 else (self.step, self.stride, 1)
        return Layout(strides, self.offset, self.alignment)

    @property
    def extent(self) -> int:
        """Elements from the first one to one past the last."""
        if not (self.rows and self.columns):
            return 0
        return (self.number - 1) * self.step + (self.rows - 1) * self.stride + self.columns

    @property
    def packed(self) -> bool:
        """Whether there is nothing between its elements."""
        return self.stride == self.columns and (self.number == 1 or self.step == self.rows * self.columns)

    def flipped(self) -> Matrix:
        """The same memory read as the transpose."""
        return self._replace(transposed=not self.transposed)

    def span(self) -> NDArray[Any]:
        """The memory of a NumPy matrix from the first element to the last, as a contiguous array."""
        array: NDArray[Any] = self.array
        if self.packed:
            return array
        return as_strided(array, (self.extent,), (array.itemsize,), writeable=array.flags.writeable)


def matrix(array: Any, name: str) -> Matrix:
    """``array`` as a Matrix; raises ArgumentError naming it where it is not a two-dimensional array of ``DTYPES``.

    Negative, zero and overlapping strides, unaligned views and foreign byte orders are refused: nothing is copied
    behind the caller's back.
    """
    if type(array) is np.ndarray and array.ndim == 2 and array.dtype in _TYPES and array.flags.carray and array.size:
        rows, columns = array.shape
        pointer = address(array)
        return Matrix(array, False, rows, columns, columns, 0, min(pointer & -pointer, MAX_ALIGNMENT))
    if type(array) is Buffer:
        return _device_matrix(array, name)
    if isinstance(array, np.ndarray):
        return _host_matrix(array, name)
    if is_cuda_array(array):
        return _device_matrix(Buffer.wrap(array), name)
    raise unknown(array, name)


def unknown(array: Any, name: str) -> ArgumentError:
    """The error for what is no array that the routines know."""
    advice = "" if name == "out" else ", or convert it with numpy.asarray"
    return ArgumentError(f"{name} is a {type(array).__name__}; pass a NumPy array, a portatile Buffer or a CUDA array{advice}")


def factor(value: Any, name: str) -> float:
    """A real scalar such as ``alpha``; raises ArgumentError for text, complex numbers and what is no number."""
    if type(value) is float:
        return value
    try:
        if isinstance(value, (str, bytes)) or np.iscomplexobj(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}={value!r} is no real number") from None
    except OverflowError:
        raise ArgumentError(f"{name} is too large for a float64") from None


def _host_matrix(array: NDArray[Any], name: str) -> Matrix:
    """As ``matrix``, for what is not simply contiguous; checks everything."""
    refuse_masks(array, name)
    if array.dtype.hasobject:
        advice = _remedy(name, f"convert it, for example with {name}.astype('float64')")
        raise ArgumentError(f"{name} holds Python objects; {advice}")
    _check_kind(array.dtype, array.shape, name)
    if not array.flags.aligned:
        raise ArgumentError(f"{name} is an unaligned view; {_remedy(name, f'copy it, for example with {name}.copy()')}")
    transposed, rows, columns, stride = _stored(array.shape, array.strides, array.itemsize, name)
    return Matrix(array.T if transposed else array, transposed, rows, columns, stride, 0, _alignment(array))


def _alignment(array: NDArray[Any]) -> int:
    pointer = address(array)
    return min(pointer & -pointer, MAX_ALIGNMENT)


def _device_matrix(buffer: Buffer, name: str) -> Matrix:
    return Matrix(buffer, *_device_form(buffer.shape, buffer.strides, buffer.dtype, buffer.offset, name), alignment(buffer))


@lru_cache(4096)
def _device_form(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], offset: int, name: str
) -> tuple[bool, int, int, int, int]:
    """As ``_stored``, and the elements before the first one; remembered, because the same forms come again and again."""
    _check_kind(dtype, shape, name)
    size = dtype.itemsize
    stored = _stored(shape, strides, size, name, on_device=True)
    if offset % size:
        raise ArgumentError(f"{name} begins {offset} bytes into its memory, which is no multiple of {size}; copy it")
    return *stored, offset // size


def alignment(buffer: Buffer) -> int:
    """Bytes at which the memory of a Buffer begins, as far as is known; that of a driver's own is well aligned."""
    handle = buffer.memory.handle
    return min(handle & -handle, MAX_ALIGNMENT) if isinstance(handle, int) and handle else MAX_ALIGNMENT


def is_packed(buffer: Buffer) -> bool:
    """Whether a Buffer is C-contiguous and begins at a whole element of its memory."""
    size = buffer.dtype.itemsize
    return buffer.strides == packed(buffer.shape, size) and buffer.offset % size == 0


def beginning(buffer: Buffer) -> tuple[int, int]:
    """Where a contiguous Buffer begins in its memory: offset in elements, and the memory's alignment."""
    return buffer.offset // buffer.dtype.itemsize, alignment(buffer)


def stack(array: NDArray[Any] | Buffer, name: str) -> Matrix:
    """An array of three dimensions as a stack of matrices; raises ArgumentError where they are not as ``matrix`` wants them."""
    size = array.dtype.itemsize
    count, step = array.shape[0], array.strides[0]
    transposed, rows, columns, stride = _stored(array.shape[1:], array.strides[1:], size, name, isinstance(array, Buffer))
    if isinstance(array, Buffer):
        first = _device_matrix(Buffer(array.memory, array.shape[1:], array.dtype, array.strides[1:], array.offset), name)
        return first._replace(array=array, number=count, step=step // size)
    if not array.flags.aligned:
        raise ArgumentError(f"{name} is an unaligned view; {_remedy(name, f'copy it, for example with {name}.copy()')}")
    stored = array.swapaxes(1, 2) if transposed else array
    return Matrix(stored, transposed, rows, columns, stride, 0, _alignment(array), count, step // size)


def check_options(*given: tuple[str, str, str]) -> None:
    """Raise ArgumentError for an option whose value is not one of the allowed letters: name, value, letters."""
    for name, value, allowed in given:
        if value not in tuple(allowed):
            raise ArgumentError(f"{name}={value!r} is not one of {', '.join(allowed)}")


def check_dtype(dtype: np.dtype[Any], name: str) -> None:
    """Raise ArgumentError for elements that are none of ``DTYPES``, with what to do."""
    if dtype not in _TYPES:
        order = "" if dtype.isnative else " in foreign byte order"
        wanted = "float64" if dtype.itemsize >= 8 or dtype.kind in "iu" else "float32"
        advice = "take real and imaginary part apart" if dtype.kind == "c" else f"convert it, for example with {name}.astype('{wanted}')"
        advice = _remedy(name, advice)
        raise ArgumentError(f"{name} has dtype {dtype.newbyteorder('=')}{order}; supported are {', '.join(DTYPES)}: {advice}")


def check_orbitals(psi: Any, axes: int) -> None:
    """Raise ArgumentError for what is neither one orbital, a NumPy array or Buffer of so many ``axes``, nor a batch with one more."""
    if not isinstance(psi, (np.ndarray, Buffer)):
        raise ArgumentError(f"psi is a {type(psi).__name__}; pass a NumPy array or a portatile Buffer")
    check_dtype(psi.dtype, "psi")
    refuse_masks(psi, "psi")
    if psi.ndim not in (axes, axes + 1):
        raise ArgumentError(f"psi has shape {tuple(psi.shape)}; pass one orbital ({axes} dimensions) or a batch of them ({axes + 1})")


def check_single(array: Any, name: str) -> None:
    """Raise ArgumentError for a NumPy array or Buffer that is not of float32, with what to do."""
    if isinstance(array, (np.ndarray, Buffer)) and array.dtype != np.float32:
        advice = _remedy(name, f"convert it, for example with {name}.astype('float32')")
        raise ArgumentError(f"{name} has dtype {array.dtype}; it must be float32: {advice}")


def _check_kind(dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> None:
    check_dtype(dtype, name)
    if len(shape) != 2:
        raise ArgumentError(f"{name} has shape {shape}; it must be a matrix (two dimensions)")


def _stored(shape: tuple[int, ...], strides: tuple[int, ...], size: int, name: str, on_device: bool = False) -> tuple[bool, int, int, int]:
    """(transposed, rows, columns, elements from row to row) of a strided matrix, ``strides`` and ``size`` in bytes."""
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
    copied = f"portatile.Buffer.from_numpy({name}.numpy())" if on_device else f"numpy.ascontiguousarray({name})"
    raise ArgumentError(
        f"{name} has shape {shape} and strides {strides} bytes; one dimension must be contiguous and the other have a "
        f"positive stride past it: {_remedy(name, f'copy it, for example with {copied}')}"
    )


def _remedy(name: str, advice: str) -> str:
    """What to do about an array that does not do; a copy of an output would receive the result in its place."""
    return "pass another array for the result" if name == "out" else advice


def new(model: Array, shape: tuple[int, ...]) -> Array:
    """An uninitialised row-major array of the library, dtype and device of ``model``."""
    if isinstance(model, np.ndarray):
        return np.empty(shape, model.dtype)  # type: ignore[return-value]
    if isinstance(model, Buffer):
        return Buffer.empty(shape, model.dtype, model.device)  # type: ignore[return-value]
    if hasattr(model, "new_empty"):  # PyTorch
        return model.new_empty(shape)  # type: ignore[no-any-return]
    if type(model).__module__.split(".")[0] == "cupy":
        return type(model)(shape, model.dtype)  # type: ignore[call-arg,attr-defined]
    raise ArgumentError(f"a result cannot be made as a {type(model).__name__}; pass out=")


def output(out: Any, shape: tuple[int, int], model: Matrix) -> Matrix:
    """An output as a matrix; raises ArgumentError where it cannot be written or does not fit."""
    writable(out, "out")
    return fitting(out, shape, model, "out")


def fitting(array: Any, shape: tuple[int, int], model: Matrix, name: str) -> Matrix:
    """The array as a matrix; raises ArgumentError where it is not of ``shape`` and of the dtype of ``model``."""
    stored = matrix(array, name)
    if stored.shape != shape or stored.array.dtype != model.array.dtype:
        have = f"has shape {stored.shape} and dtype {stored.array.dtype}"
        raise ArgumentError(f"{name} {have}; it must have shape {shape} and dtype {model.array.dtype}")
    return stored


def alike(a: Matrix, b: Matrix) -> None:
    """Raise ArgumentError where the operands a and b differ in dtype."""
    if a.array.dtype != b.array.dtype:
        raise ArgumentError(f"a is {a.array.dtype} and b is {b.array.dtype}; convert one of them")


def writable(array: Any, name: str) -> None:
    """Raise ArgumentError when an output cannot be written."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ArgumentError(f"{name} is read-only; pass an array that may be written")


def apart(out: Matrix, other: Matrix, name: str) -> None:
    """Raise ArgumentError when an output shares memory with another operand."""
    if overlap(out, other):
        raise ArgumentError(f"the output overlaps {name}; pass an output of its own, or a copy of {name}")


def overlap(one: Matrix, other: Matrix) -> bool:
    """Whether two matrices may share memory."""
    mine, yours = one.array, other.array
    if not isinstance(mine, Buffer) and not isinstance(yours, Buffer):
        return np.may_share_memory(mine, yours)
    if not isinstance(mine, Buffer) or not isinstance(yours, Buffer):
        return False
    if mine.memory is not yours.memory and not isinstance(mine.memory.handle, int):  # without addresses
        return False
    (memory, first, last), (other_memory, other_first, other_last) = _extent(one), _extent(other)
    return memory == other_memory and first < other_last and other_first < last


def same(one: Matrix, other: Matrix) -> bool:
    """Whether two matrices of one shape are the same elements in the same places."""
    if one.on_device != other.on_device or one[1:] != other[1:]:
        return False
    if one.on_device:
        return _extent(one) == _extent(other)
    return bool(one.array.__array_interface__["data"] == other.array.__array_interface__["data"])


def _extent(stored: Matrix) -> tuple[object, int, int]:
    """What a Buffer lies in, and its first and last byte there; CUDA addresses are all of one space."""
    memory: Memory = stored.array.memory
    size = stored.array.dtype.itemsize
    base = memory.handle if isinstance(memory.handle, int) else 0
    first = base + stored.offset * size
    return None if base else id(memory), first, first + stored.extent * size


class Placed(NamedTuple):
    """A matrix on a device: in its ``own`` memory where the device reaches that, else in a copy; ``made`` for this call or not."""

    stored: Matrix
    memory: Memory
    own: bool
    made: bool

    def collect(self, queue: Queue) -> None:
        """Bring an output back to the caller's NumPy array; waits for the queue. Elements between its rows keep their values."""
        if self.own:
            queue.finish()
            return
        stored, span = self.stored, self.stored.span()
        if stored.packed:
            staging.download(queue, span, self.memory)
        else:
            copy = np.empty_like(span)
            staging.download(queue, copy, self.memory)
            shape = (stored.rows, stored.columns) if stored.number == 1 else (stored.number, stored.rows, stored.columns)
            strides = tuple(stride * span.itemsize for stride in stored.layout.strides)
            staging.copied(stored.array, as_strided(copy, shape, strides))

    def release(self) -> None:
        """Give back what ``place`` made; a Buffer's memory stays its owner's."""
        if self.made:
            self.memory.release()


def place(device: Device, queue: Queue, stored: Matrix, read: bool = True) -> Placed:
    """Put a matrix where the kernels reach it; a copy is uploaded only when the kernels ``read`` it."""
    if stored.on_device:
        return Placed(stored, stored.array.memory, True, False)
    span = stored.span()
    kept = device.borrow(span)
    if kept is not None:
        return Placed(stored, kept, True, False)
    memory = device.share(span)
    if memory is not None:
        return Placed(stored, memory, True, True)
    memory = device.allocate(max(span.nbytes, span.itemsize))
    if read:
        staging.upload(queue, memory, span, blocking=False)
    return Placed(stored, memory, False, True)
