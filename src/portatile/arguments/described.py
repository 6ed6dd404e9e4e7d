"""Descriptions of arrays for the keys of recorded calls: equal for calls that run alike. Addresses are kept apart from them.

Each library has its own class, which uses the fastest attributes and methods that its arrays have. The common protocol,
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

MASK = 127  # the alignment of an address is its lowest set bit, up to 64; 0 stands for 128 bytes and better
_SPACE = 48  # bits of an offset within a memory that has no address of its own; the bits above tell such memories apart


Check = Callable[[Sequence[Any]], bool]
"""Tells whether arrays are described as those that it was made for, all but their addresses."""
Maker = Callable[[Any], tuple[Any, int]]
"""Gives a new array beside another one, and the address of its first element."""


class Guard(NamedTuple):
    """Knows so many arrays that are described as those that it was made for, and begin at multiples of 128 bytes."""

    check: Check
    locate: Callable[[Any], int]
    number: int

    def places(self, arrays: Sequence[Any]) -> list[int] | None:
        """The addresses of such arrays; None for others."""
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
    """A library's arrays. Instances are stateless; ``kind`` is the exact type that the first of a call has."""

    on_host = False
    guards = False  # whether ``checking`` may give something
    locate: Callable[[Any], int]  # as ``place``, sooner; for libraries that have guards
    streams = False  # whether it has streams of its own; otherwise work belongs on a device's default queue
    mixed = False  # whether some of its arrays lie on the host

    def __init__(self, kind: type) -> None:
        self.kind = kind

    @abstractmethod
    def describe(self, arrays: Sequence[Any], key: list[object]) -> list[int] | None:
        """The addresses of the arrays' first elements. Appends to ``key`` whatever else decides how a call on them runs.

        None for an array of another type, one whose memory has been released, and one that its memory alone does not describe.
        """

    @abstractmethod
    def place(self, array: Any) -> int:
        """The address of an array's first element."""

    def checking(self, arrays: Sequence[Any]) -> Check | None:
        """A check of arrays that passes those that are described as these, whatever their addresses, sooner than ``describe`` does.

        None where there is nothing such.
        """
        return None

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        """A function that makes uninitialised arrays like ``made``, an array of another library, on the same device.

        ``kind`` is their dtype where it is not that of the others.
        """
        shape = tuple(made.shape)

        def make(model: Any) -> tuple[Any, int]:
            array = new(model, shape, kind)
            return array, self.place(array)

        return make

    def stream(self, array: Any) -> int:
        """The library's current stream on the device of ``array``; -1 where it has none."""
        return -1

    def current_stream(self, array: Any) -> Callable[[], int]:
        """What tells the library's current streams on the device of ``array`` apart, by numbers of its own."""
        return lambda: -1


class Numpy(Library):
    """NumPy's own arrays."""

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
    """The address of a Buffer's first element; raises TypeError for one that was released, or whose memory has no address."""
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
        """By the descriptions that Buffers keep; none of memory that has no address."""
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
    """The description of a Buffer, without its address; it never changes, so the Buffer keeps it."""
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
        internal = getattr(getattr(bindings, "_dynamo", None), "guards", None)  # what code that torch.compile generates calls
        self._guards = getattr(internal, "TensorGuards", None)
        self._empty = getattr(internal, "_empty_strided_cuda", None)  # without the dispatcher, which takes longer than the allocation
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
        """By what ``torch.compile`` guards its graphs with: one call compares type, dtype, device, shape, strides, lazy conjugation and
        whether gradients are recorded of all tensors, and the thread's modes, such as autocast. It refuses tensors that are one.
        """
        if self._guards is None or self._watched():
            return None
        first = [next(at for at, other in enumerate(arrays) if other is array) for array in arrays]
        if len(set(first)) < len(first):  # some are the same tensor: then the others are compared, and these are the same again
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
        except (RuntimeError, TypeError):  # no public interface: another version may ask for more
            return None
        forward = self._forward
        return (lambda given: guards(*given)) if forward is None else (lambda given: forward._current_level < 0 and guards(*given))

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        shape = tuple(made.shape)
        if kind is not None:
            return super().maker(made, kind)

        def make(model: Any) -> tuple[Any, int]:
            array = model.new_empty(shape)
            return array, array.data_ptr()

        empty = self._empty
        if empty is None or not made.is_cuda or not made.is_contiguous():
            return make
        strides, dtype, place, current = tuple(made.stride()), made.dtype, made.get_device(), sys.modules["torch"]._C._cuda_getDevice

        def make_there(model: Any) -> tuple[Any, int]:
            if current() != place:  # which ``empty`` takes
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
        """By what a function of C reads of an array at once."""
        seen = attrgetter("__class__", "shape", "strides", "dtype", "data.device_id")
        expected = list(map(seen, arrays))
        return lambda given: list(map(seen, given)) == expected

    def maker(self, made: Any, kind: np.dtype[Any] | None) -> Maker:
        create, shape, dtype = self.kind, tuple(made.shape), made.dtype

        def make(model: Any) -> tuple[Any, int]:
            array: Any = create(shape, dtype)
            return array, array.data.ptr

        def make_beside(model: Any) -> tuple[Any, int]:
            with model.device:  # which need not be the current one
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


known: dict[type, Library | None] = {}
"""The answers of ``library_of`` so far."""


def library_of(kind: type) -> Library | None:
    """The library whose arrays are of this very type; None for subclasses, and for libraries that have no class here."""
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
