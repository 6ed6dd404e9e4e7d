"""The functions of the Python array API standard (2023.12) that support Buffers: creation, reshaping, conversion, multiplication.

There are no elementwise operations, no indexing by arrays and no reductions. What is missing raises AttributeError, as the standard
prescribes for a partial implementation. Arrays made from host data are copied to the device.
"""

from __future__ import annotations

import builtins
import sys
from math import e as e
from math import inf, nan, pi
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from portatile import device as known
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.routines.gemm import matmul as _product

__array_api_version__ = "2023.12"

__all__ = [
    "asarray",
    "astype",
    "can_cast",
    "e",
    "empty",
    "empty_like",
    "expand_dims",
    "finfo",
    "from_dlpack",
    "full",
    "full_like",
    "iinfo",
    "inf",
    "isdtype",
    "matmul",
    "matrix_transpose",
    "moveaxis",
    "nan",
    "newaxis",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "reshape",
    "result_type",
    "squeeze",
    "unstack",
    "zeros",
    "zeros_like",
]

newaxis = None
bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64, complex64, complex128 = (np.dtype(name) for name in ("float32", "float64", "complex64", "complex128"))

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def namespace(api_version: str | None = None) -> ModuleType:
    """This module as a namespace; raises ArgumentError for another version of the standard."""
    if api_version not in (None, __array_api_version__):
        raise ArgumentError(f"api_version={api_version!r}; only {__array_api_version__} is supported")
    return sys.modules[__name__]


def asarray(
    obj: Any, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None, copy: builtins.bool | None = None
) -> Buffer:
    """A Buffer on ``device`` of anything that NumPy converts to an array; a Buffer itself, unless a copy or another device or dtype is
    asked for.

    Raises ValueError if ``copy=False`` but a copy is needed.
    """
    if isinstance(obj, Buffer):
        moved = obj if device is None else obj.to_device(device)
        if dtype is not None and moved.dtype != np.dtype(dtype):
            moved = astype(moved, dtype)
        if copy is False and moved is not obj:
            raise ValueError("another device or dtype needs a copy")
        return moved.copy() if copy and moved is obj else moved
    if copy is False:
        raise ValueError("a host array can only be copied to a device")
    return Buffer.from_numpy(np.asarray(obj, dtype), device)


def astype(x: Buffer, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: Device | str | None = None) -> Buffer:
    """The elements cast to another dtype, through the host."""
    if x.dtype == np.dtype(dtype):
        same = x if device is None else x.to_device(device)
        return same.copy() if copy and same is x else same
    return Buffer.from_numpy(x.numpy().astype(dtype), x.device if device is None else device)


