"""Textures of the CUDA driver: over rows that lie apart, for images of two dimensions, and over one row of memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from portatile.device.cuda.driver import attribute, call, driver
from portatile.errors import DeviceError, LaunchError
from portatile.images import ImageForm

PITCH = 512  # bytes; a multiple of what textures ask of rows that lie one after the other
_KEPT = 256


def texture(pointer: int, form: ImageForm, pitch: int) -> tuple[Any, Any]:
    """The descriptions of pitch-linear memory and of point sampling with whole coordinates, zero outside."""
    resource = driver.CUDA_RESOURCE_DESC()
    resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
    place = resource.res.pitch2D
    place.devPtr, place.format, place.numChannels = pointer, _format(form), form.channels
    place.width, place.height, place.pitchInBytes = form.width, form.height, pitch
    sampling = _sampling(form)
    sampling.addressMode = [driver.CUaddress_mode.CU_TR_ADDRESS_MODE_BORDER] * 3
    return resource, sampling


def longest_row(form: ImageForm, device: Any) -> int:
    """Pixels of an image over a row of memory, at most, on a ``CUdevice``: what textures have, less what may lie ahead of the first."""
    try:
        most = call(driver.cuDeviceGetTexture1DLinearMaxWidth, _format(form), form.channels, device)
    except (DeviceError, RuntimeError):  # the driver is older than the question
        most = attribute(device, "MAXIMUM_TEXTURE1D_LINEAR_WIDTH")
    return int(most) - PITCH // form.pixel


class LinearTexture:
    """A texture over a row of memory: ``ahead`` pixels, then those of an image. ``users`` images have it."""

    __slots__ = ("ahead", "handle", "users")

    def __init__(self, handle: Any, ahead: int) -> None:
        self.handle, self.ahead, self.users = handle, ahead, 0


class LinearTextures:
    """The linear textures of a device. A texture says no more than where its row lies, so it stays for the next image there, whoever has
    the memory then, and a kernel that still runs may use it: the older half are destroyed, of those that no image has, when they have
    become many.
    """

    def __init__(self, device: Any) -> None:
        self._device = device  # a ``CUdevice``
        self._rows: OrderedDict[tuple[int, ImageForm], LinearTexture] = OrderedDict()
        self._alignment = 0

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, pointer: int, form: ImageForm) -> LinearTexture:
        """The row of an image over the memory at ``pointer``, for one user more; in the device's context.

        Raises LaunchError where that memory begins at no whole pixel.
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
        self._rows[pointer, form] = row  # the newest last
        row.users += 1
        return row

    def release(self) -> None:
        """Destroy them all, with their context."""
        for row in self._rows.values():
            driver.cuTexObjectDestroy(row.handle)
        self._rows.clear()

    def _thin_out(self) -> None:
        idle = [key for key, row in self._rows.items() if row.users == 0][: _KEPT // 2]
        if idle:
            call(driver.cuCtxSynchronize)
        for key in idle:
            driver.cuTexObjectDestroy(self._rows.pop(key).handle)


def _row(pointer: int, form: ImageForm, ahead: int) -> tuple[Any, Any]:
    """The descriptions of ``ahead`` pixels and those of the form in one row, and of reading them by their number."""
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
