"""CUDA without a GPU: a driver library that cuda-bindings loads as the real one, whose kernels run in the interpreter of PTX.

``load()`` must come before anything looks for CUDA devices, and stays for the process: tests that use it run in processes of their own.
"""

from __future__ import annotations

import ctypes
import subprocess
import traceback
from pathlib import Path
from typing import Any

from support.ptx_machine.machine import Machine
from support.ptx_machine.thread import GLOBAL_BASE, GlobalMemory

_SOURCE = Path(__file__).parent / "driver.c"
_ARENA_BYTES = 1 << 28
_INVALID_IMAGE, _NOT_FOUND, _INVALID_VALUE, _LAUNCH_FAILED = 200, 500, 1, 719

_LOAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_ulonglong))
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_ulonglong, ctypes.c_char_p, ctypes.POINTER(ctypes.c_ulonglong))
_SIZES = ctypes.POINTER(ctypes.c_size_t)
_PARAMETER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_ulonglong, ctypes.c_size_t, _SIZES, _SIZES)
_THREE = ctypes.POINTER(ctypes.c_uint * 3)
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_ulonglong, _THREE, _THREE, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p))


class _Callbacks(ctypes.Structure):
    _fields_ = [("load", _LOAD), ("function", _FUNCTION), ("parameter", _PARAMETER), ("launch", _LAUNCH)]


class _Arena(GlobalMemory):
    """The interpreter's view of the driver's memory."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__()
        self._library = library
        whole = (ctypes.c_ubyte * _ARENA_BYTES).from_address(GLOBAL_BASE)
        self.bytes: Any = memoryview(whole).cast("B")

    def allocate(self, data: bytes) -> int:
        address = int(self._library.emulated_take(max(len(data), 1)))
        ctypes.memmove(address, data, len(data))
        return address


class EmulatedDriver:
    """The loaded driver; ``log`` has the kernels that were launched: name, grid, block and the bytes of each argument.

    They are run while ``runs``.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.log: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[bytes, ...]]] = []
        self.runs = True
        self._modules: list[Machine] = []
        self._functions: list[tuple[Machine, str]] = []
        library.emulated_take.restype = ctypes.c_ulonglong
        library.emulated_take.argtypes = [ctypes.c_size_t]
        library.emulated_give.argtypes = [ctypes.c_ulonglong]
        library.emulated_callbacks.argtypes = [_Callbacks]
        if library.cuInit(0):
            raise MemoryError(f"{GLOBAL_BASE:#x} is taken in this process")
        self._memory = _Arena(library)
        self._callbacks = _Callbacks(_LOAD(self._load), _FUNCTION(self._function), _PARAMETER(self._parameter), _LAUNCH(self._launch))
        library.emulated_callbacks(self._callbacks)

    def count(self, name: str) -> int:
        """A counter of the driver: ``launches``, ``allocations``, ``live_bytes``."""
        return ctypes.c_ulonglong.in_dll(self.library, f"emulated_{name}").value

    def _load(self, image: bytes, module: Any) -> int:
        try:
            self._modules.append(Machine(image.decode(), self._memory))
        except Exception:
            traceback.print_exc()
            return _INVALID_IMAGE
        module[0] = len(self._modules)
        return 0

    def _function(self, module: int, name: bytes, function: Any) -> int:
        machine, symbol = self._modules[module - 1], name.decode()
        if symbol not in machine.functions:
            return _NOT_FOUND
        self._functions.append((machine, symbol))
        function[0] = len(self._functions)
        return 0

    def _parameter(self, function: int, index: int, offset: Any, size: Any) -> int:
        sizes = self._sizes(function)
        if index >= len(sizes):
            return _INVALID_VALUE
        offset[0], size[0] = sum(sizes[:index]), sizes[index]
        return 0

    def _launch(self, function: int, grid: Any, block: Any, shared: int, parameters: Any) -> int:
        machine, symbol = self._functions[function - 1]
        sizes = tuple(grid.contents), tuple(block.contents)
        arguments = [ctypes.string_at(parameters[i], size) for i, size in enumerate(self._sizes(function))]
        try:
            if self.runs:
                machine.launch(symbol, *sizes, arguments, shared)
        except Exception:
            traceback.print_exc()
            return _LAUNCH_FAILED
        self.log.append((symbol, *sizes, tuple(arguments)))
        return 0

    def _sizes(self, function: int) -> list[int]:
        machine, symbol = self._functions[function - 1]
        return [size for _, size, _ in machine.functions[symbol].parameters]


def load(folder: Path) -> EmulatedDriver:
    """Build the driver in ``folder`` and put it where cuda-bindings looks; raises OSError without a C compiler."""
    path = folder / "libcuda.so.1"
    command = ["cc", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(path), str(_SOURCE), "-ldl", "-lpthread"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise OSError(completed.stderr)
    return EmulatedDriver(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))
