"""A device of portatile on which CUDA kernels run in the interpreter: what needs a GPU is tested without one, on small problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Argument, Device, Image, Memory, Queue
from portatile.device.event import Event
from portatile.device.module import LoadedKernel, Module
from portatile.errors import ArgumentError
from portatile.images import ImageForm, Sampler, check_form
from portatile.records import Binary, DeviceInfo, Resources, Size3, TensorMap
from support.compiling import Interpreted
from support.ptx_machine.bulk import map_bytes
from support.ptx_machine.machine import Machine
from support.ptx_machine.thread import GlobalMemory

INFO = DeviceInfo(
    id="ptx:0",
    backend="cuda",
    name="PTX interpreter",
    vendor="NVIDIA",
    platform="CUDA",
    kind="gpu",
    architecture="sm_90",
    driver="0",
    compiler="NVRTC",
    compute_units=132,
    local_memory=227 * 1024,
    global_memory=2**31,
    max_allocation=2**30,
    max_work_group_size=1024,
    max_work_item_sizes=(1024, 1024, 64),
    fp64=True,
    fp16=True,
    images=True,
    image_2d_max=(131072, 65000),
    unified_memory=False,
    physical_id="ptx",
    image_buffer_max=2**27,
)


class PtxMemory(Memory):
    """A block of the interpreter's global memory; never given back."""

    def __init__(self, device: PtxDevice, nbytes: int, address: int | None = None) -> None:
        self.device, self.nbytes = device, nbytes
        self.address = device.memory.allocate(bytes([0xCB]) * nbytes) if address is None else address

    @property
    def handle(self) -> int:
        return self.address

    def release(self) -> None:
        pass


class PtxImage(PtxMemory, Image):
    """Packed pixels, in memory of its own or in that at ``address``."""

    def __init__(self, device: PtxDevice, form: ImageForm, address: int | None = None) -> None:
        super().__init__(device, form.nbytes, address)
        self.form = form
        self.fields = device.memory.texture(self.address, form)


class _Done(Event):
    """Everything is done at once."""

    def wait(self) -> None:
        pass

    @property
    def done(self) -> bool:
        return True

    def seconds_since(self, earlier: Event) -> float:
        return 0.0


class _Kernel(LoadedKernel):
    def __init__(self, binary: Binary, name: str, machine: Machine) -> None:
        self.name, self.entry, self.machine = name, binary.entry(name), machine
        self.resources = Resources()


class _Module(Module):
    def __init__(self, device: PtxDevice, binary: Binary) -> None:
        self._binary, self._machine = binary, Machine(binary.data.decode(), device.memory, device.limit)

    def kernel(self, name: str) -> LoadedKernel:
        return _Kernel(self._binary, name, self._machine)

    def release(self) -> None:
        pass


class PtxQueue(Queue):
    """Runs each command when it is given."""

    def __init__(self, device: PtxDevice) -> None:
        self.device: PtxDevice = device
        self.profiling = self.out_of_order = False

    def launch(
        self, kernel: LoadedKernel, global_size: Size3, local_size: Size3, args: Sequence[Argument], wait: Sequence[Event] = ()
    ) -> Event | None:
        assert isinstance(kernel, _Kernel)
        if len(args) != len(kernel.entry.parameters):
            raise ArgumentError(f"{kernel.name} takes {len(kernel.entry.parameters)} arguments, not {len(args)}")
        assert kernel.entry.work_group in (None, tuple(local_size))
        assert all(g % n == 0 for g, n in zip(global_size, local_size, strict=True))
        values, dynamic = [], 0
        for arg in args:
            if isinstance(arg, PtxImage):
                check_form(kernel.entry, len(values), arg.form)
                values.append(arg.fields)
            elif isinstance(arg, Sampler):
                values.append(arg.bits.to_bytes(4, "little"))
            elif isinstance(arg, PtxMemory):
                values.append(arg.address.to_bytes(8, "little"))
            elif type(arg) is int:
                values.append(dynamic.to_bytes(4, "little"))
                dynamic += -(-arg // 128) * 128
            else:
                assert isinstance(arg, np.generic)
                values.append(arg.tobytes())
        grid = [g // n for g, n in zip(global_size, local_size, strict=True)]
        kernel.machine.launch(kernel.entry.symbol, grid, local_size, values, dynamic)
        return None

    def upload(self, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        assert isinstance(target, PtxMemory)
        assert offset + array.nbytes <= target.nbytes
        self.device.memory.write(target.address + offset, np.ascontiguousarray(array).tobytes())
        return _Done()

    def download(self, array: NDArray[Any], source: Memory, offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        assert isinstance(source, PtxMemory)
        assert offset + array.nbytes <= source.nbytes
        array[...] = np.frombuffer(self.device.memory.read(source.address + offset, array.nbytes), array.dtype).reshape(array.shape)
        return _Done()

    def copy(
        self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0, wait: Sequence[Event] = ()
    ) -> Event:
        assert isinstance(target, PtxMemory)
        assert isinstance(source, PtxMemory)
        self.device.memory.write(target.address + target_offset, self.device.memory.read(source.address + source_offset, nbytes))
        return _Done()

    def fill(self, target: Memory, pattern: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        assert isinstance(target, PtxMemory)
        size = target.nbytes - offset if nbytes is None else nbytes
        self.device.memory.write(target.address + offset, pattern * (size // len(pattern)))

    def marker(self) -> Event:
        return _Done()

    def wait_for(self, event: Event) -> None:
        pass

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def release(self) -> None:
        pass


class PtxDevice(Device):
    """One interpreter with its memory, for one architecture. ``limit`` bounds the instructions of a launch."""

    def __init__(self, info: DeviceInfo = INFO, limit: int = 100_000_000) -> None:
        self.info, self.limit = info, limit
        self.target = Interpreted(info.architecture)
        self.memory = GlobalMemory()

    def load(self, binary: Binary) -> Module:
        return _Module(self, binary)

    def allocate(self, nbytes: int) -> Memory:
        return PtxMemory(self, nbytes)

    def image_of(self, form: ImageForm) -> Image:
        return PtxImage(self, form)

    def _part(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        assert isinstance(memory, PtxMemory)
        return PtxMemory(self, nbytes, memory.address + offset)

    def _view(self, memory: Memory, form: ImageForm) -> Image:
        assert isinstance(memory, PtxMemory)
        return PtxImage(self, form, memory.address)

    def share(self, array: NDArray[Any]) -> Memory | None:
        return None

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        return np.empty(nbytes, np.uint8)

    def tensor_map(self, memory: Memory, form: TensorMap) -> np.void:
        assert isinstance(memory, PtxMemory)
        self.memory.maps.append((memory.address, form))
        return np.void(map_bytes(len(self.memory.maps) - 1))

    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        return PtxQueue(self)

    def default_queue(self) -> Queue:
        return PtxQueue(self)

    def release(self) -> None:
        self.memory = GlobalMemory()
