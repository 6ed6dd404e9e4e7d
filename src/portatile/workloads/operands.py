"""Operands in memory: views by Layout, random content with NaN as padding, expected content, rounding bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.dtypes import ELEMENTS, strided
from portatile.errors import ArgumentError
from portatile.records import Layout, Problem
from portatile.workload import Expected, Operands, Workload, packed_layout

_NO_RESULT = 85  # marks integers that no kernel writes, as NaN marks floats


def view(memory: NDArray[Any], layout: Layout, shape: Sequence[int]) -> NDArray[Any]:
    """The operand of ``shape`` inside its one-dimensional ``memory``; writing to the view writes to the memory.

    Raises ArgumentError if the memory is too short for the layout.
    """
    shape = tuple(shape)
    if 0 in shape:
        return np.empty(shape, memory.dtype)
    need = layout.extent(shape)
    if memory.ndim != 1 or memory.size < need:
        raise ArgumentError(f"an operand of shape {shape} needs {need} elements of memory, got an array of shape {memory.shape}")
    return strided(memory[layout.offset :], shape, tuple(s * memory.itemsize for s in layout.strides))


def storage(layout: Layout, shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """Memory just large enough for an operand of the element type ``dtype``, at least one element; every element is NaN.

    Integers, which have no NaN, are a number that no result of a test equals.
    """
    kind = ELEMENTS[dtype].numpy
    nothing = _NO_RESULT if kind.kind == "i" else complex(np.nan, np.nan) if kind.kind == "c" else np.nan
    return np.full(max(layout.extent(tuple(shape)), 1), nothing, kind)


def random(rng: np.random.Generator, layout: Layout, shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """Memory of an operand with random values: uniform in [-0.5, 0.5), or integers of the full range; elements
    outside the layout are NaN.
    """
    memory = storage(layout, shape, dtype)
    if 0 not in tuple(shape):
        view(memory, layout, shape)[...] = _drawn(rng, tuple(shape), dtype)
    return memory


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Random values in the element type, or in one that NumPy converts to it."""
    kind = ELEMENTS[dtype].numpy
    if kind.kind == "i":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
    real = np.float64 if kind.itemsize // ELEMENTS[dtype].components == 8 else np.float32
    values: NDArray[Any] = rng.random(shape, dtype=real) - real(0.5)
    return values if kind.kind != "c" else values + 1j * (rng.random(shape, dtype=real) - real(0.5))


def drawn(workload: Workload, problem: Problem, rng: np.random.Generator) -> Operands:
    """``random`` memory for each operand that is read, and ``storage`` for each that is only written."""
    shapes, arrays = workload.shapes(problem), {}
    for operand in workload.operands_of(problem.options):
        place = problem.layout[operand.name], shapes[operand.name], problem.dtype
        arrays[operand.name] = storage(*place) if operand.role == "out" else random(rng, *place)
    return arrays


def padded(shape: Sequence[int], pad: int = 0, offset: int = 0, alignment: int = 128) -> Layout:
    """A row-major layout with ``pad`` unused elements after each row, ``offset`` elements into the memory."""
    shape = tuple(shape)
    strides = packed_layout((*shape[:-1], shape[-1] + pad)).strides
    return Layout(strides, offset, alignment)


def padded_problems(workload: Workload, like: Problem, cases: Sequence[tuple[Sequence[int], int, int]]) -> list[Problem]:
    """Problems with the dtype and options of ``like``. A case gives the sizes in the workload's order, and ``pad`` and ``offset`` of all
    operands.
    """
    problems = []
    for numbers, pad, offset in cases:
        sizes = dict(zip(workload.sizes, numbers, strict=True))
        bare = workload.problem(sizes, like.dtype, like.options)
        layout = {name: padded(shape, pad, offset) for name, shape in workload.shapes(bare).items()}
        problems.append(workload.problem(sizes, like.dtype, like.options, layout))
    return problems


def places(layout: Layout, *coordinates: NDArray[Any]) -> NDArray[np.int64]:
    """The places in memory of the elements at ``coordinates`` (one array per axis, broadcast)."""
    index: NDArray[np.int64] = np.asarray(layout.offset, np.int64)
    for axis, stride in zip(coordinates, layout.strides, strict=True):
        index = index + np.asarray(axis, np.int64) * stride
    return index


def lines(rng: np.random.Generator, length: int, count: int) -> NDArray[np.int64]:
    """At most ``count`` different indices below ``length`` in ascending order, among them the first and the last."""
    if length <= count:
        return np.arange(length, dtype=np.int64)
    chosen = rng.choice(length, count, replace=False)
    chosen[:2] = 0, length - 1
    return np.unique(chosen).astype(np.int64)


def whole(memory: NDArray[Any], layout: Layout, values: NDArray[Any], scale: NDArray[Any]) -> Expected:
    """The expectation of an output that is checked everywhere: ``values`` in the operand, and the padding of ``memory`` unchanged."""
    expected, magnitude = wide(memory), np.zeros(memory.size, np.float64)
    if values.size:
        view(expected, layout, values.shape)[...] = values
        view(magnitude, layout, values.shape)[...] = scale
    return Expected(expected, magnitude)


def wide(array: NDArray[Any]) -> NDArray[Any]:
    """The values in float64, or in complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def unit_roundoff(dtype: str) -> float:
    """Half the distance from 1 to the next number of ``dtype``; 0 for integers."""
    return ELEMENTS[dtype].unit if dtype in ELEMENTS else 0.0


def gamma(n: float, dtype: str) -> float:
    """gamma_n = n u / (1 - n u) of Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1; infinite if n u >= 1."""
    product = n * unit_roundoff(dtype)
    return product / (1 - product) if product < 1 else float("inf")
