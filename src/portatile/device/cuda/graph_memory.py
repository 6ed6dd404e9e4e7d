"""What graphs that other libraries capture need: it lives as long as the graph and every executable graph made from it.

The graph itself could allocate memory in each run. But then it would have additional nodes between its kernels, to allocate, free, and
clear the counters of work-groups that share a sum, and these nodes take as long as short kernels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterable
from typing import Any

from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver
from portatile.device.cuda.memory import CudaMemory
from portatile.errors import UsageError

_BROKEN_OFF = 2  # CU_STREAM_CAPTURE_STATUS_INVALIDATED
_SEMAPHORE_BYTES = 64  # at least sizeof(sem_t)


class GraphNeeds:
    """What one graph needs: memory that belongs to it, and the kernels (with their modules) and memory that its launches use."""

    def __init__(self) -> None:
        self.memories: list[CudaMemory] = []
        self.kept: set[object] = set()

    def release(self) -> None:
        """Release the memory that belongs to the graph, and drop the references to the rest."""
        for memory in self.memories:
            memory.release()
        self.memories.clear()
        self.kept.clear()


class Captures:
    """The graphs that are captured on one stream. Calls within a capture run in order, so they can share the memory."""

    def __init__(self, device: CudaContext, stream: Any) -> None:
        self._device, self._stream = device, stream
        self._capture, self._needs = -1, GraphNeeds()  # of the graph that is captured now, or was last
        self._blocks: dict[tuple[Hashable, bool], CudaMemory] = {}

    def keep(self, used: Iterable[object]) -> None:
        """Keep alive what the graph's launches use. Raises UsageError as ``give``."""
        with self._device.relaxed():
            self._current().kept.update(used)

    def give(self, place: Hashable, nbytes: int, zeroed: bool) -> CudaMemory:
        """Memory for a ``place`` of a plan, ``zeroed`` before the graph first runs. Raises DeviceError if there is not enough, UsageError
        if the capture was invalidated.
        """
        with self._device.relaxed():
            needs = self._current()
            block = self._blocks.get((place, zeroed))
            if block is None or block.nbytes < nbytes:
                memory = self._device.allocate(nbytes)
                assert isinstance(memory, CudaMemory)
                needs.memories.append(memory)
                block = self._blocks[place, zeroed] = memory
                queue = self._device.default_queue()
                if zeroed:
                    queue.fill(block, bytes(4), 0, nbytes)
                queue.finish()  # a graph cannot wait for outside work: the memory must be ready and unused now
                self._device.await_allocations()
            return block

    def forget(self) -> None:
        """Have the next call return new memory, after a capture was invalidated."""
        self._capture = -1

    def _current(self) -> GraphNeeds:
        """The needs of the graph that is being captured; the driver signals when that graph is gone."""
        status, number, graph, *_ = call(driver.cuStreamGetCaptureInfo, self._stream)
        if int(status) == _BROKEN_OFF:
            raise UsageError("the capture of this stream was broken off before this call, by a call that the driver forbids meanwhile")
        if int(number) != self._capture:
            sweep(self._device)
            needs, gone = GraphNeeds(), ReleaseSignal()
            flags = driver.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
            kept = call(driver.cuUserObjectCreate, gone.address, driver.CUhostFn(_post), 1, int(flags))
            moved = driver.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
            call(driver.cuGraphRetainUserObject, graph, kept, 1, int(moved))
            self._device.of_graphs.append((gone, needs))
            self._capture, self._needs, self._blocks = int(number), needs, {}
        return self._needs


class ReleaseSignal:
    """A signal that a graph and every executable graph made from it are gone: a semaphore of the C library, which the driver posts.

    The driver calls ``sem_post`` from its own thread, even while Python exits, so it must not be a Python function.
    """

    def __init__(self) -> None:
        self.address = int(_libc.malloc(_SEMAPHORE_BYTES))  # not Python's memory, for the same reason
        _libc.sem_init(self.address, 0, 0)

    def received(self) -> bool:
        """Whether the driver has posted the signal; if so, the semaphore is freed, and this must not be called again."""
        if _libc.sem_trywait(self.address):
            return False
        _libc.free(self.address)
        return True


def sweep(device: CudaContext) -> bool:
    """Release the needs of graphs that are gone; returns whether there were any."""
    left = []
    for gone, needs in device.of_graphs:
        if gone.received():
            needs.release()
        else:
            left.append((gone, needs))
    swept = len(left) < len(device.of_graphs)
    device.of_graphs[:] = left
    return swept


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]
_libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
_libc.sem_trywait.argtypes = [ctypes.c_void_p]
_post = ctypes.cast(_libc.sem_post, ctypes.c_void_p).value
