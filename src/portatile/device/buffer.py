"""Buffer: a typed n-dimensional array in a device's memory, exchanged with NumPy, CuPy, PyTorch and whoever speaks their protocols."""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from importlib import import_module
from math import prod
from operator import index
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from portatile import device as devices
from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.device.dlpack import CUDA_DEVICE, Strided, export, packed, take
from portatile.errors import ArgumentError

LEGACY_STREAM = 1  # CUDA's default stream, as __cuda_array_interface__ numbers it


class Buffer:
    """An array of ``shape`` and ``dtype`` that begins ``offset`` bytes into ``memory``; ``strides`` in bytes.

    Released with its last reference, or by ``with``. Views share the memory.

    Examples:
        >>> import numpy as np
        >>> from portatile.device.buffer import Buffer
        >>> a = Buffer.from_numpy(np.arange(6.0).reshape(2, 3))
        >>> a[:, 1:].numpy()
        array([[1., 2.],
               [4., 5.]])
    """

    __slots__ = ("__weakref__", "dtype", "memory", "offset", "shape", "strides")

    def __init__(
        self, memory: Memory, shape: tuple[int, ...], dtype: DTypeLike, strides: tuple[int, ...] | None = None, offset: int = 0
    ) -> None:
        self.memory = memory
        self.shape = tuple(map(int, shape))
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.strides = packed(self.shape, self.dtype.itemsize) if strides is None else tuple(strides)
        self.offset = offset
        if len(self.strides) != len(self.shape):
            raise ArgumentError(f"{len(self.strides)} strides for the {len(self.shape)} dimensions of {self.shape}")
        low, high = _span(self.shape, self.strides, self.dtype.itemsize)
        if offset + low < 0 or offset + high > memory.nbytes:
            raise ArgumentError(f"shape {self.shape} with strides {self.strides} from byte {offset} leaves memory of {memory.nbytes} bytes")

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: DTypeLike, device: Device | str | None = None) -> Buffer:
        """An uninitialised C-contiguous array on ``device`` (an object, or what ``portatile.device.get`` takes)."""
        kind, sizes = _kind(dtype), _sizes(shape)
        nbytes = prod(sizes) * kind.itemsize
        if nbytes > sys.maxsize:
            raise ArgumentError(f"an array of shape {sizes} and {kind} is larger than any memory")
        return cls(_device(device).allocate(nbytes), sizes, kind)

    @classmethod
    def beside(cls, model: Buffer, shape: tuple[int, ...]) -> Buffer:
        """An uninitialised C-contiguous array of the dtype and device of ``model``, with nothing checked: ``shape`` is one of integers."""
        made = cls.__new__(cls)
        made.dtype, made.shape, made.offset = model.dtype, shape, 0
        made.strides = packed(shape, model.dtype.itemsize)
        made.memory = model.memory.device.allocate(prod(shape) * model.dtype.itemsize)
        return made

    @classmethod
    def from_numpy(cls, array: NDArray[Any], device: Device | str | None = None, queue: Queue | None = None) -> Buffer:
        """A copy of ``array`` on ``device``; returns when the array may change again."""
        refuse_masks(array, "the array")
        source = np.ascontiguousarray(array).reshape(np.shape(array))
        if source.dtype.hasobject:
            raise ArgumentError("an array of Python objects has no place on a device")
        place = queue.device if queue is not None and device is None else _device(device)
        buffer = cls(place.allocate(source.nbytes), source.shape, source.dtype)
        staging.upload(queue or place.default_queue(), buffer.memory, source)
        return buffer

    @classmethod
    def wrap(cls, array: Any) -> Buffer:
        """Another library's CUDA array (CuPy, PyTorch, Numba, JAX) as a Buffer: no copy, the array is kept alive.

        Work on it belongs on ``caller_stream(array)``. Raises ArgumentError for what lies in no CUDA memory.
        """
        if isinstance(array, Buffer):
            return array
        view = _foreign(array)
        place = devices.get(f"cuda:{view.device_id}")
        low, high = _span(view.shape, view.strides, view.dtype.itemsize)
        memory = place.adopt(view.pointer + low, high - low, view.owner)
        return cls(memory, view.shape, view.dtype, view.strides, -low)

    @property
    def device(self) -> Device:
        """The device whose memory it is."""
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
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Buffer:
        """The transposed view."""
        return Buffer(self.memory, self.shape[::-1], self.dtype, self.strides[::-1], self.offset)

    def __getitem__(self, key: Any) -> Buffer:
        """A view by integers, slices, ``...`` and ``None``, with NumPy's meaning."""
        if type(key) is int and self.shape and self.size and -self.shape[0] <= key < self.shape[0]:  # one of a batch, say
            begin = self.offset + key % self.shape[0] * self.strides[0]
            return Buffer(self.memory, self.shape[1:], self.dtype, self.strides[1:], begin)
        model: NDArray[Any] = as_strided(np.empty(1, self.dtype), self.shape, self.strides)  # never read: only its strides
        keys = key if isinstance(key, tuple) else (key,)
        if not all(k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer)) for k in keys):
            raise ArgumentError(f"{key!r} would copy; a Buffer is indexed by integers and slices")
        view = model[(*keys, ...)] if Ellipsis not in keys else model[keys]  # with ..., one element stays an array
        return Buffer(self.memory, view.shape, self.dtype, view.strides, self.offset + (_begin(view) - _begin(model) if view.size else 0))

    def numpy(self, queue: Queue | None = None) -> NDArray[Any]:
        """A copy on the host; waits for what ``queue`` (default: the device's default queue) holds."""
        low, high = self._extent()
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        raw = np.empty(high - low, np.uint8)
        staging.download(queue or self.device.default_queue(), raw, self.memory, low)
        view = np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)
        return view if view.flags.c_contiguous and view.nbytes == raw.nbytes else view.copy()

    def assign(self, array: NDArray[Any], queue: Queue | None = None) -> None:
        """Copy a host array of the same shape and dtype into a C-contiguous Buffer; returns when the array may change again."""
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"a {type(array).__name__} cannot be assigned; convert it with numpy.asarray")
        refuse_masks(array, "the array")
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ArgumentError(f"an array of {array.dtype} {array.shape} does not fit a Buffer of {self.dtype} {self.shape}")
        if self.strides != packed(self.shape, self.dtype.itemsize):
            raise ArgumentError("only a C-contiguous Buffer can be assigned to")
        staging.upload(queue or self.device.default_queue(), self.memory, np.ascontiguousarray(array), self.offset)

    def release(self) -> None:
        """Give the memory back, also under every view of it."""
        self.memory.release()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        raise ArgumentError(f"{self!r} lies in a device's memory, where NumPy does not reach; copy it to the host with .numpy()")

    def __repr__(self) -> str:
        return f"Buffer(shape={self.shape}, dtype={self.dtype.name}, device={self.device.info.id})"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3; the stream is that of the device's default queue. OpenCL buffers have none (AttributeError)."""
        pointer = self._pointer("__cuda_array_interface__")
        stream = int(getattr(self.device.default_queue(), "stream", None) or LEGACY_STREAM)
        data = {"shape": self.shape, "typestr": self.dtype.str, "data": (pointer, False), "strides": self.strides}
        return {**data, "version": 3, "stream": stream}

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> object:
        """A DLPack capsule; the consumer's ``stream`` waits for the default queue first."""
        pointer = self._pointer("__dlpack__")
        if stream != -1:
            with self.device.foreign_queue(LEGACY_STREAM if stream in (None, 0) else int(stream or 0)) as queue:
                queue.wait_for(self.device.default_queue().marker())
        return export(Strided(pointer, self.shape, self.strides, self.dtype, self.__dlpack_device__()[1], self.memory))

    def __dlpack_device__(self) -> tuple[int, int]:
        self._pointer("__dlpack_device__")
        return CUDA_DEVICE, int(self.device.info.id.split(":")[1])

    def _pointer(self, what: str) -> int:
        handle = self.memory.handle
        if not self.device.info.can.addresses:
            raise AttributeError(f"{what}: {self.device.info.id} is no CUDA device; copy with numpy()")
        if handle is None:
            raise ArgumentError("this memory has been released")
        return int(handle) + self.offset

    def _extent(self) -> tuple[int, int]:
        """The first byte of the memory that elements use, and the one past the last."""
        low, high = _span(self.shape, self.strides, self.dtype.itemsize)
        return self.offset + low, self.offset + high


