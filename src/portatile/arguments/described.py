"""Descriptions of arrays, which are the keys of recorded calls: calls with equal descriptions run alike. Addresses are not part of them.

Each library has its own class, which uses the fastest attributes and methods of its arrays. The common protocol,
``__cuda_array_interface__``, takes ten times as long.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from portatile.arguments.outputs import new
from portatile.device.buffer import Buffer
from portatile.device.copies import address
from portatile.device.foreign_arrays import LEGACY_STREAM, watching

MASK = 127  # the alignment of an address is its lowest set bit, up to 64; 0 stands for 128 bytes or more
_SPACE = 48  # bits of the offset in memory without an address; the higher bits identify the memory


Check = Callable[[Sequence[Any]], bool]
"""Tells whether arrays have the same description as those that it was made for, disregarding their addresses."""
Maker = Callable[[Any], tuple[Any, int]]
"""Makes a new array on the device of a given one; also returns the address of its first element."""


class Guard(NamedTuple):
    """Recognises arrays with the description of those that it was made for, if their addresses are multiples of 128."""

    check: Check
    locate: Callable[[Any], int]
    number: int

    def places(self, arrays: Sequence[Any]) -> list[int] | None:
        """The addresses of recognised arrays; None for others."""
        try:
            if len(arrays) != self.number or not self.check(arrays):
                return None
            places = list(map(self.locate, arrays))
        except (AttributeError, TypeError):  # arrays of another library
            return None
        for place in places:
            if place & MASK:
                return None
        return places


class Library(ABC):
    """A library's arrays. Instances are stateless; ``kind`` is the exact type of a call's first array."""

    on_host = False
    guards = False  # whether ``checking`` may return a check
    locate: Callable[[Any], int]  # a faster ``place``, of libraries with guards
    streams = False  # whether the library has streams; otherwise work belongs on the device's default queue
    mixed = False  # whether some of its arrays are on the host

    def __init__(self, kind: type) -> None:
        self.kind = kind

    @abstractmethod
    def describe(self, arrays: Sequence[Any], key: list[object]) -> list[int] | None:
        """The addresses of the arrays' first elements. Appends to ``key`` everything else that decides how a call on them runs.

        None for an array of another type, for released memory, and for an array whose memory alone does not determine its values.
        """

    @abstractmethod
    def place(self, array: Any) -> int:
        """The address of an array's first element."""

    def checking(self, arrays: Sequence[Any]) -> Check | None:
        """A check that accepts arrays with the description of these, whatever their addresses, and is faster than ``describe``.

        None if there is no such check.
        """
        return None

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        """A function that makes uninitialised arrays like ``made``, on the device of the array that it is given.

        ``kind`` is their dtype, if it differs from that of ``made``.
        """
        shape, by_columns = tuple(made.shape), _by_columns(made)

        def make(model: Any) -> tuple[Any, int]:
            array = new(model, shape, kind, by_columns)
            return array, self.place(array)

        return make

    def stream(self, array: Any) -> int:
        """The library's current stream on the device of ``array``; -1 if it has no streams."""
        return -1

    def current_stream(self, array: Any) -> Callable[[], int]:
        """A function that returns a number which identifies the library's current stream on the device of ``array``."""
        return lambda: -1


class Numpy(Library):
    """NumPy arrays."""

    on_host = True

    def place(self, array: Any) -> int:
        return address(array)

    def describe(self, arrays: Sequence[Any], key: list[object]) -> list[int] | None:
        kind: Any = self.kind
        places: list[int] = []
        for array in arrays:
            if type(array) is not kind:
                return None
            place = address(array)
            places.append(place)
            key.append((array.shape, array.strides, array.dtype, array.flags.num, place & MASK and place & -place & MASK))
        return places


def _address(array: Buffer) -> int:
    """The address of a Buffer's first element; raises TypeError for a released Buffer, and for memory without an address."""
    return array.memory.handle + array.offset  # type: ignore[no-any-return]


