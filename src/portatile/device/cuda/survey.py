"""The GPUs that the CUDA driver lists, and the GPU that owns a pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from portatile.device.backend import Finding, Survey
from portatile.device.cuda import compiler
from portatile.device.cuda.compiler import CudaTarget
from portatile.device.cuda.device import CudaDevice
from portatile.device.cuda.driver import LIBRARY, call, driver, failure, import_error
from portatile.errors import ArgumentError

_INSTALL = "install NVIDIA's driver; in a container, start it with its GPU support"


def ordinal(pointer: int) -> int:
    """The number of the GPU that owns the memory of a pointer; raises ArgumentError if it is not device memory."""
    if driver is None:
        raise ArgumentError(f"CUDA memory cannot be used: {import_error}")
    if pointer == 0:  # an empty array
        return 0
    call(driver.cuInit, 0)
    error, *values = driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)
    if int(error):
        raise ArgumentError(str(failure(error, f"{pointer:#x} is no device memory")))
    return int(values[0])


def survey() -> Survey:
    """Every GPU that ``CUDA_VISIBLE_DEVICES`` leaves visible, numbered as by the driver."""
    if driver is None:
        return Survey((), _without_driver)
    reason = compiler.available()
    nvrtc = _nvrtc(reason)
    try:
        call(driver.cuInit, 0)
        version = int(call(driver.cuDriverGetVersion))
        count = int(call(driver.cuDeviceGetCount))
    except Exception as error:  # without a driver, the bindings raise exceptions of their own types
        hidden = "NO_DEVICE" in str(error)
        level = "absent" if hidden else _level()
        advice = "check CUDA_VISIBLE_DEVICES, which may hide every GPU" if hidden else _INSTALL
        return Survey((), (nvrtc, Finding(level, "CUDA driver", f"cannot be used: {str(error).splitlines()[0]}", advice)))
    driver_text = f"{version // 1000}.{version % 1000 // 10}"
    findings = [nvrtc, Finding("ok", "CUDA driver", f"CUDA {driver_text}: {count} GPU(s)")]
    if reason is not None:
        return Survey((), tuple(findings))
    return Survey(tuple(CudaDevice(index, driver_text) for index in range(count)), tuple(findings))


def _without_driver() -> tuple[Finding, ...]:
    """The findings about NVRTC without a driver, made only when asked for: NVRTC is slow to load."""
    remedy = _INSTALL if LIBRARY in import_error else compiler.REMEDY
    return _nvrtc(compiler.available()), Finding(_level(), "CUDA driver", f"cannot be used: {import_error}", remedy)


def _nvrtc(reason: str | None) -> Finding:
    """``reason``: why NVRTC cannot be used."""
    return Finding(_level(), "NVRTC", reason, compiler.REMEDY) if reason else Finding("ok", "NVRTC", CudaTarget("sm_90").compiler)


def _level() -> Literal["absent", "broken"]:
    """The level of the finding that CUDA cannot be used: a fault only if there is an NVIDIA GPU."""
    return "broken" if any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")) else "absent"
