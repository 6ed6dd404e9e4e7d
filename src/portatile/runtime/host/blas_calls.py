"""Level-3 BLAS calls on NumPy arrays, prepared once for all arrays of the same layout, which is read in row- or column-major order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import c_void_p
from functools import lru_cache, partial
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.arguments.letters import OTHER
from portatile.device.copies import address, pointer
from portatile.runtime.host import blas
from portatile.runtime.host.host_calls import Compute
from portatile.runtime.host.numpy_products import silently

_NAMES = {"triangular": "trsm", "trmm": "trmm", "symm": "symm", "syrk": "syrk", "syr2k": "syr2k"}
"""The workloads that BLAS has a routine for, and the name of that routine."""
UPDATES: Mapping[str, int] = {"syrk": 1, "syr2k": 2}
"""The workloads that update one triangle, and the number of factor matrices that each takes."""
_OF_VECTORS = {"triangular": "trsv", "trmm": "trmv"}
"""The level-2 routine for a single right-hand side."""
_TRIANGULAR = tuple(_OF_VECTORS)
_OTHER_TRANS = {"N": "T", "T": "N"}

_Array = NDArray[Any]


def known(workload: str, dtype: np.dtype[Any]) -> bool:
    """Whether BLAS has a routine for this workload and dtype."""
    return workload in _NAMES and blas.routine(_NAMES[workload], dtype) is not None


class _BlasOperand(NamedTuple):
    """How BLAS reads an operand: its leading dimension, whether it sees the transpose, and a function that copies it first, or None."""

    leading: int
    transposed: bool = False
    copy: Callable[[_Array], _Array] | None = None


def _leading(array: _Array, by_rows: bool) -> int:
    """The leading dimension of a row-major (``by_rows``) or column-major matrix; 0 if the matrix has another layout."""
    (lines, length), (step, unit) = (array.shape, array.strides) if by_rows else (array.shape[::-1], array.strides[::-1])
    item = array.itemsize
    if length > 1 and unit != item:
        return 0
    if lines == 1:
        return int(max(1, length))
    return int(step // item) if step % item == 0 and step >= length * item else 0


def _read(array: _Array, by_rows: bool, transposable: bool, conjugated: bool = False) -> _BlasOperand:
    """How BLAS reads an operand when the output is row-major (``by_rows``) or column-major: in place where possible, else as a copy."""
    if not conjugated:
        if leading := _leading(array, by_rows):
            return _BlasOperand(leading)
        if transposable and (leading := _leading(array, not by_rows)):
            return _BlasOperand(leading, True)
    copy = np.conjugate if conjugated else np.array
    return _BlasOperand(max(1, array.shape[by_rows]), False, partial(copy, order="C" if by_rows else "F"))


class _CallLayout(NamedTuple):
    """The part of a BLAS call that follows from the layout of its arrays: option letters, sizes, and how each operand is read."""

    letters: Mapping[str, str]
    lengths: tuple[int, ...]
    read: tuple[_BlasOperand, ...]


def _triangular(arrays: Sequence[_Array], options: tuple[Any, ...], by_rows: bool, shape: tuple[int, ...]) -> _CallLayout:
    a, (side, uplo, trans, diag, _) = arrays[0], options
    if a.dtype.kind != "c" and trans == "C":
        trans = "T"
    read = _read(a, by_rows, trans != "C")
    if read.transposed:
        uplo, trans = OTHER[uplo], _OTHER_TRANS[trans]
    return _CallLayout({"side": side, "uplo": uplo, "trans": trans, "diag": diag}, shape, (read,))


def _symmetric(arrays: Sequence[_Array], options: tuple[Any, ...], by_rows: bool, shape: tuple[int, ...]) -> _CallLayout:
    (a, b, *_), (side, uplo, mirror, _) = arrays, options
    read = _read(a, by_rows, mirror == "T" or a.dtype.kind != "c")
    if read.transposed:
        uplo = OTHER[uplo]
    return _CallLayout({"side": side, "uplo": uplo}, shape, (read, _read(b, by_rows, False)))


def _update(count: int, arrays: Sequence[_Array], options: tuple[Any, ...], by_rows: bool, shape: tuple[int, ...]) -> _CallLayout:
    factors, (uplo, trans, mirror, _) = arrays[:count], options
    k = factors[0].shape[trans == "N"]
    conjugated = False
    if factors[0].dtype.kind != "c":
        trans, mirror = "T" if trans == "C" else trans, "T"
    elif trans not in ("N", mirror):  # BLAS accepts both letters like the routine; conjugated operands need the other one
        trans, conjugated = mirror, True
    read = [_read(factor, by_rows, mirror == "T", conjugated) for factor in factors]
    if len({one.transposed for one in read}) > 1:
        read = [_read(factor, by_rows, False, conjugated) for factor in factors]
    if read[0].transposed:
        trans = _OTHER_TRANS[trans]
    return _CallLayout({"uplo": uplo, "trans": trans}, (shape[0], k), tuple(read))


_DESCRIBED: Mapping[str, Callable[..., _CallLayout]] = {
    **dict.fromkeys(_TRIANGULAR, _triangular),
    "symm": _symmetric,
    **{name: partial(_update, count) for name, count in UPDATES.items()},
}


class _BlasCall(NamedTuple):
    """A BLAS call for arrays of one layout: its function and all arguments except operands and scalar factors."""

    function: Callable[..., None]
    first: tuple[Any, ...]
    scalars: tuple[Callable[[complex], Any], ...]
    """Converters to C arguments: of alpha, and of beta if the routine has one."""
    read: tuple[tuple[Any, Callable[[_Array], _Array] | None], ...]
    """Of each operand, the leading dimension and the function that copies it first, or None."""
    leading: Any
    """The leading dimension of the output."""
    in_place: bool
    """Whether BLAS writes directly into the output array."""


def _blas_call(workload: str, arrays: Sequence[Any], options: tuple[Any, ...], result: _Array) -> _BlasCall:
    by_rows = bool(_leading(result, True) or not _leading(result, False))
    own = _leading(result, by_rows)
    described = _DESCRIBED[workload](arrays, options, by_rows, result.shape)
    sums, name = workload not in _TRIANGULAR, _NAMES[workload]
    if sums and options[2] == "C":
        name = name.replace("sy", "he", 1)
    routine = blas.routine(name, result.dtype)
    assert routine is not None
    first = *blas.numbers(order="C" if by_rows else "F", **described.letters), *map(routine.length, described.lengths)
    read = tuple((routine.length(one.leading), one.copy) for one in described.read)
    leading = routine.length(own or max(1, result.shape[by_rows]))
    return _BlasCall(routine.function, first, (routine.alpha, routine.beta)[: 1 + sums], read, leading, own > 0)


def prepared(
    workload: str, arrays: Sequence[Any], factors: tuple[Any, ...], options: tuple[Any, ...], result: _Array, fresh: bool
) -> Compute:
    """A function that computes calls of arrays with this layout, where the same factors are 0. ``fresh``: ``result`` is a new array."""
    begin = _initialiser(workload, arrays, factors, options, result, fresh)
    if factors[0] == 0:
        return begin
    if (
        workload in _TRIANGULAR
        and result.shape[options[0] == "L"] == 1
        and (of_vector := _vector_call(workload, arrays[0], options, result))
    ):
        return lambda arrays, factors: of_vector(begin, arrays, factors)
    function, first, (alpha, *betas), read, leading, in_place = _blas_call(workload, arrays, options, result)
    places = tuple((at, *how) for at, how in enumerate(read))

    def compute(arrays: Sequence[Any], factors: tuple[Any, ...]) -> None:
        begin(arrays, factors)
        target = arrays[-1] if in_place else np.array(arrays[-1], order="C")
        operands: list[Any] = []
        copies: list[_Array] = []
        for at, lead, copy in places:
            operand = arrays[at]
            if copy is not None:
                operand = copy(operand)
                copies.append(operand)  # keeps the copy alive while BLAS reads it
            operands += (pointer(operand), lead)
        for beta in betas:
            operands.append(beta(factors[1]))
        function(*first, alpha(factors[0]), *operands, pointer(target), leading)
        if not in_place:
            arrays[-1][...] = target

    return compute


def prepared_stack(
    workload: str, arrays: Sequence[Any], factors: tuple[Any, ...], options: tuple[Any, ...], result: _Array, fresh: bool
) -> Compute | None:
    """As ``prepared`` for stacks, one BLAS call per matrix; None where matrices are not evenly spaced or BLAS would need copies."""
    steps = [_matrix_step(array, result.shape[:-2]) for array in (*arrays, result)]
    if factors[0] == 0 or None in steps:
        return None
    begin = _initialiser(workload, arrays, factors, options, result, fresh)
    matrices = [array[(0,) * (array.ndim - 2)] for array in (*arrays, result)]
    function, first, (alpha, *betas), read, leading, in_place = _blas_call(workload, matrices[:-1], options, matrices[-1])
    if not in_place or any(copy is not None for _, copy in read):
        return None
    number = prod(result.shape[:-2])

    def compute(arrays: Sequence[Any], factors: tuple[Any, ...]) -> None:
        begin(arrays, factors)
        operands: list[Iterable[Any]] = []
        for at, (lead, _) in enumerate(read):
            operands += (_pointers(arrays[at], steps[at], number), repeat(lead))
        for beta in betas:
            operands.append(repeat(beta(factors[1])))
        arguments = *map(repeat, first), repeat(alpha(factors[0])), *operands, _pointers(arrays[-1], steps[-1], number), repeat(leading)
        for each in zip(*arguments, strict=False):
            function(*each)

    return compute


def _matrix_step(array: _Array, batch: tuple[int, ...]) -> int | None:
    """Bytes from one matrix of a stack to the next, 0 for a single matrix in place of a stack; None where the spacing varies."""
    if array.ndim == 2:
        return 0
    if array.shape[:-2] != batch:
        return None
    strides = array.strides[:-2]
    even = all(outer == inner * size for outer, inner, size in zip(strides, strides[1:], batch[1:], strict=False))
    return strides[-1] if even else None


def _pointers(array: _Array, step: int | None, number: int) -> Iterable[c_void_p]:
    """The addresses of the matrices of a stack."""
    if not step:
        return repeat(pointer(array), number)
    place = address(array)
    return map(c_void_p, range(place, place + number * step, step))


def _vector_call(workload: str, a: _Array, options: tuple[Any, ...], result: _Array) -> Callable[..., None] | None:
    """A function that solves for, or multiplies, a single column (side L) or row; None where BLAS would need copies of the operands.

    The routines for matrices copy the triangle first, which takes longer than the computation on a single vector.
    """
    side, uplo, trans, diag, _ = options
    routine = blas.routine(_OF_VECTORS[workload], result.dtype)
    step = result.strides[side == "R"]
    leading = _leading(a, True)
    if routine is None or not leading or step <= 0 or step % result.itemsize or (side == "R" and trans == "C" and a.dtype.kind == "c"):
        return None
    if side == "R":  # a row times a matrix is the transposed matrix times a column
        trans = "T" if trans == "N" else "N"
    first = *blas.numbers(order="C", uplo=uplo, trans=trans, diag=diag), routine.length(len(a))
    lead, increment, function = routine.length(leading), routine.length(step // result.itemsize), routine.function

    def compute(begin: Compute, arrays: Sequence[Any], factors: tuple[Any, ...]) -> None:
        begin(arrays, factors)
        if factors[0] != 1:
            silently(np.multiply, arrays[-1], arrays[-1].dtype.type(factors[0]), arrays[-1])
        function(*first, pointer(arrays[0]), lead, pointer(arrays[-1]), increment)

    return compute


def _initialiser(
    workload: str, arrays: Sequence[Any], factors: tuple[Any, ...], options: tuple[Any, ...], result: _Array, fresh: bool
) -> Compute:
    """A function that initialises the output: with the values that BLAS reads from it, or, where alpha is 0, with the final result."""
    if workload in _TRIANGULAR:
        if factors[0] == 0:
            return lambda arrays, factors: arrays[-1].fill(0)
        return _nothing if result is arrays[1] else lambda arrays, factors: np.copyto(arrays[-1], arrays[1])
    at = UPDATES.get(workload, 2)  # the position of c among the arrays
    count = None if factors[1] == 0 else at
    same = count is not None and result is arrays[at]
    if workload not in UPDATES:
        if factors[0] == 0:
            return partial(_write_scaled_c, count, None, False)
        return _nothing if same or count is None else lambda arrays, factors: np.copyto(arrays[-1], arrays[at])
    triangle = _mask(result.shape[-1], options[0])
    if factors[0] == 0:
        return partial(_write_scaled_c, count, triangle, options[2] == "C", fresh=fresh)
    if same or (count is None and not fresh):
        return _nothing
    if count is None:
        return lambda arrays, factors: arrays[-1].fill(0)
    return lambda arrays, factors: np.copyto(arrays[-1], arrays[at], where=True if fresh else triangle)


def _nothing(arrays: Sequence[Any], factors: tuple[Any, ...]) -> None:
    """Initialise nothing: the output already holds the right values, or none of them is read."""


def _write_scaled_c(
    at: int | None, triangle: _Array | None, real_diagonal: bool, arrays: Sequence[Any], factors: tuple[Any, ...], fresh: bool = False
) -> None:
    """Write ``beta c`` into a triangle of the output, or into all of it; ``at`` is the position of ``c``, None where beta is 0."""
    result = arrays[-1]
    values = np.zeros_like(result) if at is None else silently(np.multiply, arrays[at], result.dtype.type(factors[1]))
    if real_diagonal and result.dtype.kind == "c":
        np.fill_diagonal(values, values.diagonal().real)
    if fresh:
        result[...] = 0 if at is None else arrays[at]
    np.copyto(result, values, where=True if triangle is None else triangle)


@lru_cache(maxsize=32)
def _mask(order: int, uplo: str) -> _Array:
    """A boolean mask of one triangle of a square. ``numpy.tril`` builds it anew in each call, which takes most of that function's time."""
    lower = np.tri(order, dtype=bool)
    return lower if uplo == "L" else lower.T