class Buffers(Library):
    """portatile's own arrays."""

    guards = True
    locate = staticmethod(_address)

    def place(self, array: Any) -> int:
        base = array.memory.handle
        return int(base if type(base) is int else id(array.memory) << _SPACE) + int(array.offset)

    def describe(self, arrays: Sequence[Any], key: list[object]) -> list[int] | None:
        kind: Any = self.kind
        places: list[int] = []
        for array in arrays:
            if type(array) is not kind:
                return None
            base = array.memory.handle
            if type(base) is not int:
                if base is None:  # released
                    return None
                base = id(array.memory) << _SPACE
            places.append(base + array.offset)
            key.append(array.described or _described(array, base))
        return places

    def checking(self, arrays: Sequence[Any]) -> Check | None:
        """A check by the cached descriptions of Buffers; None for memory without addresses."""
        expected = [array.described for array in arrays]
        if None in expected or any(type(array.memory.handle) is not int for array in arrays):
            return None
        return lambda given: [array.described or _described(array, array.memory.handle) for array in given] == expected

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        shape, dtype, strides, nbytes, allocate = made.shape, made.dtype, made.strides, made.nbytes, made.device.allocate

        def make(model: Any) -> tuple[Any, int]:
            memory = allocate(nbytes)
            base = memory.handle
            return Buffer.over(memory, shape, dtype, strides), base if type(base) is int else id(memory) << _SPACE

        return make


def _described(array: Buffer, base: int) -> tuple[object, ...]:
    """The description of a Buffer without its address; it never changes, so the Buffer caches it."""
    alignment = base & MASK and base & -base & MASK
    memory = array.memory
    array.described = description = (array.shape, array.strides, array.dtype, array.offset, memory.device, memory.generation, alignment)
    return description


BUFFERS = Buffers(Buffer)


class Torch(Library):
    """PyTorch's tensors, and parameters of its modules."""

    streams = mixed = True

    def __init__(self, kind: type) -> None:
        super().__init__(kind)
        torch: Any = sys.modules["torch"]
        plain: Any = getattr(torch, "Tensor", kind)
        self._kinds = {plain, getattr(getattr(torch, "nn", None), "Parameter", kind)}
        bindings, self._gradients = torch._C, torch.is_grad_enabled
        self._stream = getattr(bindings, "_cuda_getCurrentRawStream", None)
        internal = getattr(getattr(bindings, "_dynamo", None), "guards", None)  # called by the code that torch.compile generates
        self._guards = getattr(internal, "TensorGuards", None)
        self._empty = getattr(internal, "_empty_strided_cuda", None)  # bypasses the dispatcher, which takes longer than the allocation
        self._forward = getattr(getattr(torch, "autograd", None), "forward_ad", None)
        self._watched = watching()
        self.guards = self._guards is not None
        self.locate = plain.data_ptr

    def describe(self, arrays: Sequence[Any], key: list[object]) -> list[int] | None:
        kinds = self._kinds
        places: list[int] = []
        if self._watched():
            return None
        for array in arrays:
            if type(array) not in kinds:
                return None
            if array.is_conj() or array.is_neg() or (array.requires_grad and self._gradients()):
                return None
            place = array.data_ptr()
            places.append(place)
            key.append((array.shape, array.stride(), array.dtype, array.get_device(), place & MASK and place & -place & MASK))
        return places

    def place(self, array: Any) -> int:
        return array.data_ptr()  # type: ignore[no-any-return]

    def checking(self, arrays: Sequence[Any]) -> Check | None:
        """A check by the guards of ``torch.compile``: one call compares type, dtype, device, shape, strides, lazy conjugation and
        requires_grad of all tensors, and the thread's modes, such as autocast. It does not accept the same tensor twice.
        """
        if self._guards is None or self._watched():
            return None
        first = [next(at for at, other in enumerate(arrays) if other is array) for array in arrays]
        if len(set(first)) < len(first):  # some arguments are the same tensor: only distinct ones are guarded, and identities are compared
            places = sorted(set(first))
            others = self.checking([arrays[at] for at in places])
            if others is None:
                return None
            (again, before), *more = [(at, place) for at, place in enumerate(first) if place < at]
            if not more and len(places) > 1:  # an output that is an operand
                pick = itemgetter(*places)
                return lambda given: given[again] is given[before] and others(pick(given))
            return lambda given: (
                all(given[at] is one for at, one in zip(first, given, strict=True)) and others([given[at] for at in places])
            )
        sizes, strides = [list(array.shape) for array in arrays], [list(array.stride()) for array in arrays]
        try:
            guards = self._guards(*arrays, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
            if not guards(*arrays):
                return None
        except (RuntimeError, TypeError):  # not a public interface: another version may need other arguments
            return None
        forward = self._forward
        return (lambda given: guards(*given)) if forward is None else (lambda given: forward._current_level < 0 and guards(*given))

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        shape = tuple(made.shape)
        if kind is not None or _by_columns(made):
            return super().maker(made, kind)

        def make(model: Any) -> tuple[Any, int]:
            array = model.new_empty(shape)
            return array, array.data_ptr()

        empty = self._empty
        if empty is None or not made.is_cuda or not made.is_contiguous():
            return make
        strides, dtype, place, current = tuple(made.stride()), made.dtype, made.get_device(), sys.modules["torch"]._C._cuda_getDevice

        def make_there(model: Any) -> tuple[Any, int]:
            if current() != place:  # ``empty`` allocates on the current device
                return make(model)
            array = empty(shape, strides, dtype)
            return array, array.data_ptr()

        return make_there

    def stream(self, array: Any) -> int:
        if self._stream is not None:
            return self._stream(array.get_device()) or LEGACY_STREAM
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream) or LEGACY_STREAM

    def current_stream(self, array: Any) -> Callable[[], int]:
        if self._stream is not None:
            return partial(self._stream, array.get_device())
        current, place = sys.modules["torch"].cuda.current_stream, array.device
        return lambda: int(current(place).cuda_stream)


