"""Tensor maps encoded on the host: 128-byte descriptors with which the TMA of compute capability 9.0 copies tiles of a matrix."""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import Any

from portatile.device.cuda.driver import call, driver
from portatile.records import TensorMap

SIZE = 128  # bytes
_MADE: dict[TensorMap, Any] = {}  # the map of the last matrix of each form
_LOCK = threading.Lock()


@lru_cache(maxsize=256)
def encoded(address: int, form: TensorMap) -> bytes:
    """The map of the matrix in the buffer at ``address``; raises DeviceError for a form that the TMA does not support.

    The driver replaces the address of a map only while a context is current.
    """
    with _LOCK:
        if (made := _MADE.get(form)) is None:
            if len(_MADE) == 256:
                _MADE.clear()
            made = _MADE[form] = _encoded(address, form)
        else:  # faster than encoding another map
            call(driver.cuTensorMapReplaceAddress, made, address + form.offset)
        return ctypes.string_at(int(made.getPtr()), SIZE)


def _encoded(address: int, form: TensorMap) -> Any:
    types = driver.CUtensorMapDataType
    sizes = {1: types.CU_TENSOR_MAP_DATA_TYPE_UINT8, 2: types.CU_TENSOR_MAP_DATA_TYPE_UINT16, 4: types.CU_TENSOR_MAP_DATA_TYPE_UINT32}
    sides, pitches, box = [form.columns, form.rows], [form.pitch], [form.wide, form.high]
    if form.planes:
        sides, pitches, box = [*sides, form.planes], [*pitches, form.step], [*box, 1]
    return call(
        driver.cuTensorMapEncodeTiled,
        sizes[form.itemsize],
        len(sides),
        address + form.offset,
        [driver.cuuint64_t(n) for n in sides],
        [driver.cuuint64_t(n) for n in pitches],
        [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)] * len(sides),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