def empty(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An uninitialised array, of float64 by default."""
    return Buffer.empty(shape if isinstance(shape, tuple) else (shape,), float64 if dtype is None else dtype, device)


def full(shape: int | tuple[int, ...], fill_value: Any, *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An array filled with one value."""
    return Buffer.from_numpy(np.full(shape, fill_value, dtype), device)


def zeros(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An array of zeros, of float64 by default."""
    return full(shape, 0, dtype=float64 if dtype is None else dtype, device=device)


def ones(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An array of ones, of float64 by default."""
    return full(shape, 1, dtype=float64 if dtype is None else dtype, device=device)


def empty_like(x: Buffer, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An uninitialised array with the shape of ``x`` and, by default, its dtype and device."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x: Buffer, /, fill_value: Any, *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An array filled with one value, with the shape of ``x`` and, by default, its dtype and device."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Buffer, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An array of zeros with the shape of ``x``; see ``full_like``."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Buffer, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None) -> Buffer:
    """An array of ones with the shape of ``x``; see ``full_like``."""
    return full_like(x, 1, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Device | str | None = None, copy: builtins.bool | None = None) -> Buffer:
    """Another library's array: CUDA memory without a copy, host memory copied to ``device``."""
    if isinstance(x, Buffer):
        return asarray(x, device=device, copy=copy)
    if int(x.__dlpack_device__()[0]) == 1:
        return asarray(np.from_dlpack(x), device=device, copy=copy)
    return asarray(Buffer.wrap(x), device=device, copy=copy)


def matmul(x1: Buffer, x2: Buffer, /) -> Any:
    """``portatile.matmul``."""
    return _product(x1, x2)


def matrix_transpose(x: Buffer, /) -> Buffer:
    """Every matrix of a stack transposed, as a view."""
    return x.mT


def permute_dims(x: Buffer, /, axes: tuple[int, ...]) -> Buffer:
    """The dimensions in another order, as a view. Raises ArgumentError if ``axes`` is not a permutation of them."""
    order = [axis % x.ndim for axis in axes]
    if sorted(order) != list(range(x.ndim)):
        raise ArgumentError(f"axes={axes} is not a permutation of {x.ndim} dimensions")
    return Buffer(x.memory, tuple(x.shape[at] for at in order), x.dtype, tuple(x.strides[at] for at in order), x.offset)


def moveaxis(x: Buffer, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Buffer:
    """Dimensions moved to other positions, as a view."""
    moved = [axis % x.ndim for axis in (source if isinstance(source, tuple) else (source,))]
    order = [axis for axis in range(x.ndim) if axis not in moved]
    places = [axis % x.ndim for axis in (destination if isinstance(destination, tuple) else (destination,))]
    for to, axis in sorted(zip(places, moved, strict=True)):
        order.insert(to, axis)
    return permute_dims(x, tuple(order))


def reshape(x: Buffer, /, shape: tuple[int, ...], *, copy: builtins.bool | None = None) -> Buffer:
    """The elements with another shape: a view where possible, a copy otherwise or as ``copy`` says."""
    if copy:
        return x.copy().reshape(shape)
    try:
        return x.reshape(shape)
    except ArgumentError:
        if copy is False:
            raise
        return x.copy().reshape(shape)


def expand_dims(x: Buffer, /, *, axis: int = 0) -> Buffer:
    """A view with one more dimension, of size 1."""
    place = range(x.ndim + 1)[axis]
    return x[(*(slice(None),) * place, None)]


def squeeze(x: Buffer, /, axis: int | tuple[int, ...]) -> Buffer:
    """A view without some dimensions of size 1; raises ArgumentError for dimensions of another size."""
    dropped = {range(x.ndim)[at] for at in (axis if isinstance(axis, tuple) else (axis,))}
    if any(x.shape[at] != 1 for at in dropped):
        raise ArgumentError(f"axis={axis} of shape {x.shape} does not have size 1")
    return x[tuple(0 if at in dropped else slice(None) for at in range(x.ndim))]


def unstack(x: Buffer, /, *, axis: int = 0) -> tuple[Buffer, ...]:
    """The parts along one dimension, as views."""
    return tuple(moveaxis(x, axis, 0))


def isdtype(dtype: DTypeLike, kind: str | DTypeLike | tuple[Any, ...]) -> builtins.bool:
    """Whether a dtype is of a kind named by the standard, one of several kinds, or equal to another dtype."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, kind_name) for kind_name in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return np.dtype(dtype).kind in _KINDS[kind]
    return np.dtype(dtype) == np.dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that NumPy promotes to."""
    return np.result_type(*(value.dtype if isinstance(value, Buffer) else value for value in arrays_and_dtypes))


def can_cast(from_: Any, to: DTypeLike, /) -> builtins.bool:
    """Whether NumPy casts without loss."""
    return np.can_cast(from_.dtype if isinstance(from_, Buffer) else from_, to)


def finfo(type: Any, /) -> Any:
    """Limits of a floating-point dtype."""
    return np.finfo(type.dtype if isinstance(type, Buffer) else type)


def iinfo(type: Any, /) -> Any:
    """Limits of an integer dtype."""
    return np.iinfo(type.dtype if isinstance(type, Buffer) else type)


def __dir__() -> list[str]:
    return [*__all__, *__array_namespace_info__().dtypes(), "__array_api_version__", "__array_namespace_info__"]


def __array_namespace_info__() -> _Info:
    """Devices, dtypes and capabilities, through the standard's inspection functions."""
    return _Info()


class _Info:
    """The inspection functions of the standard."""

    def capabilities(self) -> dict[str, Any]:
        """The standard's capabilities: no indexing by masks, no data-dependent shapes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Device:
        """The default device."""
        return known.get()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The default dtypes of new arrays."""
        return {"real floating": float64, "complex floating": complex128, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that Buffers support, by name."""
        named = {name: value for name, value in globals().items() if isinstance(value, np.dtype)}
        return {name: value for name, value in named.items() if kind is None or isdtype(value, kind)}

    def devices(self) -> list[Device]:
        """Every device found."""
        return list(known.devices())
