"""Memory, kernels, queues and events of pyopencl: the part of the OpenCL back end that runs for every command."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from portatile.device import ranges
from portatile.device.base import Argument, Event, Image, Kernel, Memory, Queue
from portatile.device.copies import check_fill, contiguous, fits
from portatile.device.opencl.launch import bare
from portatile.device.opencl.pool import Pool
from portatile.errors import ArgumentError, DeviceError, LaunchError, PortatileError
from portatile.form import ImageForm, Sampler, check_form
from portatile.records import Entry, Resources, Size3

if TYPE_CHECKING:
    from portatile.device.opencl.device import ClDevice

import_error = ""
try:
    import pyopencl

    cl: Any = pyopencl
except (ImportError, OSError) as error:  # not installed, or its loader does not load
    cl = None
    import_error = str(error)


def failure(error: Any, what: str) -> PortatileError:
    """The exception for a driver's error: LaunchError where the launch itself is at fault, else DeviceError."""
    codes = cl.status_code
    launch = {codes.INVALID_WORK_GROUP_SIZE, codes.INVALID_WORK_ITEM_SIZE, codes.INVALID_ARG_SIZE, codes.INVALID_ARG_VALUE}
    launch |= {codes.INVALID_ARG_INDEX, codes.INVALID_KERNEL_ARGS, codes.INVALID_WORK_DIMENSION, codes.INVALID_GLOBAL_WORK_SIZE}
    launch |= {codes.OUT_OF_RESOURCES, codes.INVALID_MEM_OBJECT}
    kind = LaunchError if getattr(error, "code", None) in launch else DeviceError
    return kind(f"{what}: {error}")


_serials = count(1)


class ClMemory(Memory):
    """A ``pyopencl.Buffer``; ``array`` is the host array whose memory it is, if any, ``pool`` where the buffer goes in the end."""

    pool: Pool | None = None

    def __init__(self, device: ClDevice, buffer: Any, nbytes: int, array: NDArray[Any] | None = None, pool: Pool | None = None) -> None:
        self.device = device
        self.nbytes = nbytes
        self.array = array
        self.buffer = buffer
        self.pool = pool
        self.serial = next(_serials)

    @property
    def handle(self) -> Any:
        """The ``pyopencl.Buffer``."""
        return self.buffer

    def release(self) -> None:
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            self.blind()
            self.array = None
            if self.pool is None:
                buffer.release()
            else:
                self.pool.give(buffer, self.nbytes)

    def __del__(self) -> None:
        if self.pool is not None:
            self.release()


class ClImage(ClMemory, Image):
    """A ``pyopencl.Image``. ``backing`` is the buffer that an ``image1d_buffer_t`` shows, through which it is copied; released with
    it if it is its ``own``.
    """

    def __init__(self, device: ClDevice, buffer: Any, form: ImageForm, backing: Any = None, own: bool = True) -> None:
        super().__init__(device, buffer, form.nbytes)
        self.form, self.backing, self._own = form, backing, own

    @property
    def region(self) -> tuple[int, ...]:
        """All of it, as commands that copy images count: width, height, depth, or layers behind the last of them."""
        form = self.form
        return (form.width, form.depth, 1) if form.type == "image1d_array_t" else (form.width, form.height, form.depth)

    def release(self) -> None:
        super().release()
        backing, self.backing = self.backing, None
        if backing is not None and self._own:
            backing.release()


class ClEvent(Event):
    """A ``pyopencl.Event``; ``profiling`` tells whether its queue takes times."""

    __slots__ = ("_profiling", "cl_event")

    def __init__(self, event: Any, profiling: bool) -> None:
        self.cl_event = event
        self._profiling = profiling

    def wait(self) -> None:
        try:
            self.cl_event.wait()
        except cl.Error as error:
            raise failure(error, "a command failed on the device") from None

    @property
    def done(self) -> bool:
        return bool(self.cl_event.command_execution_status <= cl.command_execution_status.COMPLETE)

    def seconds_since(self, earlier: Event) -> float:
        assert isinstance(earlier, ClEvent)
        if not (self._profiling and earlier._profiling):
            raise ArgumentError("times need events of queues made with profiling=True")
        earlier.wait()
        self.wait()
        return float(self.cl_event.profile.end - earlier.cl_event.profile.end) * 1e-9

    @property
    def duration(self) -> float | None:
        if not self._profiling:
            return None
        self.wait()
        return float(self.cl_event.profile.end - self.cl_event.profile.start) * 1e-9


