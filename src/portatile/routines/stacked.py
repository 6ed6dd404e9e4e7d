"""Level-3 routines on stacks of matrices, whose operands broadcast as NumPy's do, and on vectors.

Small matrices of a stack are computed together, large ones one by one. A vector becomes a matrix of one column or row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from portatile.arguments import matrices, outputs, stacks
from portatile.arguments.checks import COMPLEX, check_writable
from portatile.arguments.matrices import Matrix
from portatile.device.buffer import Buffer
from portatile.device.copies import address
from portatile.device.strides import overlaps_itself, span
from portatile.errors import ArgumentError
from portatile.runtime.repeated.recorded import Converted, Planned
from portatile.runtime.request import RoutineCall

SMALL, SMALL_FOR_GPU = 128, 512
"""The order up to which the matrices of a stack are computed together, each as one block: there a launch costs more than multiplying the
zeros. On a GPU whose products skip zeros the limit is higher, since one such matrix keeps few multiprocessors busy.
"""

Plan = Callable[[RoutineCall, Any], Planned]
"""The plan of one matrix; its result goes to the array that is passed beside the call, if any, else to ``out`` or a new array."""


class Stacks(NamedTuple):
    """The operands of a call as stacks, by name, their common ``batch`` shape, the ``result``, and the result as a stack, ``target``."""

    given: Mapping[str, Any]
    batch: tuple[int, ...]
    result: Any
    target: Any


def checked(call: RoutineCall, names: tuple[str, ...], shape: Callable[[Mapping[str, Any]], tuple[int, int]]) -> Stacks:
    """The stacks of a call, whose arrays have these names; ``shape`` gives the shape of each result matrix from them.

    Raises ArgumentError for what does not fit.
    """
    given = {name: stacks.stack_of(array, name, COMPLEX) for name, array in zip(names, call.arrays, strict=True)}
    batch = stacks.broadcast(*(array.shape for array in given.values()))
    shape_of_stack = (*batch, *shape(given))
    model = call.arrays[names.index("b")] if "b" in names else call.arrays[0]
    begins = given[names[-1]] if "c" in names or len(call.factors) == 1 else None  # what a copy, in the same order, may put into the result
    by_columns = isinstance(begins, Buffer) and begins.strides[-1] > begins.strides[-2]
    result = outputs.new(model, shape_of_stack, None, by_columns) if call.out is None else call.out
    target = stacks.stack_of(result, "out", COMPLEX)
    if target.shape != shape_of_stack:
        raise ArgumentError(f"out has shape {target.shape}; it must have shape {shape_of_stack}")
    check_writable(result, "out")
    if prod(shape_of_stack):
        _check_apart(target, given)
        return Stacks(given, batch, result, target)
    for name, array in given.items():  # nothing is planned for an empty batch, so nothing else checks these
        if array.dtype != target.dtype:
            raise ArgumentError(f"{name} is {array.dtype} and the output {target.dtype}; convert one of them")
    return Stacks(given, batch, result, target)


def parts(checked_stacks: Stacks, order: int, most: int, read: tuple[str, ...], begins: str = "") -> list[list[Matrix]] | None:
    """The operands ``read`` and the target as evenly spaced stacks, each processed by one launch; None where each matrix is computed alone.

    That is so for matrices of an ``order`` above ``most`` (on NVIDIA's GPUs SMALL_FOR_GPU), for several dtypes, and where the initial copy
    of the operand ``begins`` into the target would need more than one copy.
    """
    target = checked_stacks.target
    if isinstance(target, Buffer) and target.device.info.nvidia:
        most = SMALL_FOR_GPU
    used = [checked_stacks.given[name] for name in read]
    source = checked_stacks.given[begins] if begins else target
    if order > most or prod(checked_stacks.batch) < 2 or 0 in target.shape or any(array.dtype != target.dtype for array in (*used, source)):
        return None
    same_layout = source.shape == target.shape and stacks.is_packed(source) and stacks.is_packed(target)
    if source is not target and not isinstance(source, np.ndarray) and not same_layout:
        return None
    names = (*read, "out")
    even_parts = [
        [matrices.stack(view, name) for view, name in zip(views, names, strict=True)]
        for views in stacks.batches(checked_stacks.batch, (*used, target))
    ]
    if any(part[-1].number < 2 for part in even_parts):
        return None
    for part in even_parts:
        for name, stored in zip(read, part, strict=False):
            outputs.check_apart(part[-1], stored, name)
    return even_parts


def each(plan: Plan, call: RoutineCall, checked_stacks: Stacks) -> Planned:
    """The requests for all matrices of the stacks of a call. Raises ArgumentError for what does not fit, before anything is computed."""
    result, target = checked_stacks.result, checked_stacks.target
    if not prod(target.shape):
        return Planned(result, [])
    requests = []
    owners = dict(zip(checked_stacks.given, call.arrays, strict=True))
    for index in np.ndindex(*checked_stacks.batch):
        arrays = tuple(_matrix(array, index, owners[name]) for name, array in checked_stacks.given.items())
        destination = _matrix(target, index, result)
        out = None if call.out is None else destination
        requests += [request._replace(result=result) for request in plan(call._replace(arrays=arrays, out=out), destination).requests]
    return Planned(result, requests)


def _matrix(stack: Any, index: tuple[int, ...], owner: Any) -> Any:
    """The matrix at ``index`` of the batch to which ``stack`` is broadcast; where memory has addresses, in memory that begins there."""
    own = stack.shape[:-2]
    matrix = stack[tuple(0 if size == 1 else at for size, at in zip(own, index[len(index) - len(own) :], strict=True))]
    if not isinstance(matrix, Buffer) or not matrix.device.info.can.addresses:
        return matrix
    low, high = span(matrix.shape, matrix.strides, matrix.dtype.itemsize)
    memory = matrix.device.adopt(matrix.memory.handle + matrix.offset + low, high - low, owner)
    return Buffer(memory, matrix.shape, matrix.dtype, matrix.strides, -low)


def _check_apart(target: Any, operands: Mapping[str, Any]) -> None:
    """Raise ArgumentError if an output overlaps itself, or an operand without being that operand."""
    if overlaps_itself(target.shape, target.strides, target.dtype.itemsize):
        raise ArgumentError("out overlaps itself: several of its elements share memory; pass an array of its own")
    for name, array in operands.items():
        if not in_one_place(array, target) and _may_share_memory(array, target):
            raise ArgumentError(f"the output overlaps {name} without being {name}; pass an output of its own, or a copy of {name}")


def in_one_place(array: Any, other: Any) -> bool:
    """Whether two arrays have the same elements."""
    return _place(array) == _place(other)


def _place(array: Any) -> tuple[object, ...]:
    """A key that two arrays share if they have the same elements."""
    start = (array.memory.handle, array.offset) if isinstance(array, Buffer) else (address(array),)
    return (*start, array.shape, array.strides)


def _may_share_memory(array: Any, other: Any) -> bool:
    """Whether two arrays may share memory."""
    if not isinstance(array, Buffer) or not isinstance(other, Buffer):
        return isinstance(array, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(array, other)
    (block, first, last), (other_block, other_first, other_last) = _extent(array), _extent(other)
    return block is other_block and first < other_last and other_first < last


def _extent(array: Buffer) -> tuple[object, int, int]:
    """The memory that holds a Buffer (None for the common address space), and its first and last byte there."""
    handle = array.memory.handle
    base = handle if isinstance(handle, int) else 0
    low, high = span(array.shape, array.strides, array.dtype.itemsize)
    return None if base else handle, base + array.offset + low, base + array.offset + high


def as_matrix(plan: Callable[[RoutineCall], Planned | Converted], call: RoutineCall, place: int) -> Converted:
    """A call whose last array is a vector, which becomes a matrix of one column (``place`` -1) or one row (-2).

    Raises ArgumentError if the vector, or ``out``, is not an array that the routines accept.
    """
    *others, vector = call.arrays
    out = call.out
    for array, name in ((vector, "b"), (out, "out")):
        if array is not None and not matrices.known(array):
            raise matrices.unknown(array, name)
    index = (..., None) if place == -1 else (..., None, slice(None))
    view = vector[index]
    if out is not None:
        out = view if out is vector else out[index]

    def finish(result: Any) -> Any:
        return call.out if call.out is not None else result[(..., 0) if place == -1 else (..., 0, slice(None))]

    return Converted(plan, call._replace(arrays=(*others, view), out=out), finish)


def as_tall(plan: Callable[[RoutineCall], Planned], call: RoutineCall) -> Converted | None:
    """A call whose arrays but the first are stacks, all multiplied by that single matrix from the right, as a call of taller matrices.

    None where their memory layout does not allow that.
    """
    first, *rest = call.arrays
    stack = rest[0]
    alike = [*rest] if call.out is None else [*rest, call.out]
    if not all(map(matrices.known, (first, *alike))):
        return None
    if first.ndim != 2 or any(array.shape != stack.shape or not _packed(array) for array in alike):
        return None
    if 0 in stack.shape:
        return None
    tall = (prod(stack.shape[:-1]), stack.shape[-1])
    views = [array.reshape(tall) for array in rest]
    out = call.out
    if out is not None:
        out = next((view for array, view in zip(rest, views, strict=True) if array is out), None)
        out = call.out.reshape(tall) if out is None else out

    def finish(result: Any) -> Any:
        return call.out if call.out is not None else result.reshape(stack.shape)

    return Converted(plan, call._replace(arrays=(first, *views), out=out), finish)


def _packed(array: Any) -> bool:
    """Whether an array of any library is C-contiguous."""
    if isinstance(array, Buffer):
        return matrices.is_packed(array)
    is_contiguous = getattr(array, "is_contiguous", None)
    return bool(is_contiguous() if is_contiguous is not None else array.flags.c_contiguous)