@cache
def _cuda() -> Any:
    """What knows whose memory a pointer is; loaded for the first pointer, since it loads the driver's bindings."""
    return import_module("portatile.device.cuda.survey")


def caller_stream(array: Any) -> int:
    """The CUDA stream on which the library that owns ``array`` now works: PyTorch's and CuPy's current stream.

    Others say theirs in ``__cuda_array_interface__``, and mean the default stream where they say nothing.
    """
    library = type(array).__module__.split(".")[0]
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream) or LEGACY_STREAM
    if library == "cupy":
        with array.device:
            return int(sys.modules["cupy"].cuda.get_current_stream().ptr) or LEGACY_STREAM
    return int(getattr(array, "__cuda_array_interface__", {}).get("stream") or LEGACY_STREAM)


def is_cuda_array(array: Any) -> bool:
    """Whether ``array`` lies in CUDA memory by its own account."""
    if isinstance(array, np.ndarray):
        return False
    if isinstance(array, Buffer):
        return array.device.info.can.addresses
    told = getattr(array, "is_cuda", None)  # PyTorch's tensors; what they say below takes 5 us
    if told is not None:
        return bool(told)
    if hasattr(array, "__cuda_array_interface__"):
        return True
    place = getattr(array, "__dlpack_device__", None)
    return place is not None and int(place()[0]) == CUDA_DEVICE


def refuse_masks(array: Any, name: str) -> None:
    """Raise ArgumentError for a masked array in which something is masked: only its data would be used."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        example = f", for example with {name}.filled(0)" if name.isidentifier() else " with its method filled"
        raise ArgumentError(f"{name} is a masked array, whose mask would be lost; fill it{example}")


def _kind(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ArgumentError(f"dtype={dtype!r} is no type of elements; write for example 'float32'") from None
    if kind.hasobject:
        raise ArgumentError("an array of Python objects has no place on a device")
    return kind


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(index(n) for n in shape)
    except TypeError:
        raise ArgumentError(f"shape={shape!r} must be a tuple of whole numbers") from None
    if min(sizes, default=0) < 0:
        raise ArgumentError(f"shape {sizes} has a negative size")
    return sizes


def _device(chosen: Device | str | None) -> Device:
    return chosen if isinstance(chosen, Device) else devices.get(chosen)


def _foreign(array: Any) -> Strided:
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        strides = tuple(interface.get("strides") or packed(shape, dtype.itemsize))
        pointer = int(interface["data"][0])
        return Strided(pointer, shape, strides, dtype, _cuda().ordinal(pointer), array)
    if hasattr(array, "__dlpack__") and is_cuda_array(array):
        return take(array.__dlpack__(stream=caller_stream(array)))
    raise ArgumentError(f"a {type(array).__name__} lies in no CUDA memory that can be seen; pass NumPy, CuPy or PyTorch arrays")


@lru_cache(4096)
def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + itemsize


def _begin(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
