"""Where a sum of level 3 goes: the caller's array or a new one, and the values that it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple

from portatile.errors import ArgumentError
from portatile.arguments import matrices
from portatile.runtime import run
from portatile.arguments.matrices import Array, Matrix


class Result(NamedTuple, Generic[Array]):
    """``array`` is what the caller gets, ``matrix`` how it is stored; ``begin`` is for ``runtime.run``."""

    array: Array
    matrix: Matrix
    begin: runtime.Begin | None


def receiving(out: Array | None, shape: tuple[int, int], model: Array, factors: Mapping[str, Matrix], c: Any, beta: float) -> Result[Array]:
    """``out``, or without it an array like ``model``, to receive a product of ``factors`` and ``beta`` times ``c``.

    Raises ArgumentError where it does not fit, lies over one of the factors, or over ``c`` without being it, and where there is no ``c``.
    """
    if c is None and beta != 0:
        raise ArgumentError(f"beta is {beta} but there is no c")
    array = arrays.new(model, shape) if out is None else out
    first = next(iter(factors.values()))
    stored = arrays.output(array, shape, first)
    for name, factor in factors.items():
        arrays.apart(stored, factor, name)
    if beta == 0 or c is array:
        return Result(array, stored, None)
    return Result(array, stored, runtime.copying(arrays.fitting(c, shape, first, "c"), stored, "c"))
