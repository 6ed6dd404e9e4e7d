"""Arrays of other libraries that hold the bytes of NumPy arrays and lie as those do: Buffers, PyTorch's tensors, CuPy's arrays."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attack import AttackError
from portatile import device as devices
from portatile import dtypes
from portatile.device.buffer import Buffer

Array = NDArray[Any]


class Library(ABC):
    """A library of arrays: ``carry`` makes one of its own, ``back`` brings all that were made back to the host."""

    backwards = True  # whether strides may be negative
    kind: type

    def __init__(self, device: str) -> None:
        self.device = device
        self._held: dict[int, tuple[Array, Any]] = {}  # of each piece of the host's memory, by its address

    @property
    def name(self) -> str:
        """What an outcome is called by."""
        return type(self).__name__

    def carry(self, raw: Array, view: Array) -> Any:
        """An array that lies in the bytes of ``raw`` as ``view`` does in ``raw`` itself."""
        place = raw.__array_interface__["data"][0]
        if place not in self._held:
            self._held[place] = raw, self._memory(raw)
        return self._within(self._held[place][1], view, view.__array_interface__["data"][0] - place)

    def plain(self, array: Array) -> Any:
        """A copy of a contiguous array."""
        return self._within(self._memory(array.reshape(-1).view(np.uint8)), array, 0)

    def numpy(self, array: Any) -> Array:
        """A result on the host. Raises AttackError where it is not of this library."""
        if type(array) is not self.kind:
            raise AttackError(f"the result is a {type(array).__name__}, not a {self.kind.__name__}")
        return self._host(array)

    def back(self) -> None:
        """Write what the arrays' memory holds into the host's."""
        for raw, memory in self._held.values():
            raw[...] = self._host(memory)

    def renew(self) -> None:
        """Write what the host's memory holds into the arrays'."""
        for raw, memory in self._held.values():
            self._renew(memory, raw)

    def place(self, rng: random.Random) -> AbstractContextManager[Any]:
        """A stream to call from, or nothing."""
        return nullcontext()

    def wait(self) -> None:
        """Until the device has done everything."""
        devices.get(self.device).default_queue().finish()

    @abstractmethod
    def _memory(self, raw: Array) -> Any:
        """The bytes as an array of this library."""

    @abstractmethod
    def _within(self, memory: Any, view: Array, offset: int) -> Any:
        """An array of the shape, dtype and strides of ``view``, from a byte of ``memory`` on."""

    @abstractmethod
    def _host(self, array: Any) -> Array: ...

    @abstractmethod
    def _renew(self, memory: Any, raw: Array) -> None: ...


class Buffers(Library):
    """portatile's own."""

    kind = Buffer

    def _memory(self, raw: Array) -> Any:
        return Buffer.from_numpy(raw, self.device)

    def _within(self, memory: Any, view: Array, offset: int) -> Any:
        return Buffer(memory.memory, view.shape, view.dtype, view.strides, memory.offset + offset)

    def _host(self, array: Any) -> Array:
        return array.numpy()  # type: ignore[no-any-return]

    def _renew(self, memory: Any, raw: Array) -> None:
        memory.assign(raw)


class Torch(Library):
    """PyTorch's tensors: in CUDA memory for a CUDA device, on the host for others."""

    backwards = False

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._torch: Any = import_module("torch")
        self.kind = self._torch.Tensor
        self._where = device if device.startswith("cuda") else "cpu"

    def place(self, rng: random.Random) -> AbstractContextManager[Any]:
        cuda = self._torch.cuda
        return cuda.stream(cuda.Stream(self._where)) if self._where != "cpu" and rng.random() < 0.5 else nullcontext()  # type: ignore[no-any-return]

    def wait(self) -> None:
        super().wait()
        if self._where != "cpu":
            self._torch.cuda.synchronize(self._where)

    def _memory(self, raw: Array) -> Any:
        return self._torch.from_numpy(raw).clone().to(self._where)

    def _within(self, memory: Any, view: Array, offset: int) -> Any:
        size = view.itemsize
        flat = memory[: len(memory) // size * size].view(getattr(self._torch, dtypes.name_of(view.dtype)))
        return flat.as_strided(view.shape, [stride // size for stride in view.strides], offset // size)

    def _host(self, array: Any) -> Array:
        dtype = dtypes.ELEMENTS[str(array.dtype).rpartition(".")[2]].numpy if array.dtype != self._torch.uint8 else np.dtype("u1")
        if array.numel() == 0:
            return np.empty(tuple(array.shape), dtype)
        packed = array.new_empty(tuple(array.shape)).copy_(array).reshape(-1)
        return packed.view(self._torch.uint8).cpu().numpy().view(dtype).reshape(tuple(array.shape))  # type: ignore[no-any-return]

    def _renew(self, memory: Any, raw: Array) -> None:
        memory.copy_(self._torch.from_numpy(raw))


class Cupy(Library):
    """CuPy's arrays, for a CUDA device."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._cupy: Any = import_module("cupy")
        self.kind = self._cupy.ndarray

    def place(self, rng: random.Random) -> AbstractContextManager[Any]:
        return self._cupy.cuda.Stream(non_blocking=rng.random() < 0.5) if rng.random() < 0.5 else nullcontext()

    def wait(self) -> None:
        super().wait()
        self._cupy.cuda.Device().synchronize()

    def _memory(self, raw: Array) -> Any:
        return self._cupy.asarray(raw)

    def _within(self, memory: Any, view: Array, offset: int) -> Any:
        return self._cupy.ndarray(view.shape, view.dtype, memory.data + offset, view.strides)

    def _host(self, array: Any) -> Array:
        return self._cupy.asnumpy(array)  # type: ignore[no-any-return]

    def _renew(self, memory: Any, raw: Array) -> None:
        memory.set(raw)


def there(device: str) -> list[type[Library]]:
    """The libraries that are installed, for a device."""
    found: list[type[Library]] = [Buffers]
    if find_spec("torch") is not None:
        found.append(Torch)
    if find_spec("cupy") is not None and device.startswith("cuda"):
        found.append(Cupy)
    return found
