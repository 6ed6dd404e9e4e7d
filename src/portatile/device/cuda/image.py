"""Textures of the CUDA driver: pitched ones for two-dimensional images, and linear ones over a row of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from portatile.device.cuda.driver import attribute, call, driver
from portatile.errors import DeviceError, LaunchError
from portatile.images import ImageForm

PITCH = 512  # bytes; a multiple of the alignment that textures require of their rows
_KEPT = 256  # linear textures that are kept


def texture(pointer: int, form: ImageForm, pitch: int) -> tuple[Any, Any]:
    """The descriptors of pitch-linear memory and of point sampling with integer coordinates, zero outside of the image."""
    resource = driver.CUDA_RESOURCE_DESC()
    resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
    place = resource.res.pitch2D
    place.devPtr, place.format, place.numChannels = pointer, _format(form), form.channels
    place.width, place.height, place.pitchInBytes = form.width, form.height, pitch
    sampling = _sampling(form)
    sampling.addressMode = [driver.CUaddress_mode.CU_TR_ADDRESS_MODE_BORDER] * 3
    return resource, sampling


def longest_row(form: ImageForm, device: Any) -> int:
    """The most pixels of an image over a row of memory on a ``CUdevice``: a texture's limit, less the pixels that may precede them."""
    try:
        most = call(driver.cuDeviceGetTexture1DLinearMaxWidth, _format(form), form.channels, device)
    except (DeviceError, RuntimeError):  # the driver is older than this function
        most = attribute(device, "MAXIMUM_TEXTURE1D_LINEAR_WIDTH")
    return int(most) - PITCH // form.pixel


class LinearTexture:
    """A texture over a row of memory, with ``ahead`` pixels before those of the image. ``users`` counts the images that use it."""

    __slots__ = ("ahead", "handle", "users")

    def __init__(self, handle: Any, ahead: int) -> None:
        self.handle, self.ahead, self.users = handle, ahead, 0


class LinearTextures:
    """The linear textures of a device.

    A texture only describes where its row lies, so it is kept for the next image at that address, whoever owns the memory then. When there
    are ``_KEPT``, the older half of the unused ones is destroyed, after all kernels that may still read through them.
    """

    def __init__(self, device: Any, finish: Callable[[], None]) -> None:
        self._device, self._finish = device, finish  # a ``CUdevice``, and a function that waits for all its commands
        self._rows: OrderedDict[tuple[int, ImageForm], LinearTexture] = OrderedDict()
        self._alignment = 0

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, pointer: int, form: ImageForm) -> LinearTexture:
        """The texture of an image over the memory at ``pointer``, for one more user; call this within ``relaxed()``.

        Raises LaunchError for memory that is not aligned to the size of a pixel.
        """
        row = self._rows.pop((pointer, form), None)
        if row is None:
            if not self._alignment:
                self._alignment = attribute(self._device, "TEXTURE_ALIGNMENT")
            ahead, rest = divmod(pointer % self._alignment, form.pixel)
            if rest:
                raise LaunchError(f"an {form} begins at a multiple of {form.pixel} bytes, this memory {rest} bytes behind one")
            if len(self._rows) >= _KEPT:
                self._thin_out()
            row = LinearTexture(call(driver.cuTexObjectCreate, *_row(pointer - ahead * form.pixel, form, ahead), None), ahead)
        self._rows[pointer, form] = row  # keeps the newest last
        row.users += 1
        return row

    def release(self) -> None:
        """Destroy all textures, before their context is released."""
        for row in self._rows.values():
            driver.cuTexObjectDestroy(row.handle)
        self._rows.clear()

    def _thin_out(self) -> None:
        idle = [key for key, row in self._rows.items() if row.users == 0][: _KEPT // 2]
        if idle:
            self._finish()
        for key in idle:
            driver.cuTexObjectDestroy(self._rows.pop(key).handle)


def _row(pointer: int, form: ImageForm, ahead: int) -> tuple[Any, Any]:
    """The driver's descriptors of a row with ``ahead`` more pixels before those of the form, and of unfiltered reads from it."""
    resource = driver.CUDA_RESOURCE_DESC()
    resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
    place = resource.res.linear
    place.devPtr, place.format, place.numChannels = pointer, _format(form), form.channels
    place.sizeInBytes = (ahead + form.width) * form.pixel
    return resource, _sampling(form)


def _format(form: ImageForm) -> Any:
    dtype = np.dtype(form.dtype)
    kind = {"f": "", "i": "SIGNED_INT", "u": "UNSIGNED_INT"}[dtype.kind] + str(8 * dtype.itemsize)
    return getattr(driver.CUarray_format, "CU_AD_FORMAT_" + {"32": "FLOAT", "16": "HALF"}.get(kind, kind))


def _sampling(form: ImageForm) -> Any:
    sampling = driver.CUDA_TEXTURE_DESC()
    sampling.filterMode = driver.CUfilter_mode.CU_TR_FILTER_MODE_POINT
    sampling.flags = 0 if np.dtype(form.dtype).kind == "f" or form.normalized else 1  # CU_TRSF_READ_AS_INTEGER
    return sampling
