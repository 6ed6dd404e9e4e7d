"""A GPU that only takes notes: the CUDA back end on a driver that runs nothing, and tensors that say where they would lie.

Kernels are compiled by NVRTC, which needs no GPU; what the driver would be given of each launch is kept as bytes.
"""

from __future__ import annotations

import ctypes
import re
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import pytest

from portatile import device as devices
from portatile.device.backend import Survey
from portatile.device.cuda import context, early_start, event, graph, graph_memory, image, kernel, memory, packed, queue, survey
from portatile.device.cuda import device as cuda_device
from portatile.device.cuda import driver as cuda_driver
from portatile.device.cuda.device import CudaDevice
from portatile.device.cuda.image import LinearTextures
from portatile.device.cuda.tensor_map import SIZE as MAP
from portatile.records import DeviceInfo
from support.compiling import Interpreted
from support.devices import on_paper

CONTEXT = 77
_INVALID_HANDLE = 400
H200 = replace(on_paper("gpu"), id="cuda:0")


class Launched(NamedTuple):
    """What the driver was given: kernel, blocks and threads, bytes of dynamic local memory, stream, and each parameter's bytes."""

    kernel: str
    grid: tuple[int, ...]
    dynamic: int
    stream: int
    parameters: tuple[bytes, ...]


class _Module(NamedTuple):
    sizes: dict[str, tuple[int, ...]]


class _Function(NamedTuple):
    name: str
    sizes: tuple[int, ...]


def _parameters(function: _Function, address: int) -> tuple[bytes, ...]:
    pointers = (ctypes.c_void_p * len(function.sizes)).from_address(address)
    return tuple(ctypes.string_at(pointer or 0, size) for pointer, size in zip(pointers, function.sizes, strict=True))


def _node(given: Any) -> Launched:
    grid = given.gridDimX, given.gridDimY, given.gridDimZ, given.blockDimX, given.blockDimY, given.blockDimZ
    return Launched(given.func.name, grid, given.sharedMemBytes, 0, _parameters(given.func, given.kernelParams))


