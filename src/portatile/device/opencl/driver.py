"""pyopencl, or the reason why it cannot be imported, and exceptions for a driver's errors."""

from __future__ import annotations

from typing import Any

from portatile.errors import DeviceError, LaunchError, PortatileError

import_error = ""
try:
    import pyopencl

    cl: Any = pyopencl
except (ImportError, OSError) as error:  # not installed, or a library that it needs is missing
    cl = None
    import_error = str(error)


def failure(error: Any, what: str) -> PortatileError:
    """The exception for a driver's error: LaunchError where the launch itself is at fault, else DeviceError."""
    codes = cl.status_code
    launch = {codes.INVALID_WORK_GROUP_SIZE, codes.INVALID_WORK_ITEM_SIZE, codes.INVALID_ARG_SIZE, codes.INVALID_ARG_VALUE}
    launch |= {codes.INVALID_ARG_INDEX, codes.INVALID_KERNEL_ARGS, codes.INVALID_WORK_DIMENSION, codes.INVALID_GLOBAL_WORK_SIZE}
    launch |= {codes.OUT_OF_RESOURCES, codes.INVALID_MEM_OBJECT}
    kind = LaunchError if getattr(error, "code", None) in launch else DeviceError
    return kind(f"{what}: {error}")
