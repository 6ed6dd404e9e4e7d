"""Small products of host arrays that NumPy computes after converting them: lists, integers, mixed dtypes, and 16- or 8-bit floats.

The conversion rules are those of ``arguments.numpy_rules``, which handles large and unusual operands itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile import settings
from portatile.arguments.promotion import multiplied_in
from portatile.dtypes import ELEMENTS, RESULTS, name_of
from portatile.runtime.host import numpy_products

_MOST = 256  # pairs of dtypes that are cached; also the longest dimension of a list that is converted here
_CONVERTING = 8  # multiply-adds that take as long as converting one element
_LAUNCHES = 2  # launches: within their time no device is faster, since it converts too, or its kernels for these types are slower than BLAS

_Array = NDArray[Any]


class _ProductDtypes(NamedTuple):
    """The dtype in which operands are multiplied, and the dtype of the result."""

    multiplied: np.dtype[Any]
    result: np.dtype[Any]


_by_dtypes: dict[tuple[np.dtype[Any], np.dtype[Any]], _ProductDtypes | None] = {}


def product(a: Any, b: Any, out: Any) -> Any:
    """``a @ b`` of small arrays or lists, in ``out`` unless that is None; None, with nothing written, where ``matmul`` has to look further.

    For calls that name no device.
    """
    if type(a) not in numpy_products.HOST or type(b) not in numpy_products.HOST:
        return None
    if type(a) is type(b) is np.ndarray and a.dtype is b.dtype and a.dtype in numpy_products.DTYPES:
        return None  # ``numpy_products`` has rejected them already
    if settings.selection() != (None, None) or not (out is None or type(out) is np.ndarray):
        return None
    a, b = _array(a), _array(b)
    if a is None or b is None or not (0 < a.ndim < 3 and 0 < b.ndim < 3):
        return None
    kinds = _product_dtypes(a.dtype, b.dtype)
    if kinds is None or (out is not None and out.dtype != kinds.result):
        return None
    work = a.size * b.size // max(len(b), 1) + _CONVERTING * (a.size + b.size)
    if not numpy_products.at_once(work // _LAUNCHES, kinds.multiplied):
        return None
    try:
        return numpy_products.silently(_converted, a, b, kinds, out)
    except ValueError:  # the routine explains which shapes do not fit
        return None


def _array(value: Any) -> _Array | None:
    """An operand as an array; None for long lists and lists that hold other things than numbers."""
    if type(value) is np.ndarray:
        return value
    if len(value) > _MOST or (value and type(value[0]) in (list, tuple) and len(value[0]) > _MOST):
        return None
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, ValueError):
        return None


def _product_dtypes(dtype_a: np.dtype[Any], dtype_b: np.dtype[Any]) -> _ProductDtypes | None:
    """The dtypes of a product of arrays of two dtypes; None where the routine has to decide."""
    try:
        return _by_dtypes[dtype_a, dtype_b]
    except KeyError:
        if len(_by_dtypes) >= _MOST:
            _by_dtypes.clear()
        found = _by_dtypes[dtype_a, dtype_b] = _decided_dtypes(dtype_a, dtype_b)
        return found


def _decided_dtypes(dtype_a: np.dtype[Any], dtype_b: np.dtype[Any]) -> _ProductDtypes | None:
    multiplied = multiplied_in(dtype_a.newbyteorder("="), dtype_b.newbyteorder("="))
    if multiplied is None:
        return None
    name = name_of(multiplied)
    kind = ELEMENTS[name].numpy
    result = ELEMENTS[RESULTS[name][0]].numpy
    if kind not in numpy_products.DTYPES:  # float32 holds all values of these types
        kind = np.dtype(np.float32)
    return _ProductDtypes(kind, result)


def _converted(a: _Array, b: _Array, kinds: _ProductDtypes, out: _Array | None) -> Any:
    """The product; raises ValueError for shapes that do not fit and for an output that cannot be written."""
    result = np.matmul(a.astype(kinds.multiplied, copy=False), b.astype(kinds.multiplied, copy=False))
    if out is None:
        return result.astype(kinds.result, copy=False)
    if out.shape != result.shape:
        raise ValueError("the output has another shape")
    np.copyto(out, result, casting="same_kind")
    return out
