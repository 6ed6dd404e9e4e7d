"""Stacks of matrices: broadcast as NumPy does, and merged into as few evenly spaced batches as their strides allow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.arguments import matrices, outputs
from portatile.arguments.checks import ALL, FACTORS, check_alive, check_dtype, check_options, check_writable
from portatile.arguments.letters import conjugate
from portatile.arguments.matrices import Array, Matrix
from portatile.arguments.outputs import InitialContent, result_type
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.dlpack import packed
from portatile.device.masked_arrays import refuse_masks
from portatile.device.strides import overlaps_itself
from portatile.dtypes import strided
from portatile.errors import ArgumentError

_Stack = NDArray[Any] | Buffer


class StackedGemm(NamedTuple, Generic[Array]):
    """The arguments of a call on stacks: ``op(a) @ op(b) + beta * c`` for each matrix, with results of dtype ``kind`` (None: as a's)."""

    a: Array
    b: Array
    c: Array | None
    beta: complex
    trans: tuple[str, str]
    out: Array | None
    kind: Any = None


class StackedProduct(NamedTuple):
    """One product of matrices, or of evenly spaced stacks of them: ``c`` receives the product of ``a`` and ``b``."""

    a: Matrix
    b: Matrix
    c: Matrix

    def row_major(self) -> StackedProduct:
        """The same product with a row-major ``c``: a column-major one is computed as C^T = op(b)^T op(a)^T."""
        return StackedProduct(self.b.flipped(), self.a.flipped(), self.c.flipped()) if self.c.transposed else self


class StackedProducts(NamedTuple, Generic[Array]):
    """``result`` is what the caller gets once the ``products`` are computed; ``begin`` runs before the first of them."""

    result: Array
    begin: InitialContent | None
    products: list[StackedProduct]


def stacked(array: Any) -> bool:
    """Whether an operand has more than two dimensions."""
    return getattr(array, "ndim", 2) > 2


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common batch shape of stacks with these batch shapes; raises ArgumentError if they cannot be broadcast."""
    counts = [shape[:-2] for shape in shapes]
    try:
        return np.broadcast_shapes(*counts)
    except ValueError:
        raise ArgumentError(f"stacks of {' and '.join(map(str, counts))} matrices cannot be broadcast together") from None


def products(call: StackedGemm[Array]) -> StackedProducts[Array]:
    """The products of all matrices of the stacks; ``c`` and ``out`` have the full batch shape. Raises ArgumentError if they do not fit."""
    stack_a, stack_b = _op(stack_of(call.a, "a"), call.trans[0], "trans_a"), _op(stack_of(call.b, "b"), call.trans[1], "trans_b")
    if stack_a.dtype != stack_b.dtype:
        raise ArgumentError(f"a is {stack_a.dtype} and b is {stack_b.dtype}; convert one of them")
    m, k = stack_a.shape[-2:]
    if k != stack_b.shape[-2]:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {stack_b.shape[-2]} x {stack_b.shape[-1]}: the inner dimensions differ")
    batch = broadcast(stack_a.shape, stack_b.shape)
    shape = (*batch, m, stack_b.shape[-1])
    c, beta = call.c, call.beta
    if c is None and beta != 0:
        raise ArgumentError(f"beta is {beta} but there is no c; pass c, or leave beta out")
    kind = result_type(stack_a.dtype, call.kind, call.out, c if beta != 0 else None)
    result = outputs.new(call.a, shape, None if kind == stack_a.dtype else kind) if call.out is None else call.out
    target = _checked_stack(result, shape, kind, "out")
    check_writable(result, "out")
    if 0 in shape:
        return StackedProducts(result, None, [])
    if overlaps_itself(target.shape, target.strides, target.dtype.itemsize):
        raise ArgumentError("out overlaps itself: several of its elements share memory; pass an array of its own")
    listed = [_product(views, call.trans) for views in batches(batch, (stack_a, stack_b, target))]
    begin = None
    if c is not None and beta != 0 and c is not result:
        begin = copying(_checked_stack(c, shape, kind, "c"), target)
    return StackedProducts(result, begin, listed)


def merged(product: StackedProduct) -> StackedProduct:
    """A stack ``a`` whose rows are evenly spaced across its matrices, times a single ``b``, as the product of two matrices."""
    a, b, c = product
    if c.number > 1 and b.step == 0 and not a.transposed and all(each.step == each.rows * each.stride for each in (a, c)):
        return StackedProduct(_tall(a), b._replace(array=b.array[0], number=1), _tall(c))
    return product


def stack_of(array: Any, name: str, types: tuple[str, ...] = FACTORS) -> _Stack:
    """The operand as a NumPy array or Buffer of at least two dimensions and one of the ``types``; raises ArgumentError for others."""
    if isinstance(array, np.ndarray):
        refuse_masks(array, name)
        stack: _Stack = array
    elif isinstance(array, Buffer) or is_cuda_array(array):
        stack = Buffer.wrap(array)
        check_alive(stack, name)
    else:
        raise matrices.unknown(array, name)
    if stack.ndim < 2:
        raise ArgumentError(f"{name} has shape {stack.shape}; it must be a matrix or a stack of them")
    check_dtype(stack.dtype, name, types)
    return stack


def _checked_stack(array: Any, shape: tuple[int, ...], kind: np.dtype[Any], name: str) -> _Stack:
    stack = stack_of(array, name, ALL)
    if stack.shape != shape or stack.dtype != kind:
        have = f"has shape {stack.shape} and dtype {stack.dtype}"
        raise ArgumentError(f"{name} {have}; it must have shape {shape} and dtype {kind}")
    return stack


def _op(array: _Stack, trans: str, name: str) -> _Stack:
    """Every matrix, transposed if ``trans`` says so."""
    if trans == "N":
        return array
    check_options((name, trans, "NTC"))
    *batch, rows, columns = array.shape
    *steps, down, along = array.strides
    return _view(array, (*batch, columns, rows), (*steps, along, down))


def _view(array: _Stack, shape: tuple[int, ...], strides: tuple[int, ...]) -> _Stack:
    """A view of the same memory with another shape and other strides, in bytes."""
    if isinstance(array, Buffer):
        return Buffer(array.memory, shape, array.dtype, strides, array.offset)
    return strided(array, shape, strides)


def copying(source: _Stack, target: _Stack, name: str = "c") -> InitialContent | None:
    """The copy of ``source`` into ``target``, which are NumPy arrays or packed Buffers; see ``outputs.copying``.

    Raises ArgumentError if they overlap without being the same, or a Buffer has gaps.
    """
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        if source.strides == target.strides and source.__array_interface__["data"] == target.__array_interface__["data"]:
            return None
        if np.may_share_memory(source, target):
            raise ArgumentError(f"out overlaps {name} without being {name}; pass out={name} or an array of its own")
        return InitialContent(target, source)
    rows = []
    for label, array in ((name, source), ("out", target)):
        if not is_packed(array):
            raise ArgumentError(f"{label} has gaps or another order in memory; pass out={name} to overwrite it, or packed Buffers")
        flat = _view(array, (prod(array.shape[:-1]), array.shape[-1]), packed((1, array.shape[-1]), array.dtype.itemsize))
        rows.append(matrices.matrix(flat, label, ALL))
    return outputs.copying(rows[0], rows[1], name)


def is_packed(array: _Stack) -> bool:
    """Whether the elements are stored without gaps, in C order."""
    return bool(array.strides == packed(array.shape, array.dtype.itemsize))


def batches(batch: tuple[int, ...], operands: Sequence[_Stack]) -> list[tuple[_Stack, ...]]:
    """The operands as three-dimensional arrays, evenly spaced along the first axis: batch dimensions are merged where all operands allow
    it, the longest remaining one becomes the first axis, and the others are split into separate calls.
    """
    sizes, steps = _merged(batch, [_broadcast(array, len(batch)) for array in operands])
    longest = _longest(sizes, steps, operands[-1])
    order = [place for place in range(len(sizes)) if place != longest]
    outer = tuple(sizes[place] for place in order)
    count = () if longest is None else (sizes[longest],)
    views = []
    for array, strides in zip(operands, steps, strict=True):
        inner = () if longest is None else (strides[longest],)
        views.append(_view(array, (*outer, *count, *array.shape[-2:]), (*(strides[place] for place in order), *inner, *array.strides[-2:])))
    if longest is None:
        return [tuple(_stack_of_one(view[index]) for view in views) for index in np.ndindex(*outer)]
    return [tuple(view[index] for view in views) for index in np.ndindex(*outer)] if outer else [tuple(views)]


def _stack_of_one(matrix: _Stack) -> _Stack:
    """A matrix as a stack of one."""
    return _view(matrix, (1, *matrix.shape), (0, *matrix.strides))


def _broadcast(array: _Stack, rank: int) -> tuple[int, ...]:
    """The strides along a batch of ``rank`` dimensions, 0 where the operand has one matrix for all."""
    own = array.shape[:-2]
    strides = tuple(0 if size == 1 else stride for size, stride in zip(own, array.strides, strict=False))
    return (0,) * (rank - len(own)) + strides


def _merged(batch: tuple[int, ...], steps: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Sizes and strides of the batch, with dimensions merged that are contiguous in every operand."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for place, size in enumerate(batch):
        if size == 1:
            continue
        if sizes and all(own[-1] == size * strides[place] for own, strides in zip(merged, steps, strict=True)):
            sizes[-1] *= size
            for own, strides in zip(merged, steps, strict=True):
                own[-1] = strides[place]
        else:
            sizes.append(size)
            for own, strides in zip(merged, steps, strict=True):
                own.append(strides[place])
    return sizes, merged


def _longest(sizes: list[int], steps: list[list[int]], target: _Stack) -> int | None:
    """The longest dimension that one launch can process: strides are whole elements, not negative, and results do not overlap."""
    itemsize = target.dtype.itemsize
    extents = sorted(zip(target.strides[-2:], target.shape[-2:], strict=True))
    fitting = []
    for place, size in enumerate(sizes):
        forward = all(strides[place] >= 0 and strides[place] % itemsize == 0 for strides in steps)
        axes = sorted([*extents, (steps[-1][place], size)])
        disjoint = axes[0][0] > 0 and all(inner[0] * (inner[1] - 1) < outer[0] for inner, outer in pairwise(axes))
        if forward and disjoint:
            fitting.append((size, place))
    return max(fitting)[1] if fitting else None


def _product(views: tuple[_Stack, ...], trans: tuple[str, str]) -> StackedProduct:
    a, b, c = (matrices.stack(view, name) for view, name in zip(views, ("a", "b", "out"), strict=True))
    a, b = conjugate(a, trans[0]), conjugate(b, trans[1])
    outputs.check_apart(c, a, "a")
    outputs.check_apart(c, b, "b")
    return StackedProduct(a, b, c)


def _tall(stack: Matrix) -> Matrix:
    """A stack whose rows are evenly spaced across its matrices, as one matrix."""
    size = stack.array.dtype.itemsize
    rows = stack.number * stack.rows
    array = stack.array if stack.on_device else _view(stack.array, (rows, stack.columns), (stack.stride * size, size))
    return stack._replace(array=array, rows=rows, number=1, step=0)
