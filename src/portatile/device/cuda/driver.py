"""The CUDA driver's functions: exceptions for its error codes, and the current context of a thread."""

from __future__ import annotations

import atexit
import ctypes
from types import TracebackType
from typing import Any

from portatile.errors import DeviceError, LaunchError, PortatileError

LIBRARY = "libcuda.so.1"

import_error = ""
try:
    ctypes.CDLL(LIBRARY)  # before the bindings, which would load it at their first call and take much longer to import
    from cuda.bindings import driver as driver
except (ImportError, OSError, RuntimeError) as error:
    driver = None
    import_error = str(error)

running = [True]
"""Empty once the interpreter exits. Objects that are destroyed later do not call the driver, which may be unloaded already."""
atexit.register(running.clear)

_RELAXED = None if driver is None else driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
_LAUNCH_ERRORS = ("INVALID_VALUE", "LAUNCH_OUT_OF_RESOURCES", "INVALID_IMAGE", "LAUNCH_INCOMPATIBLE_TEXTURING")


def failure(error: Any, what: str) -> PortatileError:
    """The exception for a driver's error code: LaunchError where the launch itself is at fault, else DeviceError."""
    name = getattr(error, "name", str(error)).removeprefix("CUDA_ERROR_")
    _, text = driver.cuGetErrorString(error)
    kind = LaunchError if name in _LAUNCH_ERRORS else DeviceError
    return kind(f"{what}: {name}" + (f" ({text.decode()})" if text else ""))


def call(function: Any, *args: Any) -> Any:
    """Call a driver function; its result without the error code, a tuple if there are several; raises DeviceError."""
    result = function(*args)
    if result[0]:
        raise DeviceError(str(failure(result[0], function.__name__)))
    return result[1] if len(result) == 2 else result[1:]


def attribute(handle: Any, name: str) -> int:
    """The value of the device attribute ``CU_DEVICE_ATTRIBUTE_`` + ``name``."""
    return int(call(driver.cuDeviceGetAttribute, getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))


class CurrentContext:
    """A context manager: makes a device's context current in the thread, and finally restores another library's context."""

    __slots__ = ("_context", "_number", "_previous")

    def __init__(self, context: Any, number: int) -> None:
        self._context, self._number = context, number
        self._previous: Any = None

    def __enter__(self) -> CurrentContext:
        current = driver.cuCtxGetCurrent()[1]
        number = int(current)
        if number != self._number:
            call(driver.cuCtxSetCurrent, self._context)
            self._previous = current if number else None
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._previous is not None:
            driver.cuCtxSetCurrent(self._previous)


class CaptureRelaxed(CurrentContext):
    """As ``CurrentContext``, and allows the thread to call functions that are forbidden while any thread captures a stream.

    Such calls would otherwise fail and invalidate the capture: waiting for or querying events and streams, allocating and freeing memory,
    locking pages, creating and destroying textures and graphs, unloading modules. What they do does not become part of the graph.
    """

    __slots__ = ("_mode",)

    def __enter__(self) -> CaptureRelaxed:
        super().__enter__()
        self._mode = call(driver.cuThreadExchangeStreamCaptureMode, _RELAXED)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        driver.cuThreadExchangeStreamCaptureMode(self._mode)
        super().__exit__(kind, value, trace)
