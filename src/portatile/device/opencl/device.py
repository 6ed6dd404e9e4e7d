"""One OpenCL device: memory that is allocated, shared or borrowed, images, queues and loaded programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Image, Memory, Queue, ReadyLaunch
from portatile.device.copies import address
from portatile.device.launches import Repeat
from portatile.device.module import LoadedKernel, Module
from portatile.device.opencl.compiler import ClTarget, Programs
from portatile.device.opencl.context import ClContext
from portatile.device.opencl.driver import cl
from portatile.device.opencl.host_buffers import HostBuffers
from portatile.device.opencl.image import description, pixel
from portatile.device.opencl.kernel import ClModule
from portatile.device.opencl.memory import ClImage, ClMapped, ClMemory, ClPinned
from portatile.device.opencl.queue import ClQueue
from portatile.device.opencl.repeat import ClRepeat
from portatile.device.opencl.tensor_map import MappedBuffer, TensorMaps
from portatile.device.pool import Pool
from portatile.errors import CompileError, DeviceError, LaunchError
from portatile.images import ImageForm
from portatile.records import Binary, Source, TensorMap


class ClDevice(ClContext):
    """One device of one OpenCL platform, with a context of its own: loads kernels, allocates memory and makes queues."""

    def __init__(self, identity: str, device: Any) -> None:
        super().__init__(identity, device)
        self._programs = Programs(self)
        self.target = ClTarget(self, self._programs)
        self._default: ClQueue | None = None
        self._abandoned: tuple[object, ...] = ()
        self._share_alignment: int | None = None
        self._borrowed = HostBuffers(self.share)
        self._pool = Pool(self.info.global_memory)
        self._maps = TensorMaps(self, self._loaded)

    def load(self, binary: Binary) -> Module:
        if binary.kind != "opencl":
            raise CompileError(f"{self.info.id} loads OpenCL binaries, not {binary.kind}")
        return ClModule(self, self._programs.take(binary), binary)

    def allocate(self, nbytes: int) -> Memory:
        message = f"{self.info.id} cannot allocate {nbytes} bytes: at most {self.info.max_allocation} in one piece"
        if nbytes > self.info.max_allocation:  # NVIDIA's driver would report it only at the first use
            raise DeviceError(message)
        context, pool = self.context, self._pool
        buffer = pool.take(nbytes)
        while buffer is None:
            try:
                buffer = MappedBuffer(context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
            except cl.Error as error:
                if not pool.clear() and not self.spare():
                    raise DeviceError(f"{message}, and {error}") from None
        return ClMemory(self, buffer, nbytes, pool=pool)

    def _part(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        try:
            part = ClMemory(self, memory.handle.get_sub_region(offset, max(nbytes, 1)), nbytes)
        except cl.Error as error:
            raise DeviceError(f"{self.info.id} cannot make a part of a buffer: {error}") from None
        part.whole = memory
        return part

    def repeat(self, launches: Sequence[ReadyLaunch]) -> Repeat | None:
        return ClRepeat(launches) if self.nvidia else None

    def image_of(self, form: ImageForm) -> Image:
        limit = self.info.image_2d_max
        if not self.info.images:
            raise LaunchError(f"{self.info.id} has no images")
        if form.type.startswith("image2d") and not (form.width <= limit[0] and form.height <= limit[1]):
            raise LaunchError(f"an {form} does not fit {self.info.id}: at most {limit[1]} x {limit[0]}")
        backing = None
        try:
            if form.type == "image1d_buffer_t":
                backing = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, form.nbytes)
            handle = cl.Image(self.context, cl.mem_flags.READ_WRITE, pixel(form), desc=description(form, backing))
        except cl.Error as error:
            raise LaunchError(f"{self.info.id} has no {form}: {error}") from None
        return ClImage(self, handle, form, backing)

    def _view(self, memory: Memory, form: ImageForm) -> Image:
        assert isinstance(memory, ClMemory)
        try:
            handle = cl.Image(self.context, cl.mem_flags.READ_ONLY, pixel(form), desc=description(form, memory.handle))
        except cl.Error as error:
            if memory.whole is None:
                raise LaunchError(f"{self.info.id} has no {form} over a buffer: {error}") from None
            copied = self.image_of(form)  # PoCL makes no image over a part of a buffer
            copied.copied = True
            return copied
        return ClImage(self, handle, form, memory.handle, own=False)

    def tensor_map(self, memory: Memory, form: TensorMap) -> np.void:
        if not self.info.can.tensor_maps:
            return super().tensor_map(memory, form)
        assert isinstance(memory, ClMemory)
        return self._maps.of(memory, form)

    def _loaded(self, source: Source) -> LoadedKernel:
        return self.load(self.target.compile(*self.target.lower(source))).kernel("encode")

    def share(self, array: NDArray[Any]) -> Memory | None:
        if not self.info.unified_memory or array.nbytes == 0 or not array.flags.c_contiguous:
            return None
        if self._share_alignment is None:
            self._share_alignment = self._probe_sharing()
        if not self._share_alignment or address(array) % self._share_alignment:
            return None
        access = cl.mem_flags.READ_WRITE if array.flags.writeable else cl.mem_flags.READ_ONLY
        try:
            return ClMemory(self, cl.Buffer(self.context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=array), array.nbytes, array)
        except cl.Error:
            return None

    def borrow(self, array: NDArray[Any]) -> Memory | None:
        return self._borrowed.of(array) if self.info.kind == "cpu" else None

    def mapped(self, memory: Memory) -> NDArray[np.uint8] | None:
        if self.info.kind != "cpu":
            return None
        queue = self.default_queue()
        assert isinstance(queue, ClQueue)
        assert isinstance(memory, ClMemory)
        return np.asarray(ClMapped(queue.cl_queue, memory))

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        queue = self.default_queue()
        assert isinstance(queue, ClQueue)
        owner = ClPinned(self, queue.cl_queue, max(nbytes, 1))
        return np.asarray(owner)[:nbytes]

    def together(self, others: Sequence[Device] = ()) -> tuple[Device, ...]:
        members: list[ClDevice] = [self]
        for one in others:
            if not isinstance(one, ClDevice) or one.cl_device.platform != self.cl_device.platform:
                raise DeviceError(f"{one.info.id} and {self.info.id} belong to different platforms, which cannot share a context")
            members.append(one)
        try:
            context = cl.Context([member.cl_device for member in members])
        except cl.Error as error:
            raise DeviceError(f"cannot make a context of {', '.join(member.info.id for member in members)}: {error}") from None
        opened = tuple(ClDevice(member.info.id, member.cl_device) for member in members)
        for one in opened:
            one._context, one.peers = context, tuple(other for other in opened if other is not one)
        return opened

    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        queue = ClQueue(self, profiling, out_of_order, self._pool)
        if self._pool.handed and self._default is not None:  # recycled memory may still be in use on the default queue
            event = self._default.marker()
            self._default.flush()
            queue.wait_for(event)
        return queue

    def default_queue(self) -> Queue:
        if self._default is None:
            with self._lock:
                if self._default is None:
                    self._default = ClQueue(self, False, False)
        return self._default

    def release(self) -> None:
        with self._lock:
            if self._context is None:
                return
            if self._default is not None:
                self._default.release()
            self._borrowed.release()
            self._maps.release()
            self._pool.close()
            self._pool = Pool(self.info.global_memory)
            self._default = self._context = self._share_alignment = None
            self.peers = ()
            self._programs.clear()
            self._samplers.clear()
            self.generation += 1

    def abandon(self) -> None:
        super().abandon()
        self._abandoned = self._context, self._default, self._borrowed, self._pool  # kept, because releasing them would call the driver
        self._context = self._default = None

    def _probe_sharing(self) -> int:
        """The least alignment of a host array that commands use in place, 0 if they never do; measured by filling an array."""
        queue = self.default_queue()
        for alignment in (16, 4096):
            raw = np.zeros(16384, np.uint8)
            start = -raw.ctypes.data % 8192 + alignment
            array = raw[start : start + 4096]
            with ClMemory(
                self, cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=array), 4096
            ) as memory:
                queue.fill(memory, b"\x5a")
                queue.finish()
                if bool((array == 0x5A).all()):
                    return alignment
        return 0