class ClKernel(Kernel):
    """A ``pyopencl.Kernel``. Its arguments are its state, hence the lock between setting them and queueing."""

    def __init__(self, device: ClDevice, handle: Any, entry: Entry, resources: Resources) -> None:
        self.name, self.entry, self.resources = entry.name, entry, resources
        self.device = device
        self.handle = handle
        self.lock = threading.Lock()
        self.count: int = handle.num_args
        # pyopencl's set_arg looks a NumPy scalar's type up for 9 us; this takes its bytes in 0.1 us
        self.set_bytes = getattr(handle, "_set_arg_buf", handle.set_arg)
        self._last: list[object] = [None] * self.count  # serial numbers of memory, not the memory: it must not be kept alive
        self.legal: set[tuple[Size3, Size3]] = set()
        info = cl.kernel_work_group_info
        # NVIDIA answers 256 also for kernels that require and run more; it refuses by itself what it cannot run
        limit: int = handle.get_work_group_info(info.WORK_GROUP_SIZE, device.cl_device)
        self._limit = device.info.max_work_group_size if device.nvidia else min(limit, device.info.max_work_group_size)
        self._static: int = handle.get_work_group_info(info.LOCAL_MEM_SIZE, device.cl_device)

    def check(self, global_size: Size3, local_size: Size3) -> None:
        """Raise LaunchError for an NDRange that the device cannot run; a legal one is remembered."""
        ranges.check(self, self.device.info, self._limit, global_size, local_size)
        self.check_local(0)
        self.legal.add((global_size, local_size))

    def check_local(self, dynamic: int) -> None:
        """Raise LaunchError for more local memory than there is: PoCL accepts it silently or ends the process.

        NVIDIA reports 48 KB but runs static arrays well past that, and refuses what does not fit by itself.
        """
        static = 0 if self.device.nvidia else self._static
        limit = self.device.info.local_memory
        if static + dynamic > limit:
            what = f"{static + dynamic} bytes of local memory ({dynamic} of them as arguments)"
            raise LaunchError(f"kernel {self.name!r} needs {what}; {self.device.info.id} has {limit}")

    def set_args(self, args: Sequence[Argument]) -> None:
        """Set the arguments that differ from the last launch's, which the driver keeps; the caller holds the lock."""
        if len(args) != self.count:
            names = ", ".join(p.name for p in self.entry.parameters)
            raise LaunchError(f"kernel {self.name!r} takes {self.count} arguments ({names}), not {len(args)}")
        device, set_arg, set_bytes, last = self.device, self.handle.set_arg, self.set_bytes, self._last
        dynamic = index = 0
        try:
            for index, arg in enumerate(args):
                kind = type(arg)
                if last[index] is arg and kind is not int and kind is not np.void:  # most of them in most launches
                    continue
                if (kind is ClMemory or kind is ClImage) and arg.device is device and arg.buffer is not None:  # type: ignore[union-attr]
                    if last[index] != arg.serial:  # type: ignore[union-attr]
                        if kind is ClImage:
                            check_form(self.entry, index, arg.form)  # type: ignore[union-attr]
                        set_arg(index, arg.buffer)  # type: ignore[union-attr]
                        last[index] = arg.serial  # type: ignore[union-attr]
                elif isinstance(arg, np.generic):
                    if last[index] is not arg or kind is np.void:  # a structure is the one scalar that can change
                        set_bytes(index, arg)
                        last[index] = arg
                elif kind is int:
                    dynamic += arg  # type: ignore[operator]
                    if last[index] != arg:
                        set_arg(index, cl.LocalMemory(arg))
                        last[index] = arg
                elif kind is Sampler:
                    if last[index] != arg:
                        set_arg(index, device.sampler(arg))  # type: ignore[arg-type]
                        last[index] = arg
                else:
                    raise LaunchError(f"argument {self._parameter(index)}: {_complain(arg, device)}")
        except cl.Error as error:
            raise LaunchError(f"argument {self._parameter(index)} does not take {_name(args[index])}: {error}") from None
        if dynamic:
            self.check_local(dynamic)

    def release(self) -> None:
        """Give the driver's kernel back."""
        self.handle = self.set_bytes = None

    def _parameter(self, index: int) -> str:
        parameters = self.entry.parameters
        text = f" ({parameters[index].type} {parameters[index].name})" if index < len(parameters) else ""
        return f"{index}{text} of kernel {self.name!r}"


