"""The rules of ``numpy.matmul`` beyond matrices that kernels read directly: vectors, any strides, lists, mixed dtypes, casts to ``out``.

Arrays are converted within their own library and memory. What cannot be converted is passed on, and refused with advice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from portatile.arguments import axes, matrices, stacks
from portatile.arguments.checks import FACTORS, check_dtype, check_writable
from portatile.arguments.converters import Converter, converter_of
from portatile.arguments.promotion import multiplied_in
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.masked_arrays import refuse_masks
from portatile.device.strides import overlaps_itself
from portatile.dtypes import RESULTS, name_of
from portatile.errors import ArgumentError, CastError


class Conversion(NamedTuple):
    """Operands and output in a form that kernels read, and a function that turns the kernels' result into the caller's."""

    arrays: tuple[Any, Any]
    out: Any
    finish: Callable[[Any], Any]


class _Shapes(NamedTuple):
    """The shape of a result as matrices (``whole``), and as the caller gets it (``given``): without the dimensions that vectors lack.

    ``view`` is the index that turns the latter into the former; ``core`` counts the dimensions that belong to a matrix or vector.
    """

    whole: tuple[int, ...]
    given: tuple[int, ...]
    view: tuple[Any, ...]
    core: int


def product(a: Any, b: Any, out: Any, dtype_name: str | None = None) -> Conversion | None:
    """The operands of ``matmul(a, b, out)`` as matrices or stacks that kernels read; None if they are such already.

    ``dtype_name`` is the dtype of the result, if the caller gave one. Raises ArgumentError for shapes that do not fit, and for an ``out``
    to which the result cannot be cast.
    """
    target = _single_output(out)
    array_a, array_b = _array(a, "a"), _array(b, "b")
    library = _library(array_a, array_b, target)
    result_name = dtype_name or (None if library is None or target is None else _name(library.dtype(target)))
    dtype = None if library is None else multiplied_in(library.dtype(array_a), library.dtype(array_b), result_name, dtype_name is not None)
    if dtype is None and library is not None:
        _check_operands(library, array_a, array_b)
    if library is None or dtype is None:  # the routine accepts or refuses them
        return None if array_a is a and array_b is b and target is out else Conversion((array_a, array_b), target, _unchanged)
    shapes = _shapes(tuple(array_a.shape), tuple(array_b.shape))
    first, second = (_readable(library, array, dtype) for array in (array_a, array_b))
    first = first[None, :] if first.ndim == 1 else first
    second = second[:, None] if second.ndim == 1 else second
    if target is None:
        if first is a and second is b:
            return None
        return Conversion((first, second), None, _unchanged if shapes.core == 2 else lambda result: library.shaped(result, shapes.given))
    _check_out(library, target, shapes, (array_a, array_b), dtype)
    view = target if shapes.core == 2 else target[shapes.view]
    results = (dtype_name,) if dtype_name else RESULTS[name_of(dtype)]
    if _name(library.dtype(view)) in results and _writable_in_place(library, view, shapes.whole, (first, second)):
        if first is a and second is b and view is out:
            return None
        return Conversion((first, second), view, lambda _: target)
    return Conversion((first, second), None, lambda result: library.put(target, result.reshape(shapes.given)))


def _name(dtype: np.dtype[Any] | None) -> str:
    return "" if dtype is None else name_of(dtype)


def _check_operands(library: Converter, a: Any, b: Any) -> None:
    """Raise ArgumentError for the first operand, if any, whose dtype cannot be multiplied."""
    for name, array in (("a", a), ("b", b)):
        dtype = library.dtype(array)
        if dtype is not None and multiplied_in(dtype, dtype) is None:
            check_dtype(dtype, name, FACTORS)


def _unchanged(result: Any) -> Any:
    return result


def _single_output(out: Any) -> Any:
    """The single output of a tuple, which NumPy's functions accept."""
    if not isinstance(out, tuple):
        return out
    if len(out) != 1:
        raise ArgumentError(f"out is a tuple of {len(out)} arrays; matmul has one result")
    return out[0]


def _array(value: Any, name: str) -> Any:
    """``value`` as an array: NumPy converts lists, tuples, and objects with ``__array__`` or the buffer protocol; arrays stay unchanged."""
    refuse_masks(value, name)
    if isinstance(value, (np.ndarray, Buffer)) or is_cuda_array(value):
        return value
    by_numpy = isinstance(value, (list, tuple, memoryview)) or type(value).__module__ == "array"
    if not by_numpy and not hasattr(value, "__array__") and not hasattr(value, "__array_interface__"):
        return value
    try:
        return axes.numbers(value, name)
    except (TypeError, RuntimeError) as error:  # for example an array of another library that is not on the host
        raise ArgumentError(f"{name} is a {type(value).__name__} that NumPy cannot read: {error}") from None