class Cupy(Library):
    """CuPy's arrays."""

    streams = guards = True

    def __init__(self, kind: type) -> None:
        super().__init__(kind)
        cuda = sys.modules["cupy"].cuda
        self._stream = cuda.get_current_stream
        self._alone = int(cuda.runtime.getDeviceCount()) == 1
        self.locate = attrgetter("data.ptr")

    def describe(self, arrays: Sequence[Any], key: list[object]) -> list[int] | None:
        kind: Any = self.kind
        places: list[int] = []
        for array in arrays:
            if type(array) is not kind:
                return None
            data = array.data
            place = data.ptr
            places.append(place)
            key.append((array.shape, array.strides, array.dtype, data.device_id, place & MASK and place & -place & MASK))
        return places

    def place(self, array: Any) -> int:
        return array.data.ptr  # type: ignore[no-any-return]

    def checking(self, arrays: Sequence[Any]) -> Check | None:
        """A check by the attributes that one C function reads at once."""
        seen = attrgetter("__class__", "shape", "strides", "dtype", "data.device_id")
        expected = list(map(seen, arrays))
        return lambda given: list(map(seen, given)) == expected

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        if _by_columns(made):
            return super().maker(made, kind)
        create, shape, dtype = self.kind, tuple(made.shape), made.dtype

        def make(model: Any) -> tuple[Any, int]:
            array: Any = create(shape, dtype)
            return array, array.data.ptr

        def make_beside(model: Any) -> tuple[Any, int]:
            with model.device:  # may differ from the current device
                return make(model)

        return make if self._alone else make_beside

    def stream(self, array: Any) -> int:
        return self.current_stream(array)() or LEGACY_STREAM

    def current_stream(self, array: Any) -> Callable[[], int]:
        current = self._stream
        if self._alone:
            return lambda: current().ptr
        place = array.device

        def there() -> int:
            with place:
                return current().ptr  # type: ignore[no-any-return]

        return there


def _by_columns(made: Any) -> bool:
    """Whether a new result is column-major: those of operands that are."""
    strides = made.stride() if callable(getattr(made, "stride", None)) else made.strides
    return len(strides) > 1 and bool(strides[-1] > strides[-2])


known: dict[type, Library | None] = {}
"""The results of ``library_of`` so far."""


def library_of(kind: type) -> Library | None:
    """The library whose arrays have exactly this type; None for subclasses, and for libraries without a class here."""
    try:
        return known[kind]
    except KeyError:
        return known.setdefault(kind, _library(kind))


def _library(kind: type) -> Library | None:
    name = kind.__module__.split(".")[0], kind.__name__
    if kind is np.ndarray:
        return Numpy(kind)
    if kind is Buffer:
        return Buffers(kind)
    if name in (("torch", "Tensor"), ("torch", "Parameter")):
        return Torch(kind)
    if name == ("cupy", "ndarray"):
        return Cupy(kind)
    return None
