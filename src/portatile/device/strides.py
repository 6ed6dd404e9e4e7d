"""Strides of arrays: reshaping without a copy, and the contiguous runs of an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from portatile.errors import ArgumentError

_COUNTED = 2**20  # elements whose offsets are compared one by one


class CopiedRows(NamedTuple):
    """``number`` rows of ``nbytes`` each in two memories: the byte offset of the first row and the bytes from row to row, in each."""

    number: int
    nbytes: int
    target_offset: int
    target_step: int
    source_offset: int
    source_step: int


def checked_sizes(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of non-negative integers; raises ArgumentError for anything else."""
    try:
        sizes = tuple(index(n) for n in shape)
    except TypeError:
        raise ArgumentError(f"shape={shape!r} must be a tuple of whole numbers") from None
    if min(sizes, default=0) < 0:
        raise ArgumentError(f"shape {sizes} has a negative size")
    return sizes


@lru_cache(4096)
def span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The range of bytes that the elements occupy, relative to the first element: the first byte, and one past the last."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + itemsize


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether two elements share memory; assumed for large arrays whose dimensions are not nested within each other."""
    if 0 in shape:
        return False
    dimensions = sorted((abs(stride), size) for stride, size in zip(strides, shape, strict=True) if size > 1)
    reach, nested = itemsize, True
    for stride, size in dimensions:
        nested = nested and stride >= reach
        reach += stride * (size - 1)
    if nested or any(stride == 0 for stride, _ in dimensions):
        return not nested
    if prod(shape) > _COUNTED:
        return True
    places = np.zeros(1, np.int64)
    for stride, size in dimensions:
        places = np.add.outer(places, np.arange(size, dtype=np.int64) * stride).ravel()
    return bool(np.diff(np.sort(places)).min(initial=reach) < itemsize)


def wanted_shape(dimensions: tuple[Any, ...], size: int) -> tuple[int, ...]:
    """The shape that the arguments of ``reshape`` mean for ``size`` elements: a tuple or numbers, one of which may be -1.

    Raises ArgumentError for a shape of another size.
    """
    sizes = dimensions[0] if len(dimensions) == 1 and isinstance(dimensions[0], Sequence) else dimensions
    try:
        shape = [index(n) for n in sizes]
    except TypeError:
        raise ArgumentError(f"reshape{dimensions} takes whole numbers, or a tuple of them") from None
    if shape.count(-1) == 1:
        others = prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = size // others if others > 0 else 0
    if min(shape, default=0) < 0 or prod(shape) != size:
        raise ArgumentError(f"{size} elements do not have the shape {tuple(sizes)}")
    return tuple(shape)


def reshaped(shape: tuple[int, ...], strides: tuple[int, ...], new_shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The strides of the same elements, in C order, with the shape ``new_shape``; None if that needs a copy.

    Both shapes are split into the shortest groups of dimensions with equal numbers of elements; the dimensions of a group must be
    contiguous.
    """
    if 0 in shape:
        return (itemsize,) * len(new_shape)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result = [itemsize] * len(new_shape)
    first, new = 0, 0  # dimensions of the current group
    while first < len(old):
        last, end, have, want = first + 1, new + 1, old[first][0], new_shape[new]
        while have != want:
            if want < have:
                want, end = want * new_shape[end], end + 1
            else:
                have, last = have * old[last][0], last + 1
        if any(step != size * below for (_, step), (size, below) in pairwise(old[first:last])):
            return None
        step = old[last - 1][1]
        for place in range(end - 1, new - 1, -1):
            result[place] = step
            step *= new_shape[place]
        first, new = last, end
    return tuple(result)


def runs(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The contiguous runs of an array in C order: bytes of each run, and the shape and strides (in bytes) of the grid of runs."""
    run, outer = itemsize, len(shape)
    while outer and (shape[outer - 1] == 1 or strides[outer - 1] == run):
        run *= shape[outer - 1]
        outer -= 1
    return run, shape[:outer], strides[:outer]


def places(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[int]:
    """The byte offset of each run from the first, in C order."""
    for where in np.ndindex(*sizes):
        yield sum(at * stride for at, stride in zip(where, strides, strict=True))
