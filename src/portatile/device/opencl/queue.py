"""Queues of pyopencl: launches and copies, the part of the OpenCL back end that runs for every command."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import delays
from portatile.device.base import Argument, Image, Memory, Queue
from portatile.device.copies import check_contiguous, check_fill, check_fits
from portatile.device.event import Event
from portatile.device.exit_gate import inside
from portatile.device.module import LoadedKernel
from portatile.device.opencl.context import ClContext
from portatile.device.opencl.driver import cl, failure
from portatile.device.opencl.event import ClEvent
from portatile.device.opencl.first_launches import turns
from portatile.device.opencl.kernel import ClKernel
from portatile.device.opencl.launch import bare, sizes
from portatile.device.opencl.memory import ClImage
from portatile.device.pool import Pool
from portatile.device.strides import CopiedRows
from portatile.errors import ArgumentError
from portatile.records import Size3


class ClQueue(Queue):
    """A ``pyopencl.CommandQueue``; all but the default queue are given the device's ``pool``, which reuses nothing while they exist."""

    def __init__(self, device: ClContext, profiling: bool, out_of_order: bool, pool: Pool | None = None) -> None:
        self.device: ClContext = device
        self.profiling, self.out_of_order = profiling, out_of_order
        flags = cl.command_queue_properties
        properties = (flags.PROFILING_ENABLE if profiling else 0) | (flags.OUT_OF_ORDER_EXEC_MODE_ENABLE if out_of_order else 0)
        try:
            self.cl_queue = cl.CommandQueue(device.context, device.cl_device, properties)
        except cl.Error as error:
            raise failure(error, f"{device.info.id} cannot create such a queue") from None
        self._events = profiling or out_of_order
        self._new: list[str] | None = [] if device.target.defers else None  # kernels whose first launch compiles them
        self._enqueue = cl.enqueue_nd_range_kernel
        self.bare = bare(cl) if device.nvidia and not self._events else None
        # pyopencl's copy events wait for the copy when they are destroyed, so they are kept until they are done
        self._pending: deque[Any] = deque()
        self._keeping = RLock()  # several threads may copy through one queue
        self._turns = turns(device.info.compiler)
        if self._turns is not None:
            self._turns.enter(self)
        self._pool = pool
        if pool is not None:
            pool.enter()

    def launch(
        self, kernel: LoadedKernel, global_size: Size3, local_size: Size3, args: Sequence[Argument], wait: Sequence[Event] = ()
    ) -> Event | None:
        assert isinstance(kernel, ClKernel)
        try:
            with kernel.lock:
                known = (global_size, local_size) in kernel.legal
                if not known:
                    kernel.check(global_size, local_size)
                    if self._new is not None:
                        self._new.append(kernel.name)
                kernel.set_args(args)
                if self.bare is not None and not wait:
                    handles = self.cl_queue.int_ptr, kernel.handle.int_ptr
                    if not self.bare(*handles, 3, None, sizes(global_size), sizes(local_size), 0, None, None):
                        return None
                waiting = [_raw(e) for e in wait] if wait else None
                if self._turns is not None:
                    enqueue = partial(self._enqueue, self.cl_queue, kernel.handle, global_size, local_size, None, waiting)
                    event = self._turns.launch(self, enqueue, first=not known)
                else:
                    event = self._enqueue(self.cl_queue, kernel.handle, global_size, local_size, None, waiting)
        except cl.Error as error:
            raise failure(error, f"kernel {kernel.name!r}, global {global_size}, local {local_size}") from None
        return ClEvent(event, self.profiling) if self._events or wait else None

    def upload(self, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        check_contiguous(array)
        check_fits(target, offset, array.nbytes)
        if array.nbytes == 0 or self._is_own(target, array):
            return self.marker()
        place, options = _place(target, offset, "dst_offset")
        return self._copy(place, array, wait, blocking, **options)

    def download(self, array: NDArray[Any], source: Memory, offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        check_contiguous(array)
        check_fits(source, offset, array.nbytes)
        if array.nbytes == 0:
            return self.marker()
        if self._is_own(source, array):
            return self._show(source, blocking, wait)
        place, options = _place(source, offset, "src_offset")
        return self._copy(array, place, wait, blocking, **options)

    def copy(
        self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0, wait: Sequence[Event] = ()
    ) -> Event:
        check_fits(target, target_offset, nbytes)
        check_fits(source, source_offset, nbytes)
        if nbytes == 0:
            return self.marker()
        place, options = _place(target, target_offset, "dst_offset")
        if "region" in options:
            return self._copy(place, source.handle, wait, None, offset=source_offset, **options)
        return self._copy(place, source.handle, wait, None, byte_count=nbytes, src_offset=source_offset, **options)

    def copy_rows(self, target: Memory, source: Memory, rows: CopiedRows) -> None:
        if not rows.number or not rows.nbytes:
            return
        check_fits(target, rows.target_offset, (rows.number - 1) * rows.target_step + rows.nbytes)
        check_fits(source, rows.source_offset, (rows.number - 1) * rows.source_step + rows.nbytes)
        ends = (rows.target_offset, rows.target_step), (rows.source_offset, rows.source_step)
        if min(rows.target_step, rows.source_step) < rows.nbytes:
            super().copy_rows(target, source, rows)
            return
        target_at, source_at = ((offset % step, offset // step, 0) for offset, step in ends)
        pitches = {"src_pitches": (rows.source_step,), "dst_pitches": (rows.target_step,)}
        try:
            region = (rows.nbytes, rows.number, 1)
            cl.enqueue_copy(
                self.cl_queue, target.handle, source.handle, dst_origin=target_at, src_origin=source_at, region=region, **pitches
            )
        except cl.Error as error:
            raise failure(error, "the copy failed") from None

    def fill(self, target: Memory, pattern: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        nbytes = target.nbytes - offset if nbytes is None else nbytes
        check_fits(target, offset, nbytes)
        check_fill(pattern, offset, nbytes)
        if isinstance(target, Image):
            raise ArgumentError("fill takes buffers, not images")
        if nbytes:
            try:
                cl.enqueue_fill_buffer(self.cl_queue, target.handle, np.frombuffer(pattern, np.uint8), offset, nbytes)
            except cl.Error as error:
                raise failure(error, f"cannot fill {nbytes} bytes") from None

    def marker(self) -> Event:
        return ClEvent(cl.enqueue_marker(self.cl_queue), self.profiling)

    def wait_for(self, event: Event) -> None:
        try:
            cl.enqueue_barrier(self.cl_queue, [_raw(event)])
        except cl.Error as error:
            raise failure(error, "cannot wait for the event") from None

    def flush(self) -> None:
        self.cl_queue.flush()

    def finish(self) -> None:
        try:
            with inside, self._noticed():
                self.cl_queue.finish()
        except cl.Error as error:
            raise failure(error, f"a command failed on {self.device.info.id}") from None
        self._forget_done()

    def _noticed(self) -> AbstractContextManager[None]:
        """A context for waiting, with a notice if the driver may be compiling kernels for their first launch."""
        if not self._new:
            return nullcontext()
        names, self._new = ", ".join(sorted(set(self._new))), []
        return delays.noticed(f"{self.device.info.platform} compiles {names} for the first launch; this is done once")

    def release(self) -> None:
        if self.cl_queue is not None:
            self.finish()
            if self._turns is not None:
                self._turns.leave(self)
            self.cl_queue = None
            if self._pool is not None:
                self._pool.leave()

    def _copy(self, target: Any, source: Any, wait: Sequence[Event], blocking: bool | None, **options: Any) -> Event:
        if blocking is not None:
            options["is_blocking"] = blocking
        if wait:
            options["wait_for"] = [_raw(e) for e in wait]
        try:
            with inside:
                event = (
                    self._image_copy(target, source, options)
                    if "region" in options
                    else cl.enqueue_copy(self.cl_queue, target, source, **options)
                )
        except cl.Error as error:
            raise failure(error, "the copy failed") from None
        if blocking is not None:
            self._forget_done(() if blocking else (event,))
        return ClEvent(event, self.profiling)

    def _forget_done(self, more: Sequence[Any] = ()) -> None:
        """Drop the events of copies that are done, and keep those of ``more``; other threads may copy through the queue meanwhile."""
        with self._keeping:
            while self._pending and self._pending[0].command_execution_status <= 0:
                self._pending.popleft()
            self._pending.extend(more)

    def _image_copy(self, target: Any, source: Any, options: dict[str, Any]) -> Any:
        """``enqueue_copy`` to or from a whole image; pyopencl's own does not support one-dimensional images."""
        origin, region, commands = options.pop("origin"), options.pop("region"), cl._cl
        if isinstance(target, np.ndarray):
            return commands._enqueue_read_image(self.cl_queue, source, origin, region, target, **options)
        if isinstance(source, np.ndarray):
            return commands._enqueue_write_image(self.cl_queue, target, origin, region, source, **options)
        offset = options.pop("offset")
        if target.type != cl.mem_object_type.IMAGE1D_ARRAY:
            return commands._enqueue_copy_buffer_to_image(self.cl_queue, source, target, offset, origin, region, **options)
        lines = np.empty(region[0] * region[1] * target.get_image_info(cl.image_info.ELEMENT_SIZE), np.uint8)
        # NVIDIA does not copy buffers to these images
        cl.enqueue_copy(self.cl_queue, lines, source, src_offset=offset, is_blocking=True, **options)
        return commands._enqueue_write_image(self.cl_queue, target, origin, region, lines, is_blocking=True)

    def _is_own(self, memory: Memory, array: NDArray[Any]) -> bool:
        """Whether ``memory`` uses the memory of this host array."""
        own: NDArray[Any] | None = getattr(memory, "array", None)
        return own is not None and own.ctypes.data == array.ctypes.data and own.nbytes >= array.nbytes

    def _show(self, memory: Memory, blocking: bool, wait: Sequence[Event]) -> Event:
        """Make the device's writes to shared memory visible to the host by mapping it, as the standard requires."""
        shape, waiting = (memory.nbytes,), [_raw(e) for e in wait]
        with inside:
            mapped, event = cl.enqueue_map_buffer(
                self.cl_queue, memory.handle, cl.map_flags.READ, 0, shape, np.uint8, wait_for=waiting, is_blocking=blocking
            )
            mapped.base.release(self.cl_queue)
        return ClEvent(event, self.profiling)


def _raw(event: Event) -> Any:
    assert isinstance(event, ClEvent)
    return event.cl_event


def _place(memory: Memory, offset: int, key: str) -> tuple[Any, dict[str, Any]]:
    """One end of a copy as the driver takes it, and the keyword argument for its offset."""
    if isinstance(memory, ClImage) and memory.backing is None:
        return memory.handle, {"origin": (0, 0, 0), "region": memory.region}
    return (memory.backing if isinstance(memory, ClImage) else memory.handle), {key: offset}