class FakeDriver:
    """The functions that the back end calls, all of which succeed; ``log`` holds what was queued, in order."""

    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK="threads",
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES="shared",
        CU_FUNC_ATTRIBUTE_NUM_REGS="registers",
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES="stack",
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic",
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2, CU_EVENT_DEFAULT=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.capturing: set[int] = set()
        self._places, self._handles = count(1 << 40, 1 << 28), count(1000)
        self.current = CONTEXT
        self._pinned: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def note(*args: Any) -> tuple[int, ...]:
            self.log.append((name, *args))
            return (0,)

        return note

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, 12000  # too old for launches that start before the one ahead of them has ended

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.current

    def cuModuleLoadData(self, data: bytes) -> tuple[int, _Module]:
        """The bytes of each kernel's parameters, as PTX declares them."""
        sizes: dict[str, list[int]] = {}
        for name, declared in re.findall(r"\.entry (\w+)\((.*?)\)", data.decode(), re.DOTALL):
            sizes[name] = []
            for kind, length in re.findall(r"\.param(?: \.align \d+)? \.([a-z]+\d+)[^,\[]*(?:\[(\d+)\])?", declared):
                sizes[name].append(int(length) if length else int(kind[1:]) // 8)
        return 0, _Module({name: tuple(found) for name, found in sizes.items()})

    def cuModuleGetFunction(self, module: _Module, symbol: bytes) -> tuple[int, _Function]:
        return 0, _Function(symbol.decode(), module.sizes[symbol.decode()])

    def cuFuncGetAttribute(self, attribute: str, function: _Function) -> tuple[int, int]:
        return 0, {"threads": 1024, "shared": 0, "registers": 32, "stack": 0}[attribute]

    def cuFuncSetAttribute(self, *args: Any) -> tuple[int]:
        return (0,)

    def cuFuncGetParamInfo(self, function: _Function, index: int) -> tuple[int, ...]:
        return (0, 0, function.sizes[index]) if index < len(function.sizes) else (1,)

    def cuLaunchKernel(self, function: _Function, *args: Any) -> tuple[int]:
        *grid, dynamic, stream, address, _ = args
        if self.current != CONTEXT:
            return (_INVALID_HANDLE,)
        self.log.append(Launched(function.name, tuple(grid), dynamic, int(stream), _parameters(function, address)))
        return (0,)

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self.current = context
        return (0,)

    def CUDA_KERNEL_NODE_PARAMS(self) -> SimpleNamespace:
        return SimpleNamespace()

    def cuGraphCreate(self, flags: int) -> tuple[int, list[Launched]]:
        self.log.append(("cuGraphCreate",))
        return 0, []

    def cuGraphAddKernelNode(self, graph: list[Launched], before: list[int], count: int, given: Any) -> tuple[int, int]:
        assert before == ([len(graph) - 1] if graph else []), "one after another"
        graph.append(_node(given))
        return 0, len(graph) - 1

    def cuGraphInstantiate(self, graph: list[Launched], flags: int) -> tuple[int, list[Launched]]:
        return 0, graph.copy()

    def cuGraphLaunch(self, executable: list[Launched], stream: Any) -> tuple[int]:
        self.log.append(("cuGraphLaunch", len(executable)))
        self.log += [launch._replace(stream=int(stream)) for launch in executable]
        return (0,)

    def cuMemAlloc(self, nbytes: int) -> tuple[int, int]:
        self.log.append(("cuMemAlloc", nbytes))
        return 0, next(self._places)

    def cuMemAllocFromPoolAsync(self, nbytes: int, pool: Any, stream: Any) -> tuple[int, int]:
        place = next(self._places)
        self.log.append(("cuMemAllocFromPoolAsync", nbytes, int(stream), place))
        return 0, place

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> tuple[int, int]:
        self._pinned.append(np.empty(nbytes, np.uint8))
        return 0, self._pinned[-1].__array_interface__["data"][0]

    def cuMemGetInfo(self) -> tuple[int, ...]:
        return 0, 1 << 34, 1 << 34

    def cuStreamCreate(self, flags: int) -> tuple[int, int]:
        return 0, next(self._handles)

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        return 0, next(self._handles)

    def cuStreamIsCapturing(self, stream: Any) -> tuple[int, int]:
        return 0, int(int(stream) in self.capturing)

    def cuStreamGetCaptureInfo(self, stream: Any) -> tuple[int, int, int, str]:
        return 0, int(int(stream) in self.capturing), 7, "the captured graph"

    CUuserObject_flags = SimpleNamespace(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC=1)
    CUuserObjectRetain_flags = SimpleNamespace(CU_GRAPH_USER_OBJECT_MOVE=1)

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[int, int]:
        return 0, 0

    def CUhostFn(self, function: Any) -> int:
        return 4

    def CUstream(self, number: int) -> int:
        return number

    @property
    def launched(self) -> list[Launched]:
        """The launches alone."""
        return [entry for entry in self.log if isinstance(entry, Launched)]


def gpu(info: DeviceInfo, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """A device on that driver, which `portatile.device.get("cuda:0")` finds."""
    for module in (context, early_start, event, graph, graph_memory, image, kernel, memory, packed, queue, cuda_device, cuda_driver):
        if hasattr(module, "driver"):
            monkeypatch.setattr(module, "driver", driver)
    for module in (cuda_device, packed):
        monkeypatch.setattr(module, "encoded", lambda address, form: struct.pack("Q", address + form.offset).ljust(MAP, b"\0"))
    result: CudaDevice = CudaDevice.__new__(CudaDevice)
    result._handle, result.info, result._lock = 0, info, threading.RLock()
    result._context, result._pool, result._stream = (CONTEXT, CONTEXT), "pool", 555
    result._fence_event, result._ready_event = 1, 2
    result.graphs, result.of_graphs, result._streams = deque(), [], []
    result.claimed = result.foreign_use = result._followed = object()
    result.recycled = result._pool_of_freed()
    result._rows, result._events, result._queues, result._foreign = (
        LinearTextures(0, result.finish),
        {False: [], True: []},
        WeakSet(),
        WeakSet(),
    )
    result.target, result._default = Interpreted(info.architecture), None
    monkeypatch.setitem(devices._surveys, "cuda", Survey((result,), ()))
    monkeypatch.setattr(survey, "ordinal", lambda pointer: 0)
    return result


class Tensor:
    """A PyTorch tensor, as far as anybody looks at one: where it lies, and how to make another."""

    __module__ = "torch"
    _places = count(1 << 44, 1 << 24)

    def __init__(self, shape: tuple[int, ...], dtype: str = "float32", strides: tuple[int, ...] | None = None, place: int = 0) -> None:
        self.shape, self.dtype, self.requires_grad = shape, f"torch.{dtype}", False  # no dtype of NumPy's
        self._dtype = np.dtype(dtype)
        contiguous = tuple(int(np.prod(shape[at + 1 :], dtype=int)) for at in range(len(shape)))
        self._strides = contiguous if strides is None else strides
        self._place = place or next(self._places)
        self.device = SimpleNamespace(index=0)
        self.lazy = False  # whether it is negated when it is read

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return self.lazy

    def resolve_conj(self) -> Tensor:
        return self

    def resolve_neg(self) -> Tensor:
        return Tensor(self.shape, self._dtype.name) if self.lazy else self

    def swapaxes(self, one: int, other: int) -> Tensor:
        shape, strides = list(self.shape), list(self._strides)
        shape[one], shape[other], strides[one], strides[other] = shape[other], shape[one], strides[other], strides[one]
        return Tensor(tuple(shape), self._dtype.name, tuple(strides), self._place)

    def detach(self) -> Tensor:
        return Tensor(self.shape, self._dtype.name, self._strides, self._place)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def data_ptr(self) -> int:
        return self._place

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def element_size(self) -> int:
        return self._dtype.itemsize

    def get_device(self) -> int:
        return 0

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(shape, self._dtype.name)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        size = self._dtype.itemsize
        strides = tuple(step * size for step in self._strides)
        return {"shape": self.shape, "typestr": self._dtype.str, "data": (self._place, False), "strides": strides, "version": 3}


class TensorGuards:
    """PyTorch's guards of tensors: whether others are like these, and no two of them the same; ``checks`` counts what was asked."""

    checks = 0

    def __init__(self, *tensors: Tensor, dynamic_dims_sizes: list[list[int]], dynamic_dims_strides: list[list[int]]) -> None:
        self._sizes, self._strides = dynamic_dims_sizes, dynamic_dims_strides
        self._rest = [self._described(tensor) for tensor in tensors]

    def check(self, *tensors: Any) -> bool:
        """Whether tensors are like those of the guards."""
        type(self).checks += 1
        if len(set(map(id, tensors))) < len(tensors) or [self._described(tensor) for tensor in tensors] != self._rest:
            return False
        return [list(tensor.shape) for tensor in tensors] == self._sizes and [list(tensor.stride()) for tensor in tensors] == self._strides

    @staticmethod
    def _described(tensor: Tensor) -> tuple[object, ...]:
        return (
            type(tensor),
            tensor.dtype,
            tensor.get_device(),
            tensor.requires_grad and sys.modules["torch"].is_grad_enabled(),
            tensor.is_neg(),
        )


@contextmanager
def torch(stream: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A module called torch whose current stream has that number; ``raw`` says which, and whether gradients are recorded."""
    raw = SimpleNamespace(stream=stream, gradients=True)
    module: Any = ModuleType("torch")
    guards = SimpleNamespace(guards=SimpleNamespace(TensorGuards=TensorGuards))
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: raw.stream, _dynamo=guards)
    module.is_grad_enabled = lambda: raw.gradients
    module.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=raw.stream))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "torch", module)
        yield raw
