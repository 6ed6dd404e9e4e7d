"""The OpenCL C types of array elements, numbers, vectors and structures, and checks that a user's values have these types."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError
from portatile.records import ELEMENT, SCALARS

_DTYPES = frozenset({*SCALARS.values(), "complex64", "complex128"})


def check_elements(dtype: np.dtype[Any], name: str, declared: str) -> None:
    """Raise ArgumentError if elements of ``dtype`` do not match a pointer to ``declared``."""
    if dtype.names is not None:
        _check_structure(dtype, name, declared)
        return
    if dtype.name not in _DTYPES or not dtype.isnative:
        raise ArgumentError(f"argument {name} has dtype {dtype}, for which OpenCL C has no type; it has {', '.join(sorted(_DTYPES))}")
    known = ELEMENT.fullmatch(declared)
    wanted = SCALARS[known[1]] if known else None
    if wanted is not None and real(dtype).name != wanted:
        raise ArgumentError(f"argument {name} has dtype {dtype}, but the kernel declares {declared}*: pass {name}.astype('{wanted}')")


def _check_structure(dtype: np.dtype[Any], name: str, declared: str) -> None:
    """Raise ArgumentError for a structured dtype whose layout differs from C's, or that is passed for a pointer to numbers."""
    if ELEMENT.fullmatch(declared):
        raise ArgumentError(f"argument {name} has dtype {dtype}, but the kernel declares {declared}*: pass one of its fields, as a copy")
    assert dtype.fields is not None
    members = {member: field[0] for member, field in dtype.fields.items()}
    for member, kind in members.items():
        if kind.names is None:
            check_elements(kind.base, f"{name}[{member!r}]", "")
    if not _as_in_c(dtype):
        raise ArgumentError(
            f"argument {name} has dtype {dtype}, whose members C lays out in another way: make it by numpy.dtype(..., align=True); "
            "vectors such as float2 begin at multiples of their size, in a structure that is a multiple of it"
        )


def _as_in_c(dtype: np.dtype[Any]) -> bool:
    """Whether a structure of these members may lie so in C: members of two to sixteen numbers are arrays there, or vectors."""
    assert dtype.fields is not None
    assert dtype.names is not None
    reached = {(0, 1)}  # where the next member may begin, and the largest alignment of those before it
    for kind, offset, *_ in map(dtype.fields.__getitem__, dtype.names):
        reached = {
            (offset + size, max(largest, alignment))
            for end, largest in reached
            for size, alignment in _sizes_and_alignments(kind)
            if offset == _rounded_up(end, alignment)
        }
    return any(dtype.itemsize == _rounded_up(end, largest) for end, largest in reached)


def _sizes_and_alignments(kind: np.dtype[Any]) -> Iterator[tuple[int, int]]:
    """The sizes and alignments that a member may have in C, in bytes."""
    yield kind.itemsize, kind.alignment
    numbers = math.prod(kind.shape) * (2 if kind.base.kind == "c" else 1)
    if kind.base.names is None and len(kind.shape) < 2 and numbers in (2, 3, 4, 8, 16):
        size = kind.itemsize // numbers * (4 if numbers == 3 else numbers)
        yield size, size


def _rounded_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def width(declared: str) -> int:
    """The numbers in an element of a type: 4 for ``float4`` and ``float3``, 1 for a structure."""
    known = ELEMENT.fullmatch(declared)
    count = known[2] if known else None
    return 4 if count == "3" else int(count or 1)


def scalar(value: Any, name: str, dtype: str) -> int | float:
    """``value`` as a number of ``dtype``; raises ArgumentError if it is not a number or out of range."""
    kind = np.dtype(dtype)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        number = operator.index(value) if kind.kind in "iu" else float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"argument {name} is {value!r}; the kernel takes one number of type {dtype}") from None
    if kind.kind in "iu" and not np.iinfo(kind).min <= number <= np.iinfo(kind).max:
        raise ArgumentError(f"argument {name} is {number}, too large or too small for the kernel's {dtype}")
    if kind.kind == "f" and math.isfinite(number) and abs(number) > float(np.finfo(kind).max):
        raise ArgumentError(f"argument {name} is {number}, too large for the kernel's {dtype}")
    return number


def by_value(value: Any, name: str, declared: str) -> NDArray[Any]:
    """The value passed for a vector or a structure: its components (real and imaginary part for a vector of two), or a structured array
    without dimensions. Raises ArgumentError for a value that is not of type ``declared``.
    """
    known = ELEMENT.fullmatch(declared)
    if known is None:
        return _structure(value, name, declared)
    dtype, count = SCALARS[known[1]], int(known[2])
    if count == 2 and isinstance(value, complex | np.complexfloating):
        value = (value.real, value.imag)
    if not isinstance(value, list | tuple | np.ndarray) or np.shape(value) != (count,):
        raise ArgumentError(f"argument {name} is {value!r}; the kernel takes {count} numbers of type {dtype}, as a list or an array")
    return np.array([scalar(part, f"{name}[{place}]", dtype) for place, part in enumerate(value)], dtype)


def _structure(value: Any, name: str, declared: str) -> NDArray[Any]:
    given = value if isinstance(value, np.ndarray | np.void) else None
    if given is None or given.dtype.names is None or given.size != 1:
        raise ArgumentError(
            f"argument {name} is a {declared} by value: pass one structure, an element of an array whose dtype is "
            f"numpy.dtype([(member, type), ...], align=True), not {value!r}"
        )
    _check_structure(given.dtype, name, declared)
    return np.array(given).reshape(())


def as_bytes(value: NDArray[Any]) -> bytes:
    """The memory of a value from ``by_value``; vectors of three take that of four."""
    return value.tobytes() + bytes(value.itemsize if value.shape == (3,) else 0)


def whole_numbers(value: NDArray[Any]) -> tuple[int, ...]:
    """The integers in a vector or a structure, in order: they may determine the amount of work."""
    if value.dtype.names is not None:
        return tuple(number for member in value.dtype.names for number in whole_numbers(value[member]))
    return tuple(map(int, value.ravel())) if value.dtype.kind in "iu" else ()


def real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the real numbers of which elements of ``dtype`` consist; bytes for structures."""
    if dtype.names is not None:
        return np.dtype(np.uint8)
    return np.empty(0, dtype).real.dtype


def flat(values: NDArray[Any]) -> NDArray[Any]:
    """A contiguous array's memory: one-dimensional, with complex numbers as pairs of real ones and structures as bytes."""
    return values.reshape(-1).view(real(values.dtype))
