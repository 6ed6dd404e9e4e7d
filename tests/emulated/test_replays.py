"""Random calls on few addresses, in the emulated driver's memory, by PyTorch's tensors as far as anybody looks at them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from portatile.arguments import described
from portatile.device.base import Device, Memory
from portatile.device.buffer import Buffer
from support import fake_cuda
from support.cuda_driver import EmulatedDriver
from support.replay_scene import Layout, Scene, Tensors
from support.seeds import new_seed


class Emulated(Tensors):
    """Tensors in the driver's memory."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver
        self._results: dict[int, list[int]] = {}  # memory of results that were dropped, by size: the next one lies there again

        class Tensor(fake_cuda.Tensor):
            __module__ = "torch"
            nbytes = 0

            def new_empty(own, shape: tuple[int, ...]) -> Any:
                made = Tensor(shape, own._dtype.name, None, 1)
                made.nbytes = int(np.prod(shape)) * own._dtype.itemsize
                kept = self._results.setdefault(made.nbytes, [])
                made._place = kept.pop() if kept else self.block(made.nbytes)
                return made

            def __del__(own) -> None:
                if own.nbytes:
                    self._results[own.nbytes].append(own._place)

        self._type = Tensor

    def block(self, nbytes: int) -> int:
        return int(self._driver.library.emulated_take(nbytes))

    def bytes_of(self, block: int) -> Any:
        return np.frombuffer(ctypes.string_at(block, 4096), np.uint8)

    def fill(self, block: int, values: Any) -> None:
        ctypes.memmove(block, values.ctypes.data, values.nbytes)

    def tensor(self, block: int, layout: Layout) -> Any:
        itemsize = np.dtype(layout.dtype).itemsize
        return self._type(layout.shape, layout.dtype, layout.strides, block + layout.offset * itemsize)

    def become(self, tensor: Any, block: int, layout: Layout) -> None:
        other = self.tensor(block, layout)
        for name in ("shape", "dtype", "_dtype", "_strides", "_place"):
            setattr(tensor, name, getattr(other, name))

    def read(self, tensor: Any) -> Any:
        itemsize, shape, strides = tensor._dtype.itemsize, tensor.shape, tensor.stride()
        nbytes = itemsize * (1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)))
        raw = ctypes.string_at(tensor.data_ptr(), nbytes)
        return np.ndarray(shape, tensor._dtype, raw, 0, tuple(step * itemsize for step in strides)).copy()


class Buffers(Tensors):
    """Buffers in memory of the device; one that lies otherwise is made anew in the place of the old one."""

    def __init__(self, gpu: Device) -> None:
        self._gpu, self._queue = gpu, gpu.default_queue()

    def block(self, nbytes: int) -> Memory:
        return self._gpu.allocate(nbytes)

    def bytes_of(self, block: Memory) -> Any:
        found = np.empty(4096, np.uint8)
        self._queue.download(found, block)
        return found

    def fill(self, block: Memory, values: Any) -> None:
        self._queue.upload(block, values)

    def tensor(self, block: Memory, layout: Layout) -> Any:
        itemsize = np.dtype(layout.dtype).itemsize
        return Buffer(block, layout.shape, layout.dtype, tuple(step * itemsize for step in layout.strides), layout.offset * itemsize)

    def become(self, tensor: Any, block: Memory, layout: Layout) -> None:
        names = ("memory", "shape", "dtype", "strides", "offset")
        other = self.tensor(block, layout)
        if any(getattr(tensor, name) != getattr(other, name) for name in names):
            for name in (*names, "described"):
                setattr(tensor, name, getattr(other, name))


def test_random_calls_on_buffers_in_few_places(gpu: Device) -> None:
    scene = Scene(Buffers(gpu), str(new_seed("replays")), gpu, largest=6)
    scene.run(100, lambda result: result.numpy())
    assert scene.outcomes["known"] + scene.outcomes["new, known"] > 5, scene.outcomes


def test_random_calls_on_few_addresses(gpu: Device, driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cuda.torch(0, monkeypatch):
        monkeypatch.setattr(described, "known", {})
        library = Emulated(driver)
        scene = Scene(library, str(new_seed("replays")), gpu, largest=6)
        scene.run(100, library.read)
        assert scene.outcomes["known"] + scene.outcomes["new, known"] > 20, scene.outcomes
