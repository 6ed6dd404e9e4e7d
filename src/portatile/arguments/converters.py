"""Copies, casts and reshapes of arrays within their own library and memory: NumPy's, PyTorch's, CuPy's, and Buffers."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from portatile.device.buffer import Buffer, is_cuda_array
from portatile.dtypes import ELEMENTS


class Converter(ABC):
    """The functions of one library. Instances are stateless."""

    @abstractmethod
    def dtype(self, array: Any) -> np.dtype[Any] | None:
        """The dtype as NumPy's; None if NumPy has no such dtype."""

    @abstractmethod
    def packed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        """A C-contiguous copy with elements of ``dtype``."""

    @abstractmethod
    def strides(self, array: Any) -> tuple[int, ...]:
        """Strides in bytes."""

    def aligned(self, array: Any) -> bool:
        """Whether every element is aligned to its size and in native byte order."""
        return True

    def shaped(self, array: Any, shape: tuple[int, ...]) -> Any:
        """A result with another shape."""
        return array.reshape(shape)

    @abstractmethod
    def put(self, out: Any, result: Any) -> Any:
        """``out``, filled with the values of ``result`` cast to its dtype."""


class _Numpy(Converter):
    """NumPy arrays."""

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        dtype: np.dtype[Any] = array.dtype
        return dtype.newbyteorder("=") if not dtype.isnative else dtype

    def packed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        return np.array(array, dtype, order="C", subok=False)

    def strides(self, array: Any) -> tuple[int, ...]:
        return array.strides  # type: ignore[no-any-return]

    def aligned(self, array: Any) -> bool:
        return bool(array.flags.aligned and array.dtype.isnative)

    def shaped(self, array: Any, shape: tuple[int, ...]) -> Any:
        return array.reshape(shape)[()]  # a NumPy scalar if there are no dimensions

    def put(self, out: Any, result: Any) -> Any:
        with np.errstate(all="ignore"):
            np.copyto(out, result, casting="unsafe")
        return out


class _Buffers(Converter):
    """portatile's own arrays; casts to another dtype go through the host."""

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        return array.dtype  # type: ignore[no-any-return]

    def packed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        if array.dtype == dtype:
            return array.copy()
        return Buffer.from_numpy(array.numpy().astype(dtype), array.device)

    def strides(self, array: Any) -> tuple[int, ...]:
        return array.strides  # type: ignore[no-any-return]

    def aligned(self, array: Any) -> bool:
        return bool(array.offset % array.dtype.itemsize == 0 and array.dtype.isnative)

    def put(self, out: Any, result: Any) -> Any:
        with np.errstate(all="ignore"):
            out.assign(result.numpy().astype(out.dtype, casting="unsafe"))
        return out


class _Torch(Converter):
    """PyTorch's tensors, on their current stream."""

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        name = str(array.dtype).removeprefix("torch.")
        if name in ELEMENTS:
            return ELEMENTS[name].numpy
        try:
            return np.dtype(name)
        except TypeError:
            return None

    def packed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        return array.to(getattr(sys.modules["torch"], dtype.name)).contiguous()

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(stride * array.element_size() for stride in array.stride())

    def put(self, out: Any, result: Any) -> Any:
        return out.copy_(result)


class _Cupy(Converter):
    """CuPy's arrays, on their current stream."""

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        return array.dtype  # type: ignore[no-any-return]

    def packed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        if array.dtype == dtype and dtype.itemsize == 1:  # CuPy has no kernels for eight-bit floats
            return array.view(np.uint8).astype(np.uint8, order="C", copy=True).view(dtype)
        return array.astype(dtype, order="C", copy=True)

    def strides(self, array: Any) -> tuple[int, ...]:
        return array.strides  # type: ignore[no-any-return]

    def put(self, out: Any, result: Any) -> Any:
        out[...] = result
        return out


_NUMPY, _BUFFERS = _Numpy(), _Buffers()
_CUDA: dict[str, Converter] = {"torch": _Torch(), "cupy": _Cupy()}


def converter_of(array: Any) -> Converter | None:
    """The converter of an array's library; None for arrays that are read as they are, or not at all."""
    if isinstance(array, np.ndarray):
        return _NUMPY
    if isinstance(array, Buffer):
        return _BUFFERS
    known = _CUDA.get(type(array).__module__.split(".")[0])
    return known if known is not None and is_cuda_array(array) else None
