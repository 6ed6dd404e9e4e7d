"""Device memory, images and pinned memory of the CUDA driver."""

from __future__ import annotations

from typing import Any

from portatile.device.base import Image, Memory
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import driver, failure, running
from portatile.device.cuda.image import LinearTexture
from portatile.images import ImageForm


class CudaMemory(Memory):
    """A device pointer, ``handle``. ``owner`` is the foreign object that the memory belongs to, or None for memory of our own."""

    handle: int | None = None

    def __init__(self, device: CudaContext, pointer: int, nbytes: int, owner: object = None) -> None:
        self.device: CudaContext = device
        self.handle = pointer
        self.nbytes = nbytes
        self.owner = owner
        self.generation = device.generation

    @property
    def ours(self) -> bool:
        """Whether the device allocated it, or what it shows or is part of: other queues may be using that."""
        return self.owner is None or isinstance(self.owner, CudaMemory)

    def release(self) -> None:
        if self.views is not None:
            self.blind()
        pointer, self.handle = self.handle, None
        if pointer is not None and self.owner is None:
            if type(self) is CudaMemory and self.generation == self.device.generation:
                self.device.recycled.give(pointer, self.nbytes)
            else:  # an image has rows of its own length
                self.device.free(pointer, self.generation)
        self.owner = None

    def __del__(self) -> None:
        if running and self.handle is not None:
            self.release()


class CudaImage(CudaMemory, Image):
    """Rows of pixels ``pitch`` bytes apart and, of an ``image2d_t``, the texture object that samples them.

    A kernel takes it by value as ``{ulong texture; ulong data; int width; int height; int pitch; int channels;}``, with
    ``int depth; int slice;`` behind for every other type: the texture is point-sampled with whole coordinates and reads 0
    outside; ``data``, ``pitch`` and ``slice`` (bytes) serve writes, and reads where there is no texture. ``channels`` is
    ``ImageForm.code``. The texture of an ``image1d_buffer_t`` is its ``row``'s, and ``slice`` the pixels of that before the first;
    the memory may be ``owner``'s.
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
        """The kernel's struct, in the letters of Python's module struct."""
        return "QQiiii" if self.form.type == "image2d_t" else "QQiiiiiI"

    @property
    def ours(self) -> bool:
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
            with self.device.current():
                driver.cuTexObjectDestroy(self.texture)
        super().release()


class CudaPinned:
    """Page-locked host memory, freed when the last array on it is gone."""

    def __init__(self, device: CudaContext, nbytes: int) -> None:
        self._device, self._generation = device, device.generation
        self._pointer: int | None = None
        with device.current():
            error, *pointers = driver.cuMemHostAlloc(nbytes, 0)
        if int(error):
            raise failure(error, f"{device.info.id} cannot allocate {nbytes} bytes of pinned memory")
        self._pointer = int(pointers[0])
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (self._pointer, False), "version": 3}

    def __del__(self) -> None:
        if running and getattr(self, "_pointer", None) is not None and self._generation == self._device.generation:
            with self._device.current():
                driver.cuMemFreeHost(self._pointer)
