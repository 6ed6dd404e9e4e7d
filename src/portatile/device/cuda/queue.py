"""CUDA streams: launches and copies, the part of the CUDA back end that runs for every command."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import count
from threading import RLock
from typing import Any

from numpy.typing import NDArray

from portatile.device.base import Argument, Memory, Queue
from portatile.device.copies import address, check_contiguous, check_fill, check_fits
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, failure, running
from portatile.device.cuda.event import CudaEvent
from portatile.device.cuda.graph_memory import Captures
from portatile.device.cuda.kernel import CudaKernel
from portatile.device.cuda.memory import CudaImage, CudaMemory
from portatile.device.event import Event
from portatile.device.exit_gate import inside
from portatile.device.foreign_arrays import LEGACY_STREAM
from portatile.device.module import LoadedKernel
from portatile.device.strides import CopiedRows
from portatile.errors import ArgumentError
from portatile.records import Size3

_numbers = count()


class CudaQueue(Queue):
    """A CUDA stream: one of our own, or ``foreign``, another library's. Streams run in order, even where out-of-order execution is allowed.

    Another library's stream may be destroyed once its call has returned. ``last`` is an event after the last command there that uses our
    memory, or None for a stream of our own. ``beside``: the device has a default queue, too. ``tells``: launches return events.
    ``capturable``: commands may be captured into a graph.
    """

    def __init__(self, device: CudaContext, profiling: bool, out_of_order: bool, foreign: int | None = None, beside: bool = False) -> None:
        self.device: CudaContext = device
        self.profiling, self.out_of_order = profiling, out_of_order
        self.generation = device.generation
        self._foreign, self._beside = foreign is not None, beside
        self.capturable = foreign not in (None, LEGACY_STREAM)  # CUDA does not capture the legacy stream
        self.number = next(_numbers)  # unique among all queues of the process
        self.tells = profiling or out_of_order
        self._context, self._number = device.context
        with device.current():
            self.stream = driver.CUstream(foreign) if foreign is not None else device.take_stream()
            quiet = int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
            self.last: Any = call(driver.cuEventCreate, quiet) if foreign is not None else None
            self._admitted = object()  # the latest allocation of the device that this queue has waited for
        self._captures = Captures(device, self.stream)
        self._pending: deque[tuple[CudaEvent, NDArray[Any]]] = deque()
        self._keeping = RLock()  # several threads may copy through one queue
        device.register(self)

    def launch(
        self, kernel: LoadedKernel, global_size: Size3, local_size: Size3, args: Sequence[Argument], wait: Sequence[Event] = ()
    ) -> Event | None:
        assert isinstance(kernel, CudaKernel)
        current = driver.cuCtxGetCurrent()[1]
        if int(current) != self._number:
            with self.device.current():
                return self.launch(kernel, global_size, local_size, args, wait)
        for event in wait:
            self.wait_for(event)
        grid = kernel.grids.get((global_size, local_size)) or kernel.grid(global_size, local_size)
        start = CudaEvent(self.device, self.stream, True) if self.profiling else None
        borrowed = self._foreign and any(arg.is_own for arg in args if isinstance(arg, CudaMemory))
        if borrowed:
            self.enter()
        if self.capturing:
            self.keep_in_graph((kernel, *[arg for arg in args if isinstance(arg, CudaMemory) and arg.is_own]))
        with kernel.lock:
            address, dynamic = kernel.pack(args)
            if kernel.early:
                error = kernel.prepared(grid, dynamic)(self.stream, address, 0)[0]
            else:
                error = driver.cuLaunchKernel(kernel.function, *grid, dynamic, self.stream, address, 0)[0]
        if int(error):
            raise failure(error, f"kernel {kernel.name!r}, global {global_size}, local {local_size}")
        if borrowed:
            self.leave()
        return CudaEvent(self.device, self.stream, self.profiling, start) if self.tells or wait else None

    def upload(self, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        check_contiguous(array)
        check_fits(target, offset, array.nbytes)
        return self._transfer(target, array, offset, blocking, wait, to_device=True)

    def send(self, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
        assert type(target) is CudaMemory
        check_contiguous(array)
        check_fits(target, offset, array.nbytes)
        with self.device.current():
            self.enter()
            if array.nbytes:
                call(driver.cuMemcpyHtoDAsync, _address(target) + offset, address(array), array.nbytes, self.stream)
            self.leave()

    def fetch(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        assert type(source) is CudaMemory
        check_contiguous(array)
        check_fits(source, offset, array.nbytes)
        with inside, self.device.current():
            self.enter()
            if array.nbytes:
                call(driver.cuMemcpyDtoHAsync, address(array), _address(source) + offset, array.nbytes, self.stream)
            self.leave()

    def send_rows(self, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
        copy, kinds = _copy_of_rows(target, array, offset), driver.CUmemorytype
        copy.srcMemoryType, copy.srcHost, copy.srcPitch = kinds.CU_MEMORYTYPE_HOST, address(array), array.strides[0]
        copy.dstMemoryType, copy.dstDevice, copy.dstPitch = kinds.CU_MEMORYTYPE_DEVICE, target.handle + offset, copy.WidthInBytes
        self._copy_rows(copy)

    def fetch_rows(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        copy, kinds = _copy_of_rows(source, array, offset), driver.CUmemorytype
        copy.srcMemoryType, copy.srcDevice, copy.srcPitch = kinds.CU_MEMORYTYPE_DEVICE, source.handle + offset, copy.WidthInBytes
        copy.dstMemoryType, copy.dstHost, copy.dstPitch = kinds.CU_MEMORYTYPE_HOST, address(array), array.strides[0]
        self._copy_rows(copy)

    def sending(self, target: Memory, array: NDArray[Any]) -> Callable[[], object]:
        assert type(target) is CudaMemory
        check_contiguous(array)
        check_fits(target, 0, array.nbytes)
        if self._foreign or not array.nbytes:
            return super().sending(target, array)
        copy = partial(driver.cuMemcpyHtoDAsync, _address(target), address(array), array.nbytes, self.stream)

        def again() -> None:
            if copy()[0]:  # the thread may have another current context
                self.send(target, array)

        return again

    def fetching(self, array: NDArray[Any], source: Memory) -> Callable[[], object]:
        assert type(source) is CudaMemory
        check_contiguous(array)
        check_fits(source, 0, array.nbytes)
        if self._foreign or self.profiling or not array.nbytes:
            return super().fetching(array, source)
        copy = partial(driver.cuMemcpyDtoHAsync, address(array), _address(source), array.nbytes, self.stream)

        def again() -> None:
            with inside, self.device.relaxed():
                error = copy()[0] or driver.cuStreamSynchronize(self.stream)[0]
            if error:
                raise failure(error, "the copy or a command before it failed")

        return again

    def download(self, array: NDArray[Any], source: Memory, offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        check_contiguous(array)
        check_fits(source, offset, array.nbytes)
        return self._transfer(source, array, offset, blocking, wait, to_device=False)

    def copy(
        self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0, wait: Sequence[Event] = ()
    ) -> Event:
        check_fits(target, target_offset, nbytes)
        check_fits(source, source_offset, nbytes)
        assert isinstance(target, CudaMemory)
        assert isinstance(source, CudaMemory)
        with self.device.current():
            for event in wait:
                self.wait_for(event)
            self.enter()
            if _pitched(target) or _pitched(source):
                call(driver.cuMemcpy2DAsync, _copy_2d(source, source_offset, target, target_offset), self.stream)
            elif nbytes:
                call(driver.cuMemcpyDtoDAsync, _address(target) + target_offset, _address(source) + source_offset, nbytes, self.stream)
            self.leave()
            return CudaEvent(self.device, self.stream, self.profiling)

    def copy_rows(self, target: Memory, source: Memory, rows: CopiedRows) -> None:
        assert isinstance(target, CudaMemory)
        assert isinstance(source, CudaMemory)
        if not rows.number or not rows.nbytes:
            return
        check_fits(target, rows.target_offset, (rows.number - 1) * rows.target_step + rows.nbytes)
        check_fits(source, rows.source_offset, (rows.number - 1) * rows.source_step + rows.nbytes)
        copy, kind = driver.CUDA_MEMCPY2D(), driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.WidthInBytes, copy.Height = rows.nbytes, rows.number
        copy.srcMemoryType, copy.srcDevice, copy.srcPitch = kind, _address(source) + rows.source_offset, rows.source_step
        copy.dstMemoryType, copy.dstDevice, copy.dstPitch = kind, _address(target) + rows.target_offset, rows.target_step
        self._copy_rows(copy)

    def _copy_rows(self, copy: Any) -> None:
        with self.device.current():
            self.enter()
            call(driver.cuMemcpy2DAsync, copy, self.stream)
            self.leave()

    def receive(self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0) -> bool:
        if not isinstance(source, CudaMemory) or not isinstance(target, CudaMemory):
            return False
        check_fits(target, target_offset, nbytes)
        check_fits(source, source_offset, nbytes)
        source.device.open_to(self.device)
        with self.device.current():
            self.enter()
            if nbytes:
                ends = (
                    _address(target) + target_offset,
                    self.device.context[0],
                    _address(source) + source_offset,
                    source.device.context[0],
                )
                call(driver.cuMemcpyPeerAsync, *ends, nbytes, self.stream)
            self.leave()
        return True

    def fill(self, target: Memory, pattern: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        assert isinstance(target, CudaMemory)
        nbytes = target.nbytes - offset if nbytes is None else nbytes
        check_fits(target, offset, nbytes)
        check_fill(pattern, offset, nbytes)
        if isinstance(target, CudaImage):
            raise ArgumentError("fill takes buffers, not images")
        size = len(pattern)
        function = driver.cuMemsetD32Async if size == 4 else driver.cuMemsetD16Async if size == 2 else driver.cuMemsetD8Async
        if nbytes:
            with self.device.current():
                if target.is_own:
                    self.enter()
                call(function, _address(target) + offset, int.from_bytes(pattern, "little"), nbytes // size, self.stream)
                if target.is_own:
                    self.leave()

    def marker(self) -> Event:
        with self.device.current():
            return CudaEvent(self.device, self.stream, self.profiling)

    def wait_for(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        with self.device.current():
            if event.cu_event is not None:
                call(driver.cuStreamWaitEvent, self.stream, event.cu_event, 0)

    def flush(self) -> None:
        """Streams submit their commands at once."""

    def finish(self) -> None:
        with inside, self.device.relaxed():
            error = driver.cuStreamSynchronize(self.stream)[0]
        if error:
            raise failure(error, f"a command failed on {self.device.info.id}")
        self._forget_done()

    def release(self) -> None:
        stream, self.stream = self.stream, None
        if stream is None or self.generation != self.device.generation:
            return
        self.device.retire(self, stream)
        if not self._foreign:
            with self.device.relaxed():
                if int(driver.cuStreamSynchronize(stream)[0]):
                    driver.cuStreamDestroy(stream)
                else:
                    self.device.give_stream(stream)
        if self._beside:
            self.device.recycled.leave()
        self._pending.clear()

    def __del__(self) -> None:
        if running and getattr(self, "stream", None) is not None:
            self.release()

    @property
    def capturing(self) -> bool:
        if not self.capturable:
            return False
        captured = driver.cuStreamIsCapturing(self.stream)
        return not captured[0] and int(captured[1]) != 0

    def of_graph(self, place: Hashable, nbytes: int, zeroed: bool) -> Memory:
        return self._captures.give(place, nbytes, zeroed)

    def keep_in_graph(self, used: Iterable[object]) -> None:
        self._captures.keep(used)

    def forget_graph(self) -> None:
        self._captures.forget()

    def enter(self) -> None:
        """Called before a command on another library's stream: waits on the stream for memory allocated since the last command, and for its
        last users.

        A graph being captured cannot wait for outside work; in that case the host waits.
        """
        claimed = self.device.claimed
        if self._foreign and self._admitted is not claimed:
            with self.device.current():
                if self.capturing:
                    self.device.await_allocations()
                else:
                    self.device.admit(self.stream)
                self.device.follow_default(self)
                self._admitted = claimed

    def leave(self) -> None:
        """Called after such a command: records the point from which on our memory may be reused. What a graph uses, its owner keeps."""
        if self._foreign and not self.capturing:
            call(driver.cuEventRecord, self.last, self.stream)
            self.device.foreign_use = object()

    def _transfer(self, memory: Memory, array: NDArray[Any], offset: int, blocking: bool, wait: Sequence[Event], to_device: bool) -> Event:
        assert isinstance(memory, CudaMemory)
        host, nbytes = array.__array_interface__["data"][0], array.nbytes
        with inside, self.device.current():
            for event in wait:
                self.wait_for(event)
            self.enter()
            if _pitched(memory):
                ends = (array, 0, memory, 0) if to_device else (memory, 0, array, 0)
                call(driver.cuMemcpy2DAsync, _copy_2d(*ends), self.stream)
            elif nbytes and to_device:
                call(driver.cuMemcpyHtoDAsync, _address(memory) + offset, host, nbytes, self.stream)
            elif nbytes:
                call(driver.cuMemcpyDtoHAsync, host, _address(memory) + offset, nbytes, self.stream)
            self.leave()
            if blocking and not self.profiling:
                with self.device.relaxed():
                    error = driver.cuStreamSynchronize(self.stream)[0]
                if int(error):
                    raise failure(error, "the copy or a command before it failed")
                self._forget_done()
                return CudaEvent.over(self.device)
            done = CudaEvent(self.device, self.stream, self.profiling)
        if blocking:
            done.wait()
        self._forget_done(() if blocking else ((done, array),))
        return done

    def _forget_done(self, more: Sequence[tuple[CudaEvent, NDArray[Any]]] = ()) -> None:
        """Drop the host arrays whose copies are done, and keep those of ``more``; other threads may copy through the queue meanwhile."""
        if not self._pending and not more:
            return
        with self._keeping:
            while self._pending and self._pending[0][0].done:
                self._pending.popleft()
            self._pending.extend(more)


def _address(memory: CudaMemory) -> int:
    if memory.handle is None:
        raise ArgumentError("this memory has been released")
    return memory.handle


def _pitched(memory: CudaMemory) -> bool:
    """Whether the rows of the memory are padded, as textures require."""
    return isinstance(memory, CudaImage) and memory.form.type == "image2d_t"


def _copy_of_rows(memory: Memory, array: NDArray[Any], offset: int) -> Any:
    """A pitched copy between device memory and a host matrix with gaps between its rows; the caller fills in both ends."""
    if array.ndim != 2 or array.strides[1] != array.itemsize or array.strides[0] < array.shape[1] * array.itemsize:
        raise ArgumentError(f"an array of shape {array.shape} and strides {array.strides} is not a matrix with contiguous rows")
    check_fits(memory, offset, array.nbytes)
    copy = driver.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height = array.shape[1] * array.itemsize, array.shape[0]
    return copy


def _copy_2d(source: CudaMemory | NDArray[Any], source_offset: int, target: CudaMemory | NDArray[Any], target_offset: int) -> Any:
    """A pitched copy of a whole image, which is one end of the copy."""
    image = target if isinstance(target, CudaImage) else source
    assert isinstance(image, CudaImage)
    row, height = image.form.width * image.form.pixel, image.form.height
    kinds = driver.CUmemorytype
    copy = driver.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height = row, height
    copy.srcPitch = source.pitch if isinstance(source, CudaImage) else row
    copy.dstPitch = target.pitch if isinstance(target, CudaImage) else row
    if isinstance(source, CudaMemory):
        copy.srcMemoryType, copy.srcDevice = kinds.CU_MEMORYTYPE_DEVICE, _address(source) + source_offset
    else:
        copy.srcMemoryType, copy.srcHost = kinds.CU_MEMORYTYPE_HOST, source.__array_interface__["data"][0]
    if isinstance(target, CudaMemory):
        copy.dstMemoryType, copy.dstDevice = kinds.CU_MEMORYTYPE_DEVICE, _address(target) + target_offset
    else:
        copy.dstMemoryType, copy.dstHost = kinds.CU_MEMORYTYPE_HOST, target.__array_interface__["data"][0]
    return copy
