"""The filters, first indices and boundaries of filtered axes, as callers give them: one for all axes, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portatile.device.masked_arrays import refuse_masks
from portatile.errors import ArgumentError

Boundary = Literal["periodic", "zero", "grow", "shrink", "wrap", "grid-wrap", "constant", "grid-constant"]
AXES = 3

_KINDS = ("periodic", "zero", "grow", "shrink")
_SCIPY = {"wrap": "periodic", "grid-wrap": "periodic", "constant": "zero", "grid-constant": "zero"}
_NAMES = {**{name: name for name in _KINDS}, **_SCIPY}
_OTHERS = ("reflect", "grid-mirror", "mirror", "nearest")


def kind_of(boundary: Any) -> str:
    """The boundary by portatile's name; raises ArgumentError for an unknown one."""
    kind = _NAMES.get(boundary) if isinstance(boundary, str) else None
    if kind is None:
        advice = ": pad the array, for example by numpy.pad, and use shrink" if boundary in _OTHERS else ""
        known = "periodic (SciPy's wrap, grid-wrap), zero (SciPy's constant, grid-constant, with cval 0), grow, shrink"
        raise ArgumentError(f"boundary={boundary!r} is not one of {known}{advice}")
    return kind


def kinds(boundary: Boundary | Sequence[Boundary], axes: int = AXES) -> tuple[str, ...]:
    """The boundary of each axis by portatile's name."""
    if isinstance(boundary, str):  # most calls
        return (kind_of(boundary),) * axes
    return tuple(map(kind_of, for_each(boundary, "boundaries", axes)))


def for_each(value: Any, what: str, axes: int = AXES) -> tuple[Any, ...]:
    """One value for each axis, from one for all or from a sequence; raises ArgumentError for a sequence of another length."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return (value,) * axes
    values = tuple(value)
    if len(values) != axes:
        raise ArgumentError(f"{len(values)} {what} for {axes} axes; give one for all or one for each")
    return values


def one_filter(taps: ArrayLike) -> NDArray[Any]:
    """Taps as the single row of a filter; raises ArgumentError if they are not a row of real numbers."""
    row = numbers(taps, "taps")
    if row.ndim != 1 or row.dtype.kind not in "fiu":
        raise ArgumentError(f"taps is {described(row)}; it must be a one-dimensional sequence of real numbers")
    return row[None, :]


def filters(taps: ArrayLike | Sequence[ArrayLike]) -> tuple[NDArray[Any], ...]:
    """One filter for all axes, or one for each, possibly of different lengths: rows of taps.

    Raises ArgumentError for another number of filters, and for rows that are not real numbers.
    """
    refuse_masks(taps, "taps")
    try:
        array = np.asarray(taps)
    except ArgumentError:  # a Buffer; the message says what to do
        raise
    except ValueError:  # rows of different lengths
        array = None
    except (RuntimeError, TypeError):
        array = numbers(taps, "taps")  # type: ignore[arg-type]  # raises an error that says what is wrong
    if array is not None and array.ndim < 2:
        return (one_filter(array),) * AXES
    rows = tuple(taps)  # type: ignore[arg-type]
    if len(rows) != AXES:
        raise ArgumentError(f"{len(rows)} filters for {AXES} axes; taps is one-dimensional, for all axes, or a sequence of such, for each")
    return tuple(map(one_filter, rows))


def numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """The given values as an array on the host; raises ArgumentError if they are not rows of equal length."""
    refuse_masks(values, name)
    try:
        return np.asarray(values)
    except ArgumentError:  # a Buffer; the message says what to do
        raise
    except ValueError:
        raise ArgumentError(f"the rows of {name} are not equally long") from None
    except (RuntimeError, TypeError) as error:  # for example an array of another library that is not on the host
        raise ArgumentError(f"{name} is {described(values)}, which NumPy cannot read: {error}") from None


def described(array: Any) -> str:
    """Type, shape and dtype of an array, for a message."""
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    return f"a {type(array).__name__}" + ("" if shape is None or dtype is None else f" of shape {tuple(shape)} and dtype {dtype}")
