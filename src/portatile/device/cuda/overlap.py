"""Launches that may begin before the kernels ahead of them on the stream have ended: their kernels wait for those themselves.

A kernel that waits for the launches before it (``OVERLAP_LAUNCHES`` in its text) may have its work-groups on multiprocessors that
those no longer need. Then the device does not wait for a launch between two kernels (programmatic dependent launch in CUDA's words).
"""

from __future__ import annotations

from typing import Any

from portatile.device.cuda.driver import driver
from portatile.device.cuda.kernel import CudaKernel

_MOST = 16  # streams whose configurations are kept


class Overlapping:
    """Launches a kernel with this grid; called with a stream, the address of the parameters' pointers, and 0, as ``cuLaunchKernel`` is."""

    def __init__(self, kernel: CudaKernel, grid: tuple[int, ...], dynamic: int) -> None:
        self._function, self._grid, self._dynamic = kernel.function, grid, dynamic
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, stream: Any, address: int, extra: int) -> Any:
        known = self._known.get(id(stream))
        if known is None or known[0] is not stream:
            known = self._configured(stream)
        return driver.cuLaunchKernelEx(known[1], self._function, address, extra)

    def _configured(self, stream: Any) -> tuple[Any, Any]:
        """The stream, which is kept so that no other has its place, and the launch on it as the driver's record."""
        config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ = self._grid
        config.sharedMemBytes, config.hStream = self._dynamic, stream
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = [attribute], 1
        if len(self._known) >= _MOST:
            self._known.clear()
        known = self._known[id(stream)] = stream, config
        return known
