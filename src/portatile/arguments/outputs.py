"""Outputs of routines: the caller's array or a new one, checks of overlap, and initial values."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple

import numpy as np

from portatile import dtypes
from portatile.arguments.checks import ALL, NAMES, check_writable
from portatile.arguments.matrices import Array, Matrix, matrix
from portatile.device.base import Memory, Queue
from portatile.device.buffer import Buffer
from portatile.device.page_locked import locked
from portatile.device.strides import CopiedRows
from portatile.errors import ArgumentError


class InitialContent(NamedTuple):
    """The initial values of an output ``array``: those of ``source``, which has the same shape, or zeros without a source.

    Both are NumPy arrays, or both Buffers of one device: matrices in the same order, or packed ones of any dimensions, as outputs of zeros
    are. With ``triangle`` (L or U; of a Buffer's rows as they lie in memory) only that triangle is written. The arrays are square then;
    NumPy's may be stacks of squares.
    """

    array: Any
    source: Any = None
    triangle: str = ""

    def put(self, queue: Queue) -> None:
        """Write the values: at once on the host, through the queue on a device."""
        array, source = self.array, self.source
        if isinstance(array, np.ndarray):
            np.copyto(array, 0 if source is None else source, where=self._where())
        elif source is None:
            if array.nbytes:
                queue.fill(array.memory, bytes(4), array.offset, array.nbytes)
        elif self.triangle:
            self._put_triangle(queue, _as_stored(array), _as_stored(source))
        elif (rows := _rows(array, source)) is not None and rows.number > 1:
            queue.copy_rows(array.memory, source.memory, rows)
        else:
            queue.copy(array.memory, source.memory, array.nbytes, array.offset, source.offset)

    def _where(self) -> Any:
        """The elements that are written."""
        if not self.triangle:
            return True
        n = self.array.shape[-1]
        return np.tri(n, dtype=bool) if self.triangle == "L" else np.tri(n, dtype=bool).T

    def _put_triangle(self, queue: Queue, array: Buffer, source: Buffer) -> None:
        """Copy each row's part of a triangle."""
        n, size = array.shape[0], array.dtype.itemsize
        for row in range(n):
            first, count = (0, row + 1) if self.triangle == "L" else (row, n - row)
            target_at, source_at = (one.offset + row * one.strides[0] + first * size for one in (array, source))
            queue.copy(array.memory, source.memory, count * size, target_at, source_at)


class Result(NamedTuple, Generic[Array]):
    """``array`` is what the caller gets, ``matrix`` describes its memory; ``begin`` is for ``perform``."""

    array: Array
    matrix: Matrix
    begin: InitialContent | None


def receiving(
    out: Array | None,
    shape: tuple[int, int],
    model: Array,
    factors: Mapping[str, Matrix],
    c: Any,
    beta: complex,
    kind: np.dtype[Any] | None = None,
) -> Result[Array]:
    """The output of a product: ``out``, or a new array like ``model``, with the values of ``c`` if ``beta`` is not 0.

    ``shape`` is m x n, ``factors`` are the operands by name, ``kind`` is the result's dtype (by default that of the factors). Raises
    ArgumentError where the output does not fit or overlaps a factor, where it overlaps ``c`` without being ``c``, and where ``beta`` is not
    0 and there is no ``c``.
    """
    if c is None and beta != 0:
        raise ArgumentError(f"beta is {beta} but there is no c; pass c, or leave beta out")
    factor_dtype = next(iter(factors.values())).array.dtype
    dtype = kind or factor_dtype
    begin = None if beta == 0 or c is out else fitting(c, shape, dtype, "c")
    array = new_for(begin, model, shape, None if dtype == factor_dtype else dtype) if out is None else out
    stored = output(array, shape, dtype)
    for name, factor in factors.items():
        check_apart(stored, factor, name)
    return Result(array, stored, None if begin is None else copying(begin, stored, "c"))


def result_type(operand: np.dtype[Any], asked_name: str | None, out: Any, c: Any) -> np.dtype[Any]:
    """The dtype of a product: the one called ``asked_name``, that of ``out`` or of ``c``, or the default for such operands.

    Raises ArgumentError where products of such operands cannot have the dtype ``asked_name``.
    """
    name = dtypes.name_of(operand)
    possible = dtypes.RESULTS.get(name, (name,))
    if asked_name is not None:
        dtypes.product_name(name, asked_name)
        return dtypes.ELEMENTS[asked_name].numpy
    if len(possible) == 1:
        return operand if possible[0] == name else dtypes.ELEMENTS[possible[0]].numpy
    for array in (out, c):
        array_name = "" if array is None else dtypes.named(array.dtype) if hasattr(array, "dtype") else ""
        if array_name in possible:
            return dtypes.ELEMENTS[array_name].numpy
    return dtypes.ELEMENTS[possible[0]].numpy


def new_for(begin: Matrix | None, model: Array, shape: tuple[int, int], kind: np.dtype[Any] | None = None) -> Array:
    """A new output like ``model``; on a device in the order of ``begin``, if its values are copied there first."""
    return new(model, shape, kind, begin is not None and begin.on_device and begin.transposed)


def new(model: Array, shape: tuple[int, ...], kind: np.dtype[Any] | None = None, by_columns: bool = False) -> Array:
    """An uninitialised array of the library and device of ``model``, of ``kind`` or its dtype; row-major, or each matrix ``by_columns``.

    Raises ArgumentError for a library whose arrays cannot be made here.
    """
    if by_columns:
        return matrix_transpose(new(model, (*shape[:-2], *shape[:-3:-1]), kind))
    if isinstance(model, np.ndarray):
        return locked.empty(shape, kind or model.dtype)  # type: ignore[return-value]
    if isinstance(model, Buffer):
        return Buffer.empty(shape, kind or model.dtype, model.device)  # type: ignore[return-value]
    if hasattr(model, "new_empty"):  # PyTorch
        if kind is None:
            return model.new_empty(shape)  # type: ignore[no-any-return]
        return model.new_empty(shape, dtype=getattr(sys.modules["torch"], kind.name))  # type: ignore[no-any-return]
    if type(model).__module__.split(".")[0] == "cupy":
        with model.device:  # type: ignore[attr-defined] # it may differ from the current device
            return type(model)(shape, kind or model.dtype)  # type: ignore[call-arg,attr-defined]
    raise ArgumentError(f"a result cannot be made as a {type(model).__name__}; pass out=")


def matrix_transpose(array: Array) -> Array:
    """The view of an array with each matrix transposed."""
    return array.mT if isinstance(array, Buffer) else array.swapaxes(-1, -2)  # type: ignore[return-value,attr-defined]


def output(out: Any, shape: tuple[int, int], kind: np.dtype[Any]) -> Matrix:
    """An output as a matrix; raises ArgumentError if it is read-only or does not fit."""
    check_writable(out, "out")
    return fitting(out, shape, kind, "out")


def fitting(array: Any, shape: tuple[int, int], kind: np.dtype[Any], name: str) -> Matrix:
    """The array as a matrix; raises ArgumentError unless it has this ``shape`` and dtype ``kind``."""
    stored = matrix(array, name, (NAMES[kind],) if kind in NAMES else ALL)
    if stored.shape != shape or stored.array.dtype != kind:
        have = f"has shape {stored.shape} and dtype {stored.array.dtype}"
        raise ArgumentError(f"{name} {have}; it must have shape {shape} and dtype {kind}")
    return stored


def check_apart(out: Matrix, other: Matrix, name: str) -> None:
    """Raise ArgumentError if an output shares memory with another operand."""
    if overlap(out, other):
        raise ArgumentError(f"the output overlaps {name}; pass an output of its own, or a copy of {name}")


def overlap(stored: Matrix, other: Matrix) -> bool:
    """Whether two matrices may share memory."""
    array, other_array = stored.array, other.array
    if not isinstance(array, Buffer) and not isinstance(other_array, Buffer):
        return np.may_share_memory(array, other_array)
    if not isinstance(array, Buffer) or not isinstance(other_array, Buffer):
        return False
    if array.memory is not other_array.memory and not isinstance(array.memory.handle, int):  # memory without addresses
        return False
    (memory, first, last), (other_memory, other_first, other_last) = _extent(stored), _extent(other)
    return memory == other_memory and first < other_last and other_first < last


def same(stored: Matrix, other: Matrix) -> bool:
    """Whether two matrices of one shape are the same elements at the same addresses."""
    if stored.on_device != other.on_device or stored[1:-1] != other[1:-1]:
        return False
    if stored.on_device:
        return _extent(stored) == _extent(other)
    return bool(stored.array.__array_interface__["data"] == other.array.__array_interface__["data"])


def copying(source: Matrix, target: Matrix, name: str) -> InitialContent | None:
    """The copy of ``source`` into ``target``, which have the same shape; on a device both must be stored in the same order.

    None if they are the same memory. Raises ArgumentError where they overlap otherwise, or cannot be copied. Nothing is written here:
    ``perform`` runs the copy after the last check of the call.
    """
    if same(source, target):
        return None
    if overlap(source, target):
        raise ArgumentError(f"out overlaps {name} without being {name}; pass out={name} or an array of its own")
    if not source.on_device and not target.on_device:
        return InitialContent(target.array.T if target.transposed else target.array, source.array.T if source.transposed else source.array)
    if not source.on_device or not target.on_device or source.array.device is not target.array.device:
        raise ArgumentError(f"{name} and out must lie on one device; or pass out={name} to overwrite it")
    if _rows(target.array, source.array) is None:
        orders = ("column-major", "row-major") if source.transposed else ("row-major", "column-major")
        raise ArgumentError(f"{name} is {orders[0]} and out {orders[1]}; leave out away, pass one in the order of {name}, or out={name}")
    return InitialContent(target.array, source.array)


def _rows(target: Buffer, source: Buffer) -> CopiedRows | None:
    """The contiguous rows, or columns, in which two matrices of one shape are copied: one where neither has gaps. None without such."""
    if target.ndim != 2 or not target.size:
        return CopiedRows(1, target.nbytes, target.offset, 0, source.offset, 0)
    size = target.dtype.itemsize
    for to, begin in ((target, source), (target.T, source.T)):
        (number, length), (step, source_step) = to.shape, (to.strides[0], begin.strides[0])
        nbytes = length * size
        if length > 1 and not to.strides[1] == begin.strides[1] == size:
            continue
        if step == source_step == nbytes:
            number, nbytes = 1, target.nbytes
        return CopiedRows(number, nbytes, target.offset, step, source.offset, source_step)
    return None


def _as_stored(array: Buffer) -> Buffer:
    """The rows of a matrix as they lie in memory: of a column-major one the columns."""
    return array.T if array.strides[0] < array.strides[1] else array


def _extent(stored: Matrix) -> tuple[object, int, int]:
    """The memory that holds a Buffer, and its first and last byte there; all CUDA memory counts as one address space."""
    memory: Memory = stored.array.memory
    size = stored.array.dtype.itemsize
    base = memory.handle if isinstance(memory.handle, int) else 0
    first = base + stored.offset * size
    return None if base else id(memory), first, first + stored.extent * size
