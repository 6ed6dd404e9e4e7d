"""One GPU through the CUDA driver: memory, images, queues and loaded cubins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Image, Memory, Queue, Ready, ReadyLaunch
from portatile.device.copies import address, check_contiguous
from portatile.device.cuda.compiler import CudaTarget, is_whole
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, failure
from portatile.device.cuda.image import PITCH, longest_row, texture
from portatile.device.cuda.kernel import CudaModule
from portatile.device.cuda.memory import CudaImage, CudaMemory, CudaPageLock, CudaPinned
from portatile.device.cuda.packed import PackedLaunches, repeated
from portatile.device.cuda.queue import CudaQueue
from portatile.device.cuda.tensor_map import encoded
from portatile.device.launches import Repeat
from portatile.device.module import Module
from portatile.device.resources import PageLock
from portatile.errors import CompileError, DeviceError, LaunchError, PortatileError
from portatile.images import ImageForm
from portatile.records import Binary, TensorMap

_LARGEST_ROW = 2**31 - 1  # bytes
_LARGEST_PLANE = 2**32 - 1


class CudaDevice(CudaContext):
    """One GPU in its primary context, which CuPy and PyTorch share: loads kernels, allocates memory and makes queues."""

    def __init__(self, index: int, driver_text: str) -> None:
        super().__init__(index, driver_text)
        self.target = CudaTarget(self.info.architecture)
        self._default: CudaQueue | None = None

    @property
    def memory_rate(self) -> float:
        """The peak bandwidth of double data rate memory, with two transfers per clock."""
        try:
            kilohertz = self.attribute("MEMORY_CLOCK_RATE")
            bits = self.attribute("GLOBAL_MEMORY_BUS_WIDTH")
        except DeviceError:
            return 0.0
        return 2 * 1e3 * kilohertz * bits / 8

    def tensor_map(self, memory: Memory, form: TensorMap) -> np.void:
        with self.current():
            return np.void(encoded(int(memory.handle), form))

    def load(self, binary: Binary) -> Module:
        if binary.kind not in ("cubin", "ptx"):
            raise CompileError(f"{self.info.id} loads cubin and PTX, not {binary.kind}")
        damaged = "the binary is damaged: build it again"
        if binary.kind == "cubin" and not is_whole(binary.data):
            raise CompileError(f"{self.info.id}: {damaged}")
        with self.current():
            error, *module = driver.cuModuleLoadData(binary.data if binary.kind == "cubin" else binary.data.rstrip(b"\0") + b"\0")
            if int(error):
                raise CompileError(str(failure(error, f"{self.info.id} refuses the binary for {self.info.architecture}; {damaged}")))
            return CudaModule(self, module[0], binary)

    def allocate(self, nbytes: int) -> Memory:
        return CudaMemory(self, self.claim(nbytes), nbytes)

    def _part(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        return CudaMemory(self, memory.handle + offset, nbytes, owner=memory)

    def adopt(self, pointer: int, nbytes: int, owner: object) -> Memory:
        return CudaMemory(self, pointer, nbytes, owner)

    def image_of(self, form: ImageForm) -> Image:
        limit, row = self.info.image_2d_max, form.width * form.pixel
        plain = form.type == "image2d_t"
        if plain and not (form.width <= limit[0] and form.height <= limit[1]):
            raise LaunchError(f"an {form} does not fit {self.info.id}: at most {limit[1]} x {limit[0]}")
        if row > _LARGEST_ROW or row * form.height > _LARGEST_PLANE:
            raise LaunchError(f"an {form} does not fit {self.info.id}: a row has at most {_LARGEST_ROW} bytes, a plane {_LARGEST_PLANE}")
        step = max(self.attribute("TEXTURE_PITCH_ALIGNMENT"), PITCH) if plain else 1
        pitch = -(-row // step) * step
        if plain and pitch > self.info.image_row_max:
            raise LaunchError(f"an {form} does not fit {self.info.id}: a row has at most {self.info.image_row_max} bytes")
        if form.type == "image1d_buffer_t":
            memory = self.allocate(row)
            assert isinstance(memory, CudaMemory)
            image, image.owner, memory.handle = self._view(memory, form), None, None  # the image owns the memory from here on
            return image
        with self.relaxed():
            memory = self.allocate(pitch * form.height * form.depth)
            assert isinstance(memory, CudaMemory)
            assert memory.handle is not None
            handle = call(driver.cuTexObjectCreate, *texture(memory.handle, form, pitch), None) if plain else None
        pointer, memory.handle = memory.handle, None  # the image owns the memory from here on
        return CudaImage(self, pointer, form, pitch, handle)

    def _view(self, memory: Memory, form: ImageForm) -> CudaImage:
        assert isinstance(memory, CudaMemory)
        assert memory.handle is not None
        limit = longest_row(form, self._handle)
        if form.width > limit:
            raise LaunchError(f"an {form} does not fit {self.info.id}: at most {limit} pixels")
        with self.relaxed(), self._lock:
            return CudaImage(self, memory.handle, form, form.nbytes, row=self._rows.take(memory.handle, form), owner="the memory's")

    def share(self, array: NDArray[Any]) -> Memory | None:
        return None

    def ready(self, launches: Sequence[ReadyLaunch]) -> Ready | None:
        return PackedLaunches(self, launches)

    def repeat(self, launches: Sequence[ReadyLaunch]) -> Repeat | None:
        return repeated(self, launches)

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        return np.asarray(CudaPinned(self, max(nbytes, 1)))[:nbytes]

    locks_pages = True

    def lock(self, array: NDArray[Any]) -> PageLock | None:
        check_contiguous(array)
        try:
            return CudaPageLock(self, address(array), array.nbytes) if array.nbytes else None
        except PortatileError:
            return None

    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        made = CudaQueue(self, profiling, out_of_order, beside=True)
        self.recycled.enter()
        self.follow_default(made)
        return made

    def foreign_queue(self, stream: int) -> Queue:
        return CudaQueue(self, False, False, stream)

    def default_queue(self) -> Queue:
        if self._default is None:
            with self._lock:
                if self._default is None:
                    self._default = CudaQueue(self, False, False)
        return self._default

    def release(self) -> None:
        with self._lock:
            self._default = None
            super().release()

    def abandon(self) -> None:
        super().abandon()
        self._default = None
