"""From text to a loaded kernel on every device: messages with file and line, definitions, binaries that were stored or damaged."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from portatile import program
from portatile.cache import Cache
from portatile.device.base import Device, Queue
from portatile.device.module import Module
from portatile.device.opencl.compiler import Programs
from portatile.device.opencl.device import ClDevice
from portatile.errors import ArgumentError, CompileError
from portatile.records import Binary, Source


def test_unknown_kernel_lists_the_others(module: Module) -> None:
    with pytest.raises(ArgumentError, match="scale"):
        module.kernel("missing")


@pytest.mark.parametrize("name", ["mine.cl", 'of "new\\u"/mine.cl'])
def test_compile_error_has_file_and_line(device: Device, name: str) -> None:
    with pytest.raises(CompileError) as raised:
        program.build(Source(name, "__kernel void f(__global int *x)\n{\n    x[0] = missing;\n}\n"), device.target, None)
    assert "missing" in raised.value.log
    assert re.search(r"mine\.cl[:(]3\b", raised.value.log)


def test_a_build_without_kernels_is_an_error_and_not_kept(device: Device, tmp_path: Path) -> None:
    cache, source = Cache(tmp_path, 1 << 20), Source("nothing.cl", "int helper(int x) { return x + 1; }\n")
    for _ in range(2):  # the second must not find what the first one built
        with pytest.raises(CompileError, match=r"nothing\.cl"):
            program.build(source, device.target, cache)
    assert cache.get(program.key(source, device.target)) is None


def test_definitions_and_options_reach_the_compiler(device: Device, queue: Queue) -> None:
    text = "__kernel void f(__global int *x) { x[0] = VALUE; }"
    built = program.build(Source("f.cl", text, (("VALUE", "(6 * 7)"),)), device.target, None)
    with device.load(built) as module, device.allocate(4) as memory:
        queue.launch(module.kernel("f"), (1, 1, 1), (1, 1, 1), [memory])
        result = np.empty(1, np.int32)
        queue.download(result, memory)
    assert result[0] == 42


def test_a_build_warns_of_nothing(device: Device) -> None:
    """Drivers and pyopencl remark this and that; users of the package need not know it."""
    text = "__kernel void f(__global int *x) { int unused; x[0] = 3; }"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.build(Source("remarks.cl", text), device.target, None)


def test_binary_survives_storage(device: Device, binary: Binary, queue: Queue) -> None:
    stored = dataclasses.replace(binary, data=bytes(bytearray(binary.data)))
    for _ in range(2):  # the second load cannot come from a program kept since the compilation
        with device.load(stored) as module, device.allocate(64) as memory:
            queue.fill(memory, b"\0")
            queue.launch(module.kernel("increment"), (16, 1, 1), (16, 1, 1), [memory])
            result = np.empty(16, np.int32)
            queue.download(result, memory)
            assert (result == 1).all()


def test_settled_binary_loads(device: Device, binary: Binary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compile workers settle what another process loads; only NVIDIA's OpenCL has anything to do then."""
    translated: list[Binary] = []
    if isinstance(device, ClDevice):
        ours = Programs.program
        monkeypatch.setattr(Programs, "program", lambda self, binary: translated.append(binary) or ours(self, binary))
    monkeypatch.delenv("CUDA_CACHE_DISABLE", raising=False)
    device.target.settle(binary)
    nvidia = isinstance(device, ClDevice) and device.nvidia
    assert translated == ([binary] if nvidia else [])
    monkeypatch.setenv("CUDA_CACHE_DISABLE", "1")  # a cache that keeps nothing is not filled
    device.target.settle(binary)
    assert len(translated) == nvidia
    device.load(binary).release()


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "kind"])
def test_damaged_binary_is_refused(device: Device, binary: Binary, damage: str) -> None:
    data = {"cut": binary.data[: len(binary.data) // 2], "empty": b"", "foreign": b"\x7fELF" + bytes(500), "kind": binary.data}[damage]
    kind = {"opencl": "cubin"}.get(binary.kind, "opencl") if damage == "kind" else binary.kind
    with pytest.raises(CompileError):
        device.load(dataclasses.replace(binary, data=data, kind=kind))  # type: ignore[arg-type]
