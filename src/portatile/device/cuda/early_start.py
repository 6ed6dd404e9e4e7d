"""Launches that may start before what was queued before them has ended: programmatic dependent launch, from compute capability 9.0 on.

The kernel itself waits for it, at AFTER_PREVIOUS of the dialect. Until then groups find their multiprocessors and prepare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portatile.device.cuda.driver import driver

_GENERATION = 90
_LEAST = 12030  # of the driver: from CUDA 12.3 on such launches may be captured

Start = Callable[[Any, int, int], Any]


def supported(architecture: str) -> bool:
    """Whether a device of this architecture, ``sm_90`` say, the driver and its bindings know such launches."""
    digits = architecture.removeprefix("sm_").rstrip("af")
    if not digits.isdigit() or int(digits) < _GENERATION or getattr(driver, "cuLaunchKernelEx", None) is None:
        return False
    error, version = driver.cuDriverGetVersion()
    return not int(error) and int(version) >= _LEAST


def launching(function: Any, grid: tuple[int, ...], dynamic: int) -> Start:
    """As ``cuLaunchKernel`` of a grid of ``function`` with so many bytes of dynamic local memory: a function of a stream, the address of
    pointers to parameters, and 0. Its record of the launch is one, so calls of it do not overlap.
    """
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    record = driver.CUlaunchConfig()
    record.gridDimX, record.gridDimY, record.gridDimZ, record.blockDimX, record.blockDimY, record.blockDimZ = grid
    record.sharedMemBytes, record.attrs, record.numAttrs = dynamic, [attribute], 1

    def launch(stream: Any, parameters: int, extra: int) -> Any:
        record.hStream = stream
        return driver.cuLaunchKernelEx(record, function, parameters, extra)

    return launch
