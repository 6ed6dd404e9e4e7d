"""The dtype in which operands are multiplied: the rules of ``numpy.matmul``, with float64 for dtypes that no kernel multiplies."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.dtypes import ELEMENTS, RESULTS, name_of
from portatile.errors import ArgumentError

_WHOLE = ("bool", "int", "uint")  # prefixes of integer dtypes' names
_COUNTED = "biu"  # the kinds of dtypes, bool and integers, that are multiplied in float64


def multiplied_in(
    dtype_a: np.dtype[Any] | None, dtype_b: np.dtype[Any] | None, result_name: str | None = None, cast: bool = False
) -> np.dtype[Any] | None:
    """The dtype in which arrays of two dtypes are multiplied: NumPy's common dtype, or float64 for integers and bool; None if there is
    none.

    ``result_name`` is the dtype of the result, if known: int8 is multiplied as such for results that its products can have. With ``cast``,
    operands whose product cannot have that dtype are cast to it, as NumPy does if ``dtype`` is given.
    """
    if dtype_a is None or dtype_b is None:
        return None
    try:
        result = dtype_a if dtype_a == dtype_b else np.result_type(dtype_a, dtype_b)
    except TypeError:
        return None
    if result.kind in _COUNTED and result_name not in RESULTS.get(name_of(result), ()):
        if cast and str(result_name).startswith(_WHOLE):
            if name_of(result) in RESULTS:
                return result  # refused later: there are no such integer products
            raise ArgumentError(f"{result} is multiplied in float64, with no result of type {result_name}: leave dtype out and convert")
        result = np.dtype(np.float64)
    if cast and result_name is not None and result_name in RESULTS and result_name not in RESULTS.get(name_of(result), ()):
        kind = ELEMENTS[result_name].numpy
        result = kind if np.can_cast(result, kind, "same_kind") else result
    return result if name_of(result) in RESULTS else None
