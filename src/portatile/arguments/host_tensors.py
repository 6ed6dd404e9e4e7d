"""PyTorch's CPU tensors in routines: they are passed as NumPy arrays that share their memory, and results are returned as tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from portatile.device.foreign_arrays import resolved, without_gradients
from portatile.dtypes import ELEMENTS, name_of
from portatile.errors import ArgumentError

_BITS = {"bfloat16": "int16", "float8_e4m3fn": "int8", "float8_e5m2": "int8"}  # dtypes that torch and NumPy exchange only as integers

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def is_host_tensor(array: Any) -> bool:
    """Whether it is a PyTorch tensor in host memory."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return kind is not None and isinstance(array, kind) and getattr(array, "is_cpu", False)


def _any_host_tensor(values: Iterable[Any]) -> bool:
    kind = getattr(sys.modules["torch"], "Tensor", None)
    return kind is not None and any(isinstance(value, kind) and getattr(value, "is_cpu", False) for value in values)


def taken(compute: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """A function that calls ``compute``, which takes NumPy arrays, but accepts CPU tensors too."""

    @wraps(compute)
    def either(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        if "torch" in sys.modules and _any_host_tensor((*arguments, *keywords.values())):
            return cast(_Result, through(compute, *arguments, **keywords))
        return compute(*arguments, **keywords)

    return either


def as_arrays(values: Any) -> Any:
    """A list, tuple or dict with CPU tensors replaced by NumPy arrays; anything else unchanged. Raises ArgumentError as ``through``."""
    if "torch" not in sys.modules or not isinstance(values, Sequence | Mapping) or isinstance(values, str):
        return values
    if isinstance(values, Mapping):
        return {name: _array(value) if is_host_tensor(value) else value for name, value in values.items()}
    return [_array(value) if is_host_tensor(value) else value for value in values]


def through(compute: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """``compute`` of the arrays over CPU tensors. Arrays that it returns become tensors; an output is returned as what the caller passed.

    Raises ArgumentError for tensors that NumPy cannot access, and for those whose gradients would be lost.
    """
    tensors: dict[int, tuple[Any, Any]] = {}  # what the caller passed for each array, by the array's identity
    seen: dict[int, Any] = {}  # the array of each tensor, by the tensor's identity

    def arrays(value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(arrays, value))
        if not is_host_tensor(value):
            tensors[id(value)] = value, value  # a NumPy output is returned as it is
            return value
        array = seen.get(id(value))
        if array is None:
            array = seen[id(value)] = _array(value)
            tensors[id(array)] = array, value
        return array

    def back(value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(back, value))
        if id(value) in tensors:
            return tensors[id(value)][1]
        return _tensor(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value

    return back(compute(*map(arrays, arguments), **{name: arrays(value) for name, value in keywords.items()}))


def _array(tensor: Any) -> Any:
    """The NumPy array over a tensor's memory; for a lazily conjugated or negated tensor, over a read-only copy."""
    try:
        plain = resolved(without_gradients(tensor))
        bits = _exchanged(tensor.dtype)
        array = plain.numpy() if bits is None else plain.view(bits[0]).numpy().view(bits[1])
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"a tensor that NumPy cannot read: {error}") from None
    if plain is not tensor and (tensor.is_conj() or tensor.is_neg()):
        array.flags.writeable = False
    return array


@cache
def _exchanged(dtype: Any) -> tuple[Any, np.dtype[Any]] | None:
    """The integer dtype by which PyTorch exchanges tensors of ``dtype`` with NumPy, and NumPy's dtype; None if no detour is needed."""
    name = str(dtype).removeprefix("torch.")
    return (getattr(sys.modules["torch"], _BITS[name]), ELEMENTS[name].numpy) if name in _BITS else None


def _tensor(array: Any) -> Any:
    """The tensor over an array's memory."""
    torch, name = sys.modules["torch"], name_of(array.dtype)
    if name in _BITS:
        return torch.from_numpy(array.view(_BITS[name])).view(getattr(torch, name))
    return torch.from_numpy(array)
