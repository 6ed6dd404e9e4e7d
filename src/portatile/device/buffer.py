"""Buffer: a typed n-dimensional array in device memory, exchanged with NumPy, CuPy, PyTorch and other libraries by standard protocols."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from portatile import device as devices
from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.device.copies import address
from portatile.device.dlpack import CPU_DEVICE, CUDA_DEVICE, Strided, export, packed
from portatile.device.foreign_arrays import LEGACY_STREAM, in_cuda_memory, strided
from portatile.device.masked_arrays import refuse_masks
from portatile.device.page_locked import locked
from portatile.device.strides import checked_sizes, places, reshaped, runs, span, wanted_shape
from portatile.dtypes import strided as strided_array
from portatile.errors import ArgumentError, DeviceNotFoundError

_MOST_RUNS = 4096  # contiguous runs that are copied one by one on a device; arrays with more runs go through the host


class Buffer:
    """An array in device memory: of ``shape`` and ``dtype``, from ``offset`` bytes into ``memory`` on, with ``strides`` in bytes.

    ``from_numpy`` and ``empty`` make one; ``wrap`` presents another library's CUDA array as one. Routines that are given Buffers queue
    their work on the device's default queue without waiting for it, and return Buffers; ``numpy`` waits, and copies to the host.

    Views (``a[1:]``, ``a.T``, ``reshape``) share the memory. It is released with the last of them, by ``release`` or by ``with``, and
    reused for the next Buffer of the same size, so that new results cost little more than an ``out`` that is kept.

    Examples:
        >>> import numpy as np
        >>> from portatile import Buffer
        >>> a = Buffer.from_numpy(np.arange(6.0).reshape(2, 3))
        >>> a[:, 1:].numpy()
        array([[1., 2.],
               [4., 5.]])
    """

    __slots__ = ("__weakref__", "described", "dtype", "memory", "offset", "shape", "strides")
    __array_priority__ = 1000.0  # so that ``array @ buffer`` calls the Buffer's method

    def __init__(
        self, memory: Memory, shape: tuple[int, ...], dtype: DTypeLike, strides: tuple[int, ...] | None = None, offset: int = 0
    ) -> None:
        self.memory = memory
        self.shape = tuple(map(int, shape))
        self.dtype: np.dtype[Any] = dtype if isinstance(dtype, np.dtype) else _element_type(dtype)
        self.strides = packed(self.shape, self.dtype.itemsize) if strides is None else tuple(strides)
        self.offset = offset
        self.described: tuple[object, ...] | None = None  # cached by arguments/described.py
        if len(self.strides) != len(self.shape):
            raise ArgumentError(f"{len(self.strides)} strides for the {len(self.shape)} dimensions of {self.shape}")
        low, high = span(self.shape, self.strides, self.dtype.itemsize)
        if offset + low < 0 or offset + high > memory.nbytes:
            raise ArgumentError(f"shape {self.shape} with strides {self.strides} from byte {offset} leaves memory of {memory.nbytes} bytes")

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: DTypeLike, device: Device | str | None = None) -> Buffer:
        """An uninitialised C-contiguous array on ``device`` (an object, or what ``portatile.device.get`` takes).

        Raises ArgumentError for an invalid shape, or one too large for any memory, and for an invalid dtype.
        """
        kind, sizes = _element_type(dtype), checked_sizes(shape)
        nbytes = prod(sizes) * kind.itemsize
        if nbytes > sys.maxsize:
            raise ArgumentError(f"an array of shape {sizes} and {kind} is larger than any memory")
        return cls(_device(device).allocate(nbytes), sizes, kind)

    @classmethod
    def over(cls, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], offset: int = 0) -> Buffer:
        """An array over ``memory``, without checks: the fast constructor for results."""
        made = cls.__new__(cls)
        made.memory, made.shape, made.dtype, made.strides, made.offset, made.described = memory, shape, dtype, strides, offset, None
        return made

    @classmethod
    def from_numpy(cls, array: NDArray[Any], device: Device | str | None = None, queue: Queue | None = None) -> Buffer:
        """A copy of ``array`` on ``device``; when this returns, the array may be changed.

        Raises ArgumentError for an array of Python objects.
        """
        refuse_masks(array, "the array")
        source = np.ascontiguousarray(array).reshape(np.shape(array))
        if source.dtype.hasobject:
            raise ArgumentError("an array of Python objects cannot be stored on a device")
        place = queue.device if queue is not None and device is None else _device(device)
        buffer = cls(place.allocate(source.nbytes), source.shape, source.dtype)
        staging.upload(queue or place.default_queue(), buffer.memory, source)
        return buffer

    @classmethod
    def wrap(cls, array: Any) -> Buffer:
        """Another library's CUDA array (CuPy, PyTorch, Numba, JAX) as a Buffer, without a copy; the array is kept alive.

        Queue work on it in ``caller_stream(array)``. Raises ArgumentError for an array outside of CUDA memory.
        """
        if isinstance(array, Buffer):
            return array
        view = strided(array)
        place = devices.get(f"cuda:{view.device_id}")
        low, high = span(view.shape, view.strides, view.dtype.itemsize)
        memory = place.adopt(view.pointer + low, high - low, view.owner)
        return cls(memory, view.shape, view.dtype, view.strides, -low)

    @property
    def device(self) -> Device:
        """The device that owns the memory."""
        return self.memory.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Buffer:
        """The transposed view."""
        return Buffer.over(self.memory, self.shape[::-1], self.dtype, self.strides[::-1], self.offset)

    @property
    def mT(self) -> Buffer:
        """The view with every matrix of a stack transposed. Raises ArgumentError for fewer than two dimensions."""
        if self.ndim < 2:
            raise ArgumentError(f"a Buffer of shape {self.shape} is neither a matrix nor a stack of matrices")
        turn = slice(None, -3, -1)  # the last two axes, swapped
        shape, strides = (*self.shape[:-2], *self.shape[turn]), (*self.strides[:-2], *self.strides[turn])
        return Buffer(self.memory, shape, self.dtype, strides, self.offset)

    def reshape(self, *shape: Any) -> Buffer:
        """A view with another shape and the same elements in C order; one size may be -1. Raises ArgumentError if that needs a copy."""
        new_shape = wanted_shape(shape, self.size)
        strides = reshaped(self.shape, self.strides, new_shape, self.dtype.itemsize)
        if strides is None:
            raise ArgumentError(
                f"strides {self.strides} of shape {self.shape} do not give the shape {new_shape} without a copy: .copy() first"
            )
        return Buffer(self.memory, new_shape, self.dtype, strides, self.offset)

    def copy(self, queue: Queue | None = None) -> Buffer:
        """A new C-contiguous Buffer with the same elements on the same device.

        Does not wait, unless the elements form so many runs that they are copied through the host.
        """
        copy, queue = Buffer.empty(self.shape, self.dtype, self.device), queue or self.device.default_queue()
        run, sizes, strides = runs(self.shape, self.strides, self.dtype.itemsize)
        if prod(sizes) > _MOST_RUNS:
            copy.assign(self.numpy(queue), queue)
        elif self.size:
            for number, place in enumerate(places(sizes, strides)):
                queue.copy(copy.memory, self.memory, run, number * run, self.offset + place)
        return copy

    def __getitem__(self, key: Any) -> Buffer:
        """A view by integers, slices, ``...`` and ``None``, with NumPy's meaning."""
        shape, strides = self.shape, self.strides
        if type(key) is int and shape and 0 not in shape and -shape[0] <= key < shape[0]:  # for example one item of a batch
            return Buffer.over(self.memory, shape[1:], self.dtype, strides[1:], self.offset + key % shape[0] * strides[0])
        model: NDArray[Any] = strided_array(np.empty(1, self.dtype), shape, strides)  # only its strides are used
        keys = key if isinstance(key, tuple) else (key,)
        if not all(
            k is None or k is Ellipsis or (isinstance(k, (slice, int, np.integer)) and k is not True and k is not False) for k in keys
        ):
            kinds = ", ".join(type(k).__name__ for k in keys)
            raise ArgumentError(f"an index of {kinds} would copy; a Buffer is indexed by integers and slices")
        part = model[(*keys, ...)] if Ellipsis not in keys else model[keys]  # with ..., a single element stays an array
        return Buffer(self.memory, part.shape, self.dtype, part.strides, self.offset + (address(part) - address(model) if part.size else 0))

    def numpy(self, queue: Queue | None = None) -> NDArray[Any]:
        """A copy on the host; waits for the commands of ``queue`` (default: the device's default queue)."""
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        raw, low = self._raw(queue or self.device.default_queue())
        view = self._elements(raw, low)
        return view if view.flags.c_contiguous and view.nbytes == raw.nbytes else view.copy()

    def assign(self, array: NDArray[Any], queue: Queue | None = None) -> None:
        """Copy a host array of the same shape and dtype into this one; when this returns, the array may be changed.

        Bytes between the elements are preserved by copying them to the host and back. Raises ArgumentError for another shape or dtype.
        """
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"a {type(array).__name__} cannot be assigned; convert it with numpy.asarray")
        refuse_masks(array, "the array")
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ArgumentError(f"an array of {array.dtype} {array.shape} does not fit a Buffer of {self.dtype} {self.shape}")
        queue = queue or self.device.default_queue()
        if self.strides == packed(self.shape, self.dtype.itemsize):
            staging.upload(queue, self.memory, np.ascontiguousarray(array), self.offset)
        elif self.size:
            raw, low = self._raw(queue)
            self._elements(raw, low)[...] = array
            staging.upload(queue, self.memory, raw, low)

    def release(self) -> None:
        """Release the memory, which invalidates every view of it."""
        self.memory.release()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """The memory of a CPU device itself, after the default queue has finished; raises ArgumentError for other devices."""
        shown = self._mapped()
        if shown is None:
            raise ArgumentError(f"{self!r} is in a device's memory, which NumPy cannot access; copy it to the host with .numpy()")
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ArgumentError(f"{self!r} cannot be viewed as {np.dtype(dtype)} without a copy")
            return shown.astype(dtype)
        return shown.copy() if copy else shown

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a Buffer without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Buffer]:
        return (self[at] for at in range(len(self)))

    def __bool__(self) -> bool:
        """True, as for most objects: NumPy's rule would need the elements, which are not on the host."""
        return True

    def __matmul__(self, other: Any) -> Any:
        """The matrix product, as ``portatile.matmul``."""
        return import_module("portatile").matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return import_module("portatile").matmul(other, self)

    def __copy__(self) -> Buffer:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Buffer:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """The elements and the device's id; if there is no such device, unpickling uses the default device."""
        return _restored, (self.numpy(), self.device.info.id)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard that accept Buffers: ``portatile.array_api``."""
        return import_module("portatile.array_api").namespace(api_version)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Buffer:
        """A copy on another device, or the Buffer itself if it is there already. The copy goes through the host unless the driver copies
        directly.

        Raises ArgumentError for a ``stream``.
        """
        if stream is not None:
            raise ArgumentError("stream is not supported: copies between devices wait for the default queues of both")
        place = _device(device)
        if place is self.device:
            return self
        if self.strides == packed(self.shape, self.dtype.itemsize):
            buffer = Buffer.empty(self.shape, self.dtype, place)
            self.device.default_queue().finish()
            if place.default_queue().receive(buffer.memory, self.memory, self.nbytes, 0, self.offset):
                place.default_queue().finish()
                return buffer
            buffer.release()
        return Buffer.from_numpy(self.numpy(), place)

    def __repr__(self) -> str:
        return f"Buffer(shape={self.shape}, dtype={self.dtype.name}, device={self.device.info.id})"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol, with the stream of the device's default queue. Raises AttributeError on OpenCL devices."""
        pointer = self._pointer("__cuda_array_interface__")
        stream = int(getattr(self.device.default_queue(), "stream", None) or LEGACY_STREAM)
        data = {"shape": self.shape, "typestr": self.dtype.str, "data": (pointer, False), "strides": self.strides}
        return {**data, "version": 3, "stream": stream}

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """An unversioned DLPack capsule of CUDA memory, or of a CPU device's memory; the consumer's ``stream`` waits for the default queue.

        With ``copy``, and if ``dl_device`` is the host while the memory is not, the capsule holds a copy.
        """
        place = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) not in (place, (CPU_DEVICE, 0)):
            raise BufferError(f"{self!r} can be exported to the device that holds it, {place}, or to the host, {(CPU_DEVICE, 0)}")
        shown = None
        if place[0] == CPU_DEVICE:
            shown = self._mapped()
        elif dl_device is not None and tuple(dl_device) != place:
            if copy is False:
                raise BufferError(f"{self!r} can be exported to the host only as a copy")
            shown = self.numpy()
        if shown is not None:
            shown = shown.copy() if copy else shown
            return export(Strided(address(shown), shown.shape, shown.strides, shown.dtype, 0, shown, CPU_DEVICE))
        array = self.copy() if copy else self
        if stream != -1:
            with self.device.foreign_queue(LEGACY_STREAM if stream in (None, 0) else int(stream or 0)) as queue:
                queue.wait_for(self.device.default_queue().marker())
        return export(Strided(array._pointer("__dlpack__"), array.shape, array.strides, array.dtype, place[1], array.memory))

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device.info.kind == "cpu" and not self.device.info.can.addresses:
            return CPU_DEVICE, 0
        self._pointer("__dlpack_device__")
        return CUDA_DEVICE, int(self.device.info.id.split(":")[1])

    def _mapped(self) -> NDArray[Any] | None:
        """The elements in place, if the host can access the memory; None on other devices."""
        if not self.memory.alive:
            raise ArgumentError("this memory has been released")
        if self.size == 0:
            return np.empty(self.shape, self.dtype) if self.device.info.kind == "cpu" else None
        raw = self.device.mapped(self.memory)
        return None if raw is None else self._elements(raw, 0)

    def _raw(self, queue: Queue) -> tuple[NDArray[np.uint8], int]:
        """A copy of the bytes from the first element to the last, and their offset in the memory; waits for the queue."""
        low, high = self._extent()
        raw = locked.empty((high - low,), np.uint8)
        staging.download(queue, raw, self.memory, low)
        return raw, low

    def _elements(self, raw: NDArray[np.uint8], low: int) -> NDArray[Any]:
        """The elements among ``raw``, the bytes of the memory from byte ``low`` on."""
        return np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)

    def _pointer(self, what: str) -> int:
        if not self.device.info.can.addresses:
            raise AttributeError(f"{what}: {self.device.info.id} is not a CUDA device; copy with numpy()")
        if not self.memory.alive:
            raise ArgumentError("this memory has been released")
        return int(self.memory.handle) + self.offset

    def _extent(self) -> tuple[int, int]:
        """The range of bytes in the memory that elements occupy: the first, and one past the last."""
        low, high = span(self.shape, self.strides, self.dtype.itemsize)
        return self.offset + low, self.offset + high


def is_cuda_array(array: Any) -> bool:
    """Whether ``array`` is in CUDA memory, according to its own attributes."""
    if isinstance(array, Buffer):
        return array.device.info.can.addresses
    return not isinstance(array, np.ndarray) and in_cuda_memory(array)


def _element_type(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ArgumentError(f"dtype={dtype!r} is not an element type; write for example 'float32'") from None
    if kind.hasobject:
        raise ArgumentError("an array of Python objects cannot be stored on a device")
    return kind


def _restored(array: NDArray[Any], device: str) -> Buffer:
    """A pickled Buffer."""
    try:
        return Buffer.from_numpy(array, device)
    except DeviceNotFoundError:
        return Buffer.from_numpy(array)


def _device(chosen: Device | str | None) -> Device:
    return chosen if isinstance(chosen, Device) else devices.get(chosen)
