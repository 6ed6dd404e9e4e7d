"""Device memory, images and pinned memory of the CUDA driver."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Image, Memory
from portatile.device.copies import address
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import driver, failure, running
from portatile.device.cuda.image import LinearTexture
from portatile.device.resources import PageLock
from portatile.device.side_by_side import side_by_side, threads
from portatile.errors import PortatileError
from portatile.images import ImageForm

_PAGE = 4096  # bytes
_TOUCHED = 1 << 22  # bytes of the smallest pinned block that is allocated as ordinary pages and then locked


class CudaMemory(Memory):
    """A device pointer, ``handle``. ``owner`` is the foreign object that owns the memory, or None for memory of our own."""

    handle: int | None = None

    def __init__(self, device: CudaContext, pointer: int, nbytes: int, owner: object = None) -> None:
        self.device: CudaContext = device
        self.handle = pointer
        self.nbytes = nbytes
        self.owner = owner
        self.generation = device.generation

    @property
    def is_own(self) -> bool:
        """Whether this device allocated the memory, or the memory that it is a part or view of; other queues may be using it."""
        return self.owner is None or isinstance(self.owner, CudaMemory)

    def release(self) -> None:
        if self.views is not None:
            self.release_views()
        pointer, self.handle = self.handle, None
        if pointer is not None and self.owner is None:
            if type(self) is CudaMemory and self.generation == self.device.generation:
                self.device.recycled.give(pointer, self.nbytes)
            else:  # an image has a padded size
                self.device.free(pointer, self.generation)
        self.owner = None

    def __del__(self) -> None:
        if running and self.handle is not None:
            self.release()


class CudaImage(CudaMemory, Image):
    """Rows of pixels ``pitch`` bytes apart and, for an ``image2d_t``, the texture object that samples them.

    A kernel takes it by value as ``{ulong texture; ulong data; int width; int height; int pitch; int channels;}``, followed by ``int depth;
    int slice;`` for every other type. The texture is point-sampled with integer coordinates and reads 0 outside; ``data``, ``pitch`` and
    ``slice`` (bytes) serve writes, and reads where there is no texture. ``channels`` is ``ImageForm.code``. An ``image1d_buffer_t`` uses
    the texture of its ``row``, and ``slice`` is the number of pixels in the row before its first; its memory may belong to ``owner``.
    """

    def __init__(
        self,
        device: CudaContext,
        pointer: int,
        form: ImageForm,
        pitch: int,
        texture: Any = None,
        row: LinearTexture | None = None,
        owner: object = None,
    ) -> None:
        super().__init__(device, pointer, form.nbytes, owner)
        self.form = form
        self.pitch = pitch
        self.texture = texture if row is None else row.handle
        self.row = row

    @property
    def layout(self) -> str:
        """The kernel's struct in the format letters of Python's struct module."""
        return "QQiiii" if self.form.type == "image2d_t" else "QQiiiiiI"

    @property
    def is_own(self) -> bool:
        return True

    def fields(self) -> tuple[int | None, ...]:
        """The members of the kernel's struct."""
        form = self.form
        plane = (int(self.texture or 0), self.handle, form.width, form.height, self.pitch, form.code)
        if form.type == "image2d_t":
            return plane
        return (*plane, form.depth, self.pitch * form.height if self.row is None else self.row.ahead)

    def release(self) -> None:
        if self.handle is not None and self.row is not None:
            self.row.users -= 1
        elif self.handle is not None and self.texture is not None and self.generation == self.device.generation:
            with self.device.relaxed():
                driver.cuTexObjectDestroy(self.texture)
        super().release()


class CudaPinned:
    """Page-locked host memory, freed with the last array that uses it.

    The driver allocates 2 GB of it per second. Ordinary pages that several threads touch and the driver then locks take a fifth of the
    time.
    """

    def __init__(self, device: CudaContext, nbytes: int) -> None:
        self._device, self._generation = device, device.generation
        self._pointer: int | None = None
        self._lock: CudaPageLock | None = None
        if nbytes >= _TOUCHED and hasattr(mmap, "MADV_DONTFORK"):
            self._memory = _pages(nbytes)
            side_by_side(nbytes, threads(), lambda low, high: self._memory[low:high:_PAGE].fill(0))
            start = address(self._memory)
            with suppress(PortatileError):
                self._lock = CudaPageLock(device, start, nbytes)
        if self._lock is None:
            with device.relaxed():
                error, *pointers = driver.cuMemHostAlloc(nbytes, 0)
            if int(error):
                raise failure(error, f"{device.info.id} cannot allocate {nbytes} bytes of pinned memory")
            start = self._pointer = int(pointers[0])
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (start, False), "version": 3}

    def __del__(self) -> None:
        if not running:
            return
        if (lock := getattr(self, "_lock", None)) is not None:
            lock.release()
        elif getattr(self, "_pointer", None) is not None and self._generation == self._device.generation:
            with self._device.relaxed():
                driver.cuMemFreeHost(self._pointer)


def _pages(nbytes: int) -> NDArray[np.uint8]:
    """Private pages, huge ones where possible, which a fork does not share: copy-on-write would replace locked pages."""
    pages = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in (mmap.MADV_DONTFORK, mmap.MADV_HUGEPAGE):
        with suppress(OSError):
            pages.madvise(advice)
    return np.frombuffer(pages, np.uint8)


class CudaPageLock(PageLock):
    """Page-locked memory of a host array, which all GPUs of the process can access. Raises DeviceError if the system does not lock it."""

    def __init__(self, device: CudaContext, pointer: int, nbytes: int) -> None:
        self._device, self._generation = device, device.generation
        self._pointer: int | None = None
        with device.relaxed():
            error = driver.cuMemHostRegister(pointer, nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)[0]
        if int(error):
            raise failure(error, f"{device.info.id} cannot lock {nbytes} bytes of the host's memory")
        self._pointer = pointer
        device.page_locks.add(self)

    @property
    def alive(self) -> bool:  # type: ignore[override]
        return self._pointer is not None and self._generation == self._device.generation

    def wait(self) -> None:
        if self.alive:
            for device in list(CudaContext.used):  # each of them may be copying this memory
                device.finish()

    def release(self) -> None:
        pointer, self._pointer = self._pointer, None
        if running and pointer is not None and self._generation == self._device.generation:
            with self._device.relaxed():
                driver.cuMemHostUnregister(pointer)
            self._device.page_locks.discard(self)
