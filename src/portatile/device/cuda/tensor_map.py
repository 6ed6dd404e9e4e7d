"""Tensor maps that the host makes: the 128 bytes by which the copy engine of compute capability 9.0 finds boxes of a matrix."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from portatile.device.cuda.driver import call, driver
from portatile.records import TensorMap

SIZE = 128  # bytes


@lru_cache(maxsize=256)
def encoded(address: int, form: TensorMap) -> bytes:
    """The map of the matrix in the buffer at ``address``; raises DeviceError for one that the engine does not take."""
    types = driver.CUtensorMapDataType
    sizes = {1: types.CU_TENSOR_MAP_DATA_TYPE_UINT8, 2: types.CU_TENSOR_MAP_DATA_TYPE_UINT16, 4: types.CU_TENSOR_MAP_DATA_TYPE_UINT32}
    made = call(
        driver.cuTensorMapEncodeTiled,
        sizes[form.itemsize],
        2,
        address + form.offset,
        [driver.cuuint64_t(n) for n in (form.columns, form.rows)],
        [driver.cuuint64_t(form.pitch)],
        [driver.cuuint32_t(n) for n in (form.wide, form.high)],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return ctypes.string_at(int(made.getPtr()), SIZE)