def _kind(array: Any) -> str:
    return "a NumPy array" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"


def _library(a: Any, b: Any, out: Any) -> Converter | None:
    """The library that all arrays belong to; None if one is of an unknown type. Raises ArgumentError where they differ."""
    converters = [converter_of(a), converter_of(b)]
    if None in converters:
        return None
    kinds = f"a is {_kind(a)}, b {_kind(b)}"
    if out is not None:
        converters.append(converter_of(out))
        kinds += f", out {_kind(out)}"
        if converters[-1] is None:
            raise matrices.unknown(out, "out")
    if any(converter is not converters[0] for converter in converters):
        if not any(isinstance(array, np.ndarray) for array in (a, b, out)):
            raise ArgumentError(f"the arrays are of different libraries ({kinds}); Buffer.wrap shows another library's, without a copy")
        raise ArgumentError(f"the arrays lie in different places ({kinds}); move them to one, by Buffer.from_numpy or .numpy()")
    return converters[0]


def _shapes(a: tuple[int, ...], b: tuple[int, ...]) -> _Shapes:
    """The shape of the product of arrays of two shapes; raises ArgumentError where they do not fit."""
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ArgumentError(f"{name} has no dimensions; matmul takes vectors, matrices and stacks of matrices: use * for scalars")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ArgumentError(f"a has shape {a} and b has shape {b}: the inner dimensions differ, {a[-1]} and {inner}")
    batch = stacks.broadcast(a, b)
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    view = (..., slice(None) if rows else None, slice(None) if columns else None)
    return _Shapes((*batch, *(rows or (1,)), *(columns or (1,))), (*batch, *rows, *columns), view, len(rows) + len(columns))


def _readable(library: Converter, array: Any, dtype: np.dtype[Any]) -> Any:
    """The array, or a copy that kernels can read."""
    if library.dtype(array) == dtype and library.aligned(array) and _readable_in_place(library, array):
        return array
    return library.packed(array, dtype)


def _readable_in_place(library: Converter, array: Any) -> bool:
    """Whether kernels can read each matrix of the array, or the vector, in place."""
    kind = library.dtype(array)
    if kind is None:
        return False
    shape, strides, size = tuple(array.shape[-2:]), library.strides(array)[-2:], kind.itemsize
    if len(shape) == 1:  # as a matrix of one column
        shape, strides = (*shape, 1), (*strides, size)
    return matrices.form(shape, strides, size) is not None


def _check_out(library: Converter, out: Any, shapes: _Shapes, operands: tuple[Any, Any], dtype: np.dtype[Any]) -> None:
    """Raise ArgumentError for an output that is read-only, has another shape, or has a dtype to which NumPy does not cast the result."""
    check_writable(out, "out")
    refuse_masks(out, "out")
    have, shape = tuple(out.shape), shapes.given
    if have != shape and not (isinstance(out, np.ndarray) and _broadcasts_result(have, shapes)):
        raise ArgumentError(f"out has shape {have} and dtype {out.dtype}; it must have shape {shape}: an output is non-broadcastable")
    kind, result = library.dtype(out), np.result_type(*(library.dtype(array) for array in operands))
    if kind is not None and overlaps_itself(have, library.strides(out), kind.itemsize):
        raise ArgumentError("out overlaps itself: several of its elements share memory; pass an array of its own")
    if _name(kind) in RESULTS[name_of(dtype)]:
        return
    if kind is None or not np.can_cast(result, kind, "same_kind"):
        raise CastError(f"out has dtype {out.dtype}; results of {result} are not cast to that: pass another array for the result")


def _broadcasts_result(have: tuple[int, ...], shapes: _Shapes) -> bool:
    """Whether an output takes the result several times, as NumPy allows by broadcasting outputs."""
    count, core = len(have) - shapes.core, len(shapes.given) - shapes.core
    if count < core or have[count:] != shapes.given[core:]:
        return False
    batch = zip(have[count - core : count], shapes.given[:core], strict=True)
    return all(size in (own, 1) for own, size in batch)


def _writable_in_place(library: Converter, out: Any, shape: tuple[int, ...], operands: tuple[Any, Any]) -> bool:
    """Whether kernels can write the result directly into the output."""
    if tuple(out.shape) != shape or not library.aligned(out) or not _readable_in_place(library, out):
        return False
    return not isinstance(out, np.ndarray) or not any(np.may_share_memory(out, operand) for operand in operands)
