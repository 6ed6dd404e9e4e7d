"""Buffers, images, pinned and mapped host memory of pyopencl."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Image, Memory
from portatile.device.opencl.context import ClContext
from portatile.device.opencl.driver import cl, failure
from portatile.device.pool import Pool
from portatile.images import ImageForm
from portatile.records import TensorMap

_serials = count(1)


class ClMemory(Memory):
    """A ``pyopencl.Buffer``, ``handle``. ``array``: the host array whose memory it uses, if any; ``pool``: the pool that takes the released
    buffer; ``maps``: the tensor maps of a buffer that cannot store them itself.
    """

    handle: Any = None
    pool: Pool | None = None
    whole: Memory | None = None
    """The memory that this is a part of; None for a buffer of its own."""

    def __init__(self, device: ClContext, buffer: Any, nbytes: int, array: NDArray[Any] | None = None, pool: Pool | None = None) -> None:
        self.device = device
        self.generation = device.generation
        self.nbytes = nbytes
        self.array = array
        self.handle = buffer
        self.pool = pool
        self.maps: dict[TensorMap, np.void] = {}
        self.serial = next(_serials)

    def release(self) -> None:
        buffer, self.handle = self.handle, None
        if buffer is not None:
            self.release_views()
            self.array = self.whole = None
            if self.pool is None:
                buffer.release()
            else:
                self.pool.give(buffer, self.nbytes)

    def __del__(self) -> None:
        if self.pool is not None:
            self.release()


class ClImage(ClMemory, Image):
    """A ``pyopencl.Image``. ``backing`` is the buffer behind an ``image1d_buffer_t``, through which it is copied; it is released with the
    image if it is its ``own``.
    """

    def __init__(self, device: ClContext, buffer: Any, form: ImageForm, backing: Any = None, own: bool = True) -> None:
        super().__init__(device, buffer, form.nbytes)
        self.form, self.backing, self._own = form, backing, own

    @property
    def region(self) -> tuple[int, ...]:
        """The size in the terms of image copies: width, height and depth or layers; of an array of lines: width, lines and 1."""
        form = self.form
        return (form.width, form.depth, 1) if form.type == "image1d_array_t" else (form.width, form.height, form.depth)

    def release(self) -> None:
        super().release()
        backing, self.backing = self.backing, None
        if backing is not None and self._own:
            backing.release()


class ClPinned:
    """Host memory allocated by the driver, and mapped by a ``pyopencl.CommandQueue`` as long as an array refers to it."""

    def __init__(self, device: ClContext, cl_queue: Any, nbytes: int) -> None:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        try:
            self._buffer = cl.Buffer(device.context, flags, nbytes)
            access = cl.map_flags.READ | cl.map_flags.WRITE
            self._array, _ = cl.enqueue_map_buffer(cl_queue, self._buffer, access, 0, (nbytes,), np.uint8)
        except cl.Error as error:
            raise failure(error, f"{device.info.id} cannot allocate {nbytes} bytes of pinned memory") from None
        self._queue = cl_queue
        self.__array_interface__ = self._array.__array_interface__

    def __del__(self) -> None:
        array = getattr(self, "_array", None)
        if array is not None:
            array.base.release(self._queue)


class ClMapped:
    """A block of memory, mapped by a ``pyopencl.CommandQueue`` as long as an array refers to it; waits for the queue's commands."""

    def __init__(self, cl_queue: Any, memory: ClMemory) -> None:
        access = cl.map_flags.READ | cl.map_flags.WRITE
        try:
            self._array, _ = cl.enqueue_map_buffer(cl_queue, memory.handle, access, 0, (memory.nbytes,), np.uint8)
        except cl.Error as error:
            raise failure(error, f"{memory.device.info.id} cannot map {memory.nbytes} bytes") from None
        self._memory, self._queue = memory, cl_queue
        self.__array_interface__ = self._array.__array_interface__

    def __del__(self) -> None:
        array = getattr(self, "_array", None)
        if array is not None and self._memory.handle is not None:
            array.base.release(self._queue)
