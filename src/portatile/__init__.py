"""One kernel text, every device, at that device's speed: tuned OpenCL C through OpenCL and CUDA."""

from __future__ import annotations

from portatile.api import devices, explain, get_device, tune
from portatile.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DeviceNotFoundError,
    LaunchError,
    NoValidVariantError,
    PortatileError,
    SpaceError,
    StoreError,
    UnknownNameError,
    UsageError,
)
from portatile.routines.blas import gemm, matmul, trsm
from portatile.tuning.tuner import Result as TuningResult

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "DeviceNotFoundError",
    "LaunchError",
    "NoValidVariantError",
    "PortatileError",
    "SpaceError",
    "StoreError",
    "TuningResult",
    "UnknownNameError",
    "UsageError",
    "devices",
    "explain",
    "gemm",
    "get_device",
    "matmul",
    "trsm",
    "tune",
]
