"""Tensor maps of buffers: 128 bytes that a kernel fills in, because OpenCL reveals a buffer's address only to kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from portatile.device.module import LoadedKernel
from portatile.device.opencl.context import ClContext
from portatile.device.opencl.driver import cl
from portatile.device.opencl.memory import ClMemory
from portatile.device.opencl.queue import ClQueue
from portatile.records import Source, TensorMap

SIZE = 128  # bytes
_SOURCE = Source(
    "tensor_map.cl",
    """__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void encode(__global const uchar* base, const uint itemsize, const uint columns, const uint rows, const ulong pitch, const uint wide,
            const uint high, const ulong offset, const uint planes, const ulong step, __global uchar* map)
{
    __local uchar space[128] __attribute__((aligned(128)));
    tensor_map_3d(LOCAL_ADDRESS(space), map, base + offset, itemsize, columns, rows, pitch, planes, step, wide, high);
}
""",
)


class MappedBuffer(cl.Buffer):  # type: ignore[misc]
    """A ``pyopencl.Buffer`` that caches its tensor maps."""

    def __init__(self, context: Any, flags: int, nbytes: int) -> None:
        super().__init__(context, flags, nbytes)
        self.maps: dict[TensorMap, np.void] = {}


class TensorMaps:
    """Makes tensor maps of a device's memory. A buffer's map is made once, unless other devices may move the buffer."""

    def __init__(self, device: ClContext, loaded: Callable[[Source], LoadedKernel]) -> None:
        self._device, self._loaded = device, loaded
        self._lock = threading.Lock()
        self._ready: tuple[LoadedKernel, ClQueue, ClMemory] | None = None

    def of(self, memory: ClMemory, form: TensorMap) -> np.void:
        """The map of the matrix in ``memory``."""
        if self._device.peers:
            return self._made(memory, form)
        known = memory.handle.maps if isinstance(memory.handle, MappedBuffer) else memory.maps  # for a part of a buffer
        if form not in known:
            known[form] = self._made(memory, form)
        return known[form]

    def release(self) -> None:
        """Release the kernel and its queue."""
        with self._lock:
            self._ready = None

    def _made(self, memory: ClMemory, form: TensorMap) -> np.void:
        with self._lock:
            if self._ready is None:
                place = ClMemory(self._device, cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, SIZE), SIZE)
                self._ready = self._loaded(_SOURCE), ClQueue(self._device, False, False), place
            kernel, queue, place = self._ready
            sides = np.uint32(form.itemsize), np.uint32(form.columns), np.uint32(form.rows), np.uint64(form.pitch)
            box = np.uint32(form.wide), np.uint32(form.high), np.uint64(form.offset), np.uint32(form.planes), np.uint64(form.step)
            queue.launch(kernel, (32, 1, 1), (32, 1, 1), (memory, *sides, *box, place))
            made = np.empty(SIZE, np.uint8)
            queue.download(made, place)
            return np.void(made.tobytes())
