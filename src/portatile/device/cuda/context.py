"""A GPU and its primary context: its memory pool, its events, and the ordering of memory between streams."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary, WeakSet

from portatile.device.base import Device
from portatile.device.cuda.driver import CaptureRelaxed, CurrentContext, attribute, call, driver, failure
from portatile.device.cuda.image import LinearTextures
from portatile.device.cuda.info import describe
from portatile.device.exit_gate import inside
from portatile.device.pool import Pool
from portatile.device.resources import PageLock
from portatile.errors import DeviceError

_POOL_KEEPS = 8  # the driver's pool keeps freed memory up to 1/8 of the device's: mapping a gigabyte anew takes 4 ms
_KEPT_EVENTS = 256  # events of each kind that are kept for reuse
_KEPT_STREAMS = 16  # streams that are kept for reuse: creating or destroying one takes some 100 us


class CudaStream(Protocol):
    """The part of a queue that memory management needs: its stream and, if another library owns that, the event after our last command."""

    stream: Any
    last: Any

    @property
    def capturing(self) -> bool:
        """Whether its commands are being captured into a graph."""

    def release(self) -> None:
        """Release the queue."""


class CudaContext(Device):
    """One GPU. Memory is allocated from our own pool in the order of a private stream, so that no allocation waits for the GPU.

    ``used`` holds all GPUs whose context this process has used.
    """

    used: ClassVar[WeakSet[CudaContext]] = WeakSet()

    alone = False  # whether this is the only visible GPU, so that no thread can have another GPU's context

    def __init__(self, index: int, driver_text: str) -> None:
        self._handle = call(driver.cuDeviceGet, index)
        self.alone = call(driver.cuDeviceGetCount) == 1
        self.info = describe(index, self._handle, driver_text)
        self._lock = threading.RLock()
        self._context: tuple[Any, int] | None = None
        self._pool: Any = None
        self._stream: Any = None
        self._fence_event: Any = None
        self._ready_event: Any = None
        # These three are compared by identity: each allocation or use replaces an object, so no thread misses another's.
        self.claimed = object()  # identifies the latest claim of memory
        self.foreign_use = object()  # identifies the latest use of this device's memory on another library's stream
        self._followed = self.foreign_use  # the latest such use that the default queue has waited for
        self.recycled = self._pool_of_freed()
        self._rows = LinearTextures(self._handle, self.finish)
        self._events: dict[bool, list[Any]] = {False: [], True: []}
        self._streams: list[Any] = []
        self.graphs: deque[Any] = deque()  # weak references, the oldest first
        # what graphs that other libraries captured need, each with the signal that its graph is gone
        self.of_graphs: list[tuple[Any, Any]] = []
        # GPUs with peer access to this one's memory, and their generations
        self._open_to: WeakKeyDictionary[CudaContext, int] = WeakKeyDictionary()
        self.page_locks: set[PageLock] = set()
        self._queues: WeakSet[CudaStream] = WeakSet()
        self._foreign: WeakSet[CudaStream] = WeakSet()  # queues on other libraries' streams, which may be destroyed between calls

    @property
    def context(self) -> tuple[Any, int]:
        """The primary context and its handle as an integer, retained at first use."""
        if self._context is None:
            self.check_own()
            with self._lock:
                if self._context is None:
                    context = call(driver.cuDevicePrimaryCtxRetain, self._handle)
                    with CaptureRelaxed(context, int(context)):
                        self._make_pool(context)
                    self._context = (context, int(context))
                    self.used.add(self)
        return self._context

    def current(self) -> CurrentContext:
        """``with device.current():`` runs with the device's context."""
        return CurrentContext(*(self._context or self.context))

    def relaxed(self) -> CaptureRelaxed:
        """``with device.relaxed():`` runs with the device's context, and allows calls that are forbidden while a stream is captured."""
        return CaptureRelaxed(*(self._context or self.context))

    def claim(self, nbytes: int) -> int:
        """Allocate memory and return its address; all our queues wait until it is ready. Raises DeviceError if there is not enough."""
        kept = self.recycled.take(nbytes)
        if kept is not None:
            if self.foreign_use is not self._followed:
                self._follow_others()
            self.claimed = object()
            return kept  # type: ignore[no-any-return]
        with self.relaxed(), self._lock:
            if self._pool is None:
                error, *pointers = driver.cuMemAlloc(max(nbytes, 1))
            else:
                error, *pointers = driver.cuMemAllocFromPoolAsync(max(nbytes, 1), self._pool, self._stream)
            if int(error):
                if self.recycled.clear() or self.spare():
                    return self.claim(nbytes)
                free, total = call(driver.cuMemGetInfo)
                message = f"{self.info.id} cannot allocate {nbytes} bytes ({free} of {total} are free)"
                raise DeviceError(str(failure(error, message)))
            if self._pool is not None:
                call(driver.cuEventRecord, self._ready_event, self._stream)
                for queue in list(self._queues):
                    if queue.stream is not None:
                        self.admit(queue.stream)
                self.claimed = object()
            return int(pointers[0])

    def await_allocations(self) -> None:
        """Block until all memory that was allocated so far is ready; allowed while a stream is being captured."""
        if self._pool is not None:
            self._synchronize(self._stream)

    def _synchronize(self, stream: Any) -> None:
        with self.relaxed():
            call(driver.cuStreamSynchronize, stream)

    def follow_default(self, queue: CudaStream) -> None:
        """Make another queue wait for the commands of the default queue before it uses recycled memory, which they may still use.

        A graph that is being captured cannot wait for them, so in that case this call blocks.
        """
        if not self.recycled.handed:
            return
        default: Any = self.default_queue()
        if queue.capturing:
            self._synchronize(default.stream)
        else:
            with self._lock, self.current():
                call(driver.cuEventRecord, self._fence_event, default.stream)
                call(driver.cuStreamWaitEvent, queue.stream, self._fence_event, 0)

    def _follow_others(self) -> None:
        """Make the default queue wait for other libraries' streams that used this device's memory, before that is reused."""
        default: Any = self.default_queue()
        with self._lock, self.current():
            foreign_use = self.foreign_use
            for queue in list(self._foreign):
                call(driver.cuStreamWaitEvent, default.stream, queue.last, 0)
            self._followed = foreign_use

    def _pool_of_freed(self) -> Pool:
        """An empty pool of released memory for the context of the present generation."""
        generation = self.generation
        memory = self.info.global_memory  # the pool keeps at most a share of it, smaller than that of the driver's pool
        return Pool(memory, memory, self._lock, lambda pointer: self.free(pointer, generation))

    def free(self, pointer: int, generation: int) -> None:
        """Free memory after all commands that are queued so far; does not wait."""
        if generation != self.generation or self._context is None:
            return
        with self.relaxed(), self._lock:
            if self._pool is None:
                driver.cuMemFree(pointer)
                return
            for queue in list(self._queues):
                if queue.stream is not None:
                    self._fence(queue.stream)
            for queue in list(self._foreign):
                driver.cuStreamWaitEvent(self._stream, queue.last, 0)
            driver.cuMemFreeAsync(pointer, self._stream)

    def exchanges(self, other: Device) -> bool:
        return isinstance(other, CudaContext)

    def is_open_to(self, other: Device) -> bool:
        return other is self or not isinstance(other, CudaContext) or self._open_to.get(other) == other.generation

    def open_to(self, other: Device) -> None:
        if self.is_open_to(other) or not isinstance(other, CudaContext):
            return
        for context in (self, other):
            context.finish()
        with self._lock:
            if self._open_to.get(other) != other.generation:
                self._open(other)
                self._open_to[other] = other.generation

    def _open(self, other: CudaContext) -> None:
        """Map this GPU's memory into another GPU where the machine connects them; otherwise copies between them go through the host.

        The memory mapping changes, so commands of both GPUs must have finished.
        """
        if not call(driver.cuDeviceCanAccessPeer, other._handle, self._handle):
            return
        if self._pool is not None:
            access = driver.CUmemAccessDesc()
            access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = int(other._handle)
            access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            with self.relaxed():
                call(driver.cuMemPoolSetAccess, self._pool, [access], 1)
        with other.relaxed():  # for memory of other libraries; peer access may be enabled already
            driver.cuCtxEnablePeerAccess(self.context[0], 0)

    def finish(self) -> None:
        """Wait for all commands that portatile has queued on the GPU. Their errors are left to later calls.

        Waits for each stream rather than the context, since waiting for the context would invalidate another library's capture.
        """
        if self._context is not None:
            with self._lock:
                streams = [self._stream, *(queue.stream for queue in self._queues)]
                events = [queue.last for queue in self._foreign]
            with inside, self.relaxed():
                for stream in streams:
                    if stream is not None:
                        driver.cuStreamSynchronize(stream)
                for event in events:
                    driver.cuEventSynchronize(event)

    def attribute(self, name: str) -> int:
        """The value of the device attribute ``CU_DEVICE_ATTRIBUTE_`` + ``name``."""
        return attribute(self._handle, name)

    def register(self, queue: CudaStream) -> None:
        """Register a queue, which from now on waits for newly allocated memory.

        Another library's stream may only be used during that library's calls: its queue calls ``admit`` itself, and records the event
        ``last`` after each of its commands.
        """
        with self._lock:
            (self._queues if queue.last is None else self._foreign).add(queue)
            if queue.last is None:
                self.admit(queue.stream)

    def admit(self, stream: Any) -> None:
        """Make a stream wait until all memory that was allocated so far is ready."""
        if self._pool is not None:
            call(driver.cuStreamWaitEvent, stream, self._ready_event, 0)

    def retire(self, queue: CudaStream, stream: Any) -> None:
        """Unregister a queue; memory that it used is reused only after the work that it has queued."""
        with self._lock, self.current():
            self._queues.discard(queue)
            self._foreign.discard(queue)
            if self._pool is not None:
                if queue.last is None:
                    self._fence(stream)
                else:
                    driver.cuStreamWaitEvent(self._stream, queue.last, 0)
            if queue.last is not None:
                driver.cuEventDestroy(queue.last)

    def take_event(self, timing: bool) -> Any:
        """A ``CUevent``, recycled if possible: creating one takes longer than recording it."""
        try:
            return self._events[timing].pop()
        except IndexError:
            flags = driver.CUevent_flags
            return call(driver.cuEventCreate, int(flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING))

    def take_stream(self) -> Any:
        """An idle stream of our own."""
        try:
            return self._streams.pop()
        except IndexError:
            return call(driver.cuStreamCreate, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def give_stream(self, stream: Any) -> None:
        """Keep an idle stream for the next ``take_stream``."""
        if len(self._streams) < _KEPT_STREAMS:
            self._streams.append(stream)
        else:
            driver.cuStreamDestroy(stream)

    def give_event(self, event: Any, timing: bool) -> None:
        """Keep an event for the next ``take_event``. Commands that wait for it still wait for the point where it was recorded."""
        if len(self._events[timing]) < _KEPT_EVENTS:
            self._events[timing].append(event)
        else:
            driver.cuEventDestroy(event)

    def release(self) -> None:
        with self._lock:
            if self._context is None:
                return
            for queue in [*self._queues, *self._foreign]:
                queue.release()
            for lock in list(self.page_locks):  # they would stay locked if another library retains the context
                lock.release()
            self._open_to.clear()
            self.recycled.close()
            with self.relaxed():
                for event in (*self._events[False], *self._events[True]):
                    driver.cuEventDestroy(event)
                self._events = {False: [], True: []}
                for stream in self._streams:
                    driver.cuStreamDestroy(stream)
                self._streams = []
                self._rows.release()
                if self._pool is not None:
                    driver.cuStreamSynchronize(self._stream)
                    driver.cuEventDestroy(self._fence_event)
                    driver.cuEventDestroy(self._ready_event)
                    driver.cuStreamDestroy(self._stream)
                    driver.cuMemPoolDestroy(self._pool)
            self._pool = self._stream = self._fence_event = self._ready_event = self._context = None
            self.generation += 1
            self.recycled = self._pool_of_freed()
            driver.cuDevicePrimaryCtxRelease(self._handle)

    def abandon(self) -> None:
        super().abandon()
        self._context = None
        self._streams = []
        self.page_locks = set()
        self._lock = threading.RLock()  # the old lock may be held by a thread that the forked process lacks
        self.recycled = self._pool_of_freed()

    def _make_pool(self, context: Any) -> None:
        """Create the pool, its stream and its events, if the driver supports pools."""
        if not self.attribute("MEMORY_POOLS_SUPPORTED"):
            return
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.handleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = int(self._handle)
        self._pool = call(driver.cuMemPoolCreate, properties)
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call(driver.cuMemPoolSetAttribute, self._pool, threshold, driver.cuuint64_t(self.info.global_memory // _POOL_KEEPS))
        self._stream = call(driver.cuStreamCreate, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        quiet = int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._fence_event, self._ready_event = call(driver.cuEventCreate, quiet), call(driver.cuEventCreate, quiet)

    def _fence(self, stream: Any) -> None:
        """Make the pool's stream wait for the commands that ``stream`` holds now."""
        driver.cuEventRecord(self._fence_event, stream)
        driver.cuStreamWaitEvent(self._stream, self._fence_event, 0)
