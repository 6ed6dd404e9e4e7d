"""In which dtype operands are multiplied: the rules of ``numpy.matmul``, and float64 for what no kernel multiplies as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.dtypes import ELEMENTS, RESULTS, name_of
from portatile.errors import ArgumentError

_WHOLE = ("bool", "int", "uint")  # what names of integers begin with
_COUNTED = "biu"  # the kinds of dtypes, bool and integers, that are multiplied in float64


def multiplied_in(
    dtype_a: np.dtype[Any] | None, dtype_b: np.dtype[Any] | None, result_name: str | None = None, cast: bool = False
) -> np.dtype[Any] | None:
    """The dtype in which arrays of two are multiplied: NumPy's common one, float64 for integers and bool; None where there is none.

    ``result_name`` is the dtype of the result, if that is known: int8 is multiplied as such where its products have it. With ``cast`` the
    operands are cast to it, as NumPy does where ``dtype`` is given, if they do not give such results themselves.
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
                return result  # to be refused: its products have no such integers
            raise ArgumentError(f"{result} is multiplied in float64, with no result of type {result_name}: leave dtype out and convert")
        result = np.dtype(np.float64)
    if cast and result_name is not None and result_name in RESULTS and result_name not in RESULTS.get(name_of(result), ()):
        kind = ELEMENTS[result_name].numpy
        result = kind if np.can_cast(result, kind, "same_kind") else result
    return result if name_of(result) in RESULTS else None
