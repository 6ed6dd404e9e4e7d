"""Launches that may start before earlier commands have ended: programmatic dependent launch, from compute capability 9.0 on.

The kernel itself waits for the earlier commands, at AFTER_PREVIOUS of the dialect. Until then its work-groups are scheduled and run their
prologue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portatile.device.cuda.driver import driver

_GENERATION = 90  # the first architecture: sm_90
_LEAST = 12030  # the first driver version, CUDA 12.3, that can capture such launches

Start = Callable[[Any, int, int], Any]


def supported(architecture: str) -> bool:
    """Whether a device of this architecture, such as ``sm_90``, the driver and its bindings support such launches."""
    digits = architecture.removeprefix("sm_").rstrip("af")
    if not digits.isdigit() or int(digits) < _GENERATION or getattr(driver, "cuLaunchKernelEx", None) is None:
        return False
    error, version = driver.cuDriverGetVersion()
    return not int(error) and int(version) >= _LEAST


def launching(function: Any, grid: tuple[int, ...], dynamic: int) -> Start:
    """A function that launches a grid of ``function`` with ``dynamic`` bytes of dynamic local memory.

    Like ``cuLaunchKernel`` it takes a stream, the address of the array of parameter pointers, and 0. It reuses one launch record, so calls
    must not overlap.
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
