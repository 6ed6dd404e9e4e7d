"""Memory of graphs that other libraries capture: a graph keeps it as long as the graph, or what was instantiated of it, exists.

A graph could allocate memory in each of its runs, too. Then nodes stand between its kernels that allocate and free, and that clear the
counters of groups which share a sum: short kernels wait for them as long as they run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable
from typing import Any

from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, relaxed
from portatile.device.cuda.memory import CudaMemory

_SEMAPHORE_BYTES = 64  # at least those of a sem_t


class CapturedMemory:
    """Memory for what is captured on one stream. Calls of one capture run in order there, so one's memory is the next one's."""

    def __init__(self, device: CudaContext, stream: Any) -> None:
        self._device, self._stream = device, stream
        self._capture = -1
        self._blocks: dict[tuple[Hashable, bool], CudaMemory] = {}

    def give(self, place: Hashable, nbytes: int, zeroed: bool) -> CudaMemory:
        """Memory at a ``place`` of a plan, ``zeroed`` before the graph first runs. Raises DeviceError where there is not enough."""
        with self._device.current(), relaxed():
            _, number, graph, *_ = call(driver.cuStreamGetCaptureInfo, self._stream)
            if int(number) != self._capture:
                self._capture, self._blocks = int(number), {}
            block = self._blocks.get((place, zeroed))
            if block is None or block.nbytes < nbytes:
                block = self._blocks[place, zeroed] = self._kept(graph, nbytes)
                queue = self._device.default_queue()
                if zeroed:
                    queue.fill(block, bytes(4), 0, nbytes)
                queue.finish()  # a graph waits for nothing outside of it: the memory must be there, and used by nobody
                self._device.await_allocations()
            return block

    def forget(self) -> None:
        """Give the next call other memory: a capture was broken off."""
        self._capture = -1

    def _kept(self, graph: Any, nbytes: int) -> CudaMemory:
        """New memory that the graph keeps."""
        sweep(self._device)
        memory = self._device.allocate(nbytes)
        assert isinstance(memory, CudaMemory)
        gone = Gone()
        flags = driver.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
        kept = call(driver.cuUserObjectCreate, gone.address, driver.CUhostFn(_post), 1, int(flags))
        moved = driver.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
        call(driver.cuGraphRetainUserObject, graph, kept, 1, int(moved))
        self._device.of_graphs.append((gone, memory))
        return memory


class Gone:
    """Whether the last graph is gone: a semaphore of the C library, which the driver raises.

    The driver calls a function for that from a thread of its own, also while Python ends, so the function must not be Python's.
    """

    def __init__(self) -> None:
        self.address = int(_libc.malloc(_SEMAPHORE_BYTES))  # not Python's memory either
        _libc.sem_init(self.address, 0, 0)

    def told(self) -> bool:
        """Whether the driver said so; then the semaphore is gone, too."""
        if _libc.sem_trywait(self.address):
            return False
        _libc.free(self.address)
        return True


def sweep(device: CudaContext) -> bool:
    """Give back the memory of graphs that are gone; whether there was any."""
    left = []
    for gone, memory in device.of_graphs:
        if gone.told():
            memory.release()
        else:
            left.append((gone, memory))
    swept = len(left) < len(device.of_graphs)
    device.of_graphs[:] = left
    return swept


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]
_libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
_libc.sem_trywait.argtypes = [ctypes.c_void_p]
_post = ctypes.cast(_libc.sem_post, ctypes.c_void_p).value