def _name(arg: object) -> str:
    return arg.dtype.name if isinstance(arg, np.generic) else type(arg).__name__


def _complain(arg: object, device: ClDevice) -> str:
    if not isinstance(arg, Memory):
        return (
            f"{arg!r} is a {_name(arg)}; pass memory of {device.info.id}, a NumPy scalar, a Sampler, or the bytes of local memory as an int"
        )
    if arg.handle is None:
        return "this memory has been released"
    return f"this memory belongs to {arg.device.info.id}, the queue to {device.info.id}"


class ClQueue(Queue):
    """A ``pyopencl.CommandQueue``; every one but the default has the device's ``pool``, which hands nothing on while there are others."""

    def __init__(self, device: ClDevice, profiling: bool, out_of_order: bool, pool: Pool | None = None) -> None:
        self.device: ClDevice = device
        self.profiling, self.out_of_order = profiling, out_of_order
        flags = cl.command_queue_properties
        properties = (flags.PROFILING_ENABLE if profiling else 0) | (flags.OUT_OF_ORDER_EXEC_MODE_ENABLE if out_of_order else 0)
        try:
            self.cl_queue = cl.CommandQueue(device.context, device.cl_device, properties)
        except cl.Error as error:
            raise failure(error, f"{device.info.id} has no such queue") from None
        self._events = profiling or out_of_order
        self._enqueue = cl.enqueue_nd_range_kernel
        self._bare = bare(cl) if device.nvidia and not self._events else None
        # pyopencl's copy events wait for the copy when they are dropped: kept here until they are done
        self._pending: deque[Any] = deque()
        self._pool = pool
        if pool is not None:
            pool.enter()

    def launch(
        self, kernel: Kernel, global_size: Size3, local_size: Size3, args: Sequence[Argument], wait: Sequence[Event] = ()
    ) -> Event | None:
        assert isinstance(kernel, ClKernel)
        try:
            with kernel.lock:
                if (global_size, local_size) not in kernel.legal:
                    kernel.check(global_size, local_size)
                kernel.set_args(args)
                if (
                    self._bare is not None
                    and not wait
                    and self._bare(self.cl_queue.int_ptr, kernel.handle.int_ptr, global_size, local_size)
                ):
                    return None
                waiting = [_raw(e) for e in wait] if wait else None
                event = self._enqueue(self.cl_queue, kernel.handle, global_size, local_size, None, waiting)
        except cl.Error as error:
            raise failure(error, f"kernel {kernel.name!r}, global {global_size}, local {local_size}") from None
        return ClEvent(event, self.profiling) if self._events or wait else None

    def upload(self, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        contiguous(array)
        fits(target, offset, array.nbytes)
        if array.nbytes == 0 or self._is_own(target, array):
            return self.marker()
        place, options = _place(target, offset, "dst_offset")
        return self._copy(place, array, wait, blocking, **options)

    def download(self, array: NDArray[Any], source: Memory, offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        contiguous(array)
        fits(source, offset, array.nbytes)
        if array.nbytes == 0:
            return self.marker()
        if self._is_own(source, array):
            return self._show(source, blocking, wait)
        place, options = _place(source, offset, "src_offset")
        return self._copy(array, place, wait, blocking, **options)

    def copy(
        self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0, wait: Sequence[Event] = ()
    ) -> Event:
        fits(target, target_offset, nbytes)
        fits(source, source_offset, nbytes)
        if nbytes == 0:
            return self.marker()
        place, options = _place(target, target_offset, "dst_offset")
        if "region" in options:
            return self._copy(place, source.handle, wait, None, offset=source_offset, **options)
        return self._copy(place, source.handle, wait, None, byte_count=nbytes, src_offset=source_offset, **options)

    def fill(self, target: Memory, pattern: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        nbytes = target.nbytes - offset if nbytes is None else nbytes
        fits(target, offset, nbytes)
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
            self.cl_queue.finish()
        except cl.Error as error:
            raise failure(error, f"a command failed on {self.device.info.id}") from None
        self._pending.clear()

    def release(self) -> None:
        if self.cl_queue is not None:
            self.finish()
            self.cl_queue = None
            if self._pool is not None:
                self._pool.leave()

    def _copy(self, target: Any, source: Any, wait: Sequence[Event], blocking: bool | None, **options: Any) -> Event:
        if blocking is not None:
            options["is_blocking"] = blocking
        if wait:
            options["wait_for"] = [_raw(e) for e in wait]
        try:
            event = (
                self._image_copy(target, source, options)
                if "region" in options
                else cl.enqueue_copy(self.cl_queue, target, source, **options)
            )
        except cl.Error as error:
            raise failure(error, "the copy failed") from None
        if blocking is False:
            pending = self._pending
            while pending and pending[0].command_execution_status <= 0:
                pending.popleft()
            pending.append(event)
        elif blocking and not self.out_of_order:  # whatever was queued before is done too
            self._pending.clear()
        return ClEvent(event, self.profiling)

    def _image_copy(self, target: Any, source: Any, options: dict[str, Any]) -> Any:
        """``enqueue_copy`` to or from a whole image, which in pyopencl knows no images of one dimension."""
        origin, region, commands = options.pop("origin"), options.pop("region"), cl._cl
        if isinstance(target, np.ndarray):
            return commands._enqueue_read_image(self.cl_queue, source, origin, region, target, **options)
        if isinstance(source, np.ndarray):
            return commands._enqueue_write_image(self.cl_queue, target, origin, region, source, **options)
        offset = options.pop("offset")
        if target.type != cl.mem_object_type.IMAGE1D_ARRAY:
            return commands._enqueue_copy_buffer_to_image(self.cl_queue, source, target, offset, origin, region, **options)
        lines = np.empty(region[0] * region[1] * target.get_image_info(cl.image_info.ELEMENT_SIZE), np.uint8)
        cl.enqueue_copy(self.cl_queue, lines, source, src_offset=offset, is_blocking=True, **options)  # NVIDIA copies no buffer to these
        return commands._enqueue_write_image(self.cl_queue, target, origin, region, lines, is_blocking=True)

    def _is_own(self, memory: Memory, array: NDArray[Any]) -> bool:
        """Whether ``memory`` is made of this very host array."""
        own: NDArray[Any] | None = getattr(memory, "array", None)
        return own is not None and own.ctypes.data == array.ctypes.data and own.nbytes >= array.nbytes

    def _show(self, memory: Memory, blocking: bool, wait: Sequence[Event]) -> Event:
        """Make the host see what the device wrote to shared memory: mapping it is what the standard asks for."""
        shape, waiting = (memory.nbytes,), [_raw(e) for e in wait]
        mapped, event = cl.enqueue_map_buffer(
            self.cl_queue, memory.handle, cl.map_flags.READ, 0, shape, np.uint8, wait_for=waiting, is_blocking=blocking
        )
        mapped.base.release(self.cl_queue)
        return ClEvent(event, self.profiling)


def _raw(event: Event) -> Any:
    assert isinstance(event, ClEvent)
    return event.cl_event


def _place(memory: Memory, offset: int, key: str) -> tuple[Any, dict[str, Any]]:
    """What a copy's end is to the driver, and where in it the copy begins."""
    if isinstance(memory, ClImage) and memory.backing is None:
        return memory.handle, {"origin": (0, 0, 0), "region": memory.region}
    return (memory.backing if isinstance(memory, ClImage) else memory.handle), {key: offset}
