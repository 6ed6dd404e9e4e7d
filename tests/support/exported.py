"""What the tests of exported folders share: items to export, the folder's own loader, and CUDA's driver as that loader sees it."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.images import ImageForm
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.shipping import folder as folders
from portatile.trials import Trial
from support.ptx_machine import GlobalMemory, Machine

SMALL: dict[str, Value] = {"FORM": "generic", "TR": 2, "TC": 2, "VL": 2, "TRR": 1, "TCR": 1, "TBR": 8, "TBC": 8, "KB": 8}  # soon compiled


def item(problem: Problem, config: Config, info: DeviceInfo) -> folders.ShippedItem:
    trial = Trial(problem, dict(config), info, "source", "ok", (1.0, 2.0), time="now")
    return folders.ShippedItem(problem, config, info, "for a test", trial)


def drawn(problem: Problem, info: DeviceInfo, rng: np.random.Generator, **wanted: Value) -> Config:
    """A legal configuration with these values: the first in a random order of all."""
    space = workloads.get(problem.workload).space(problem, info)
    shuffled = {name: [values[i] for i in rng.permutation(len(values))] for name, values in space.parameters.items()}
    return next(iter(space.restricted(shuffled | {name: [value] for name, value in wanted.items()})))


def loaded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> ModuleType:
    """The loader in an exported folder, as a module of its own."""
    spec = importlib.util.spec_from_file_location("exported_loader", folder / "loader.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "exported_loader", module)
    spec.loader.exec_module(module)
    return module


class Driver:
    """CUDA's driver as ctypes sees it, over the interpreter of PTX; the GPU is not the one that the folder was made for."""

    def __init__(self, name: str) -> None:
        self.name, self.memory = name.encode(), GlobalMemory()
        self.machines: list[Machine] = []
        self.functions: list[tuple[Machine, str]] = []
        self.dynamic: dict[int, int] = {}

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def cuDeviceGetName(self, text: Any, size: int, index: int) -> int:
        text.value = self.name
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, index: int) -> int:
        value._obj.value = {75: 9, 76: 9}[attribute]
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, index: int) -> int:
        context._obj.value = 1
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0 if context.value == 1 else 201

    def cuModuleLoadData(self, module: Any, data: bytes) -> int:
        self.machines.append(Machine(data.rstrip(b"\0").decode(), self.memory))
        module._obj.value = len(self.machines)
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, symbol: bytes) -> int:
        self.functions.append((self.machines[module.value - 1], symbol.decode()))
        function._obj.value = len(self.functions)
        return 0

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:
        self.dynamic[function.value] = value
        return 0 if attribute == 8 else 1

    def cuMemAlloc_v2(self, pointer: Any, nbytes: Any) -> int:
        pointer._obj.value = self.memory.allocate(bytes([0xCB]) * nbytes.value)
        return 0

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, nbytes: Any) -> int:
        self.memory.write(target.value, ctypes.string_at(source.value, nbytes.value))
        return 0

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, nbytes: Any) -> int:
        ctypes.memmove(target.value, self.memory.read(source.value, nbytes.value), nbytes.value)
        return 0

    def cuTexObjectCreate(self, texture: Any, resource: bytes, sampling: bytes, view: None) -> int:
        assert (len(resource), len(sampling)) == (144, 104)
        kind, pointer, number, channels, size, height, pitch = struct.unpack_from("<I4xQIIQQQ", resource)
        dtype = {0x20: "float32", 3: "uint32"}[number]
        assert sampling[:12] == struct.pack("<3I", 3, 3, 3)
        assert struct.unpack_from("<II", sampling, 12) == (0, int(dtype == "uint32"))
        assert pointer % 512 == 0 or kind == 3
        shape = (size // (4 * channels), channels) if kind == 2 else (height, size, channels)
        form = ImageForm("image1d_buffer_t" if kind == 2 else "image2d_t", shape, dtype)
        self.memory.textures.append((pointer, form, size if kind == 2 else pitch))
        texture._obj.value = len(self.memory.textures) - 1
        return 0

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        machine, symbol = self.functions[function.value - 1]
        grid, block, (dynamic, stream, places, extra) = rest[:3], rest[3:6], rest[6:]
        assert stream is None
        assert extra is None
        assert dynamic <= max(48 * 1024, self.dynamic.get(function.value, 0))
        sizes = [size for _, size, _ in machine.functions[symbol].parameters]
        values = [ctypes.string_at(place, size) for place, size in zip(places, sizes, strict=True)]
        machine.launch(symbol, grid, block, values, dynamic)
        return 0
