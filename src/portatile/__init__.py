"""One kernel text, every device, at that device's speed: tuned OpenCL C through OpenCL and CUDA.

``matmul``, ``gemm`` and the other routines compute on NumPy arrays, Buffers, and arrays of CuPy and PyTorch. ``tune`` searches for the
fastest configuration of a workload on a device, ``explain`` says which one a routine uses and why, and ``Kernel`` tunes a kernel of the
user's own. Each name is imported from its module at first use, so that ``import portatile`` takes little time.
"""

from importlib import import_module as _import_module
from sys import modules as _modules

TYPE_CHECKING = False  # known to type checkers; importing the one from typing would take longer than all the rest here
if TYPE_CHECKING:
    from portatile import array_api, wavelets
    from portatile.api import explain, tune
    from portatile.device.buffer import Buffer
    from portatile.device.public import devices, get_device
    from portatile.errors import (
        ArgumentError,
        CastError,
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
    from portatile.images import Sampler
    from portatile.kernel import Kernel, TunedKernel
    from portatile.reports.write import report
    from portatile.routines.compiled import Compiled, compile
    from portatile.routines.convolve import convolve1d, convolve3d_separable, filter_bank1d
    from portatile.routines.coulomb import coulomb_potential
    from portatile.routines.gemm import gemm, matmul
    from portatile.routines.mri import mri_fhd, mri_q
    from portatile.routines.symmetric import hemm, her2k, herk, symm, syr2k, syrk
    from portatile.routines.triangular import trmm, trsm
    from portatile.runtime.one_device.memory_limit import memory_limit
    from portatile.shipping.own_kernels import export
    from portatile.tuning.search.request import TuningResult as TuningResult

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Buffer",
    "CastError",
    "CompileError",
    "Compiled",
    "DeviceError",
    "DeviceNotFoundError",
    "Kernel",
    "LaunchError",
    "NoValidVariantError",
    "PortatileError",
    "Sampler",
    "SpaceError",
    "StoreError",
    "TunedKernel",
    "TuningResult",
    "UnknownNameError",
    "UsageError",
    "array_api",
    "compile",
    "convolve1d",
    "convolve3d_separable",
    "coulomb_potential",
    "devices",
    "explain",
    "export",
    "filter_bank1d",
    "gemm",
    "get_device",
    "hemm",
    "her2k",
    "herk",
    "matmul",
    "memory_limit",
    "mri_fhd",
    "mri_q",
    "report",
    "symm",
    "syr2k",
    "syrk",
    "trmm",
    "trsm",
    "tune",
    "wavelets",
]

_MODULES = {
    "portatile.api": ("explain", "tune"),
    "portatile.device.buffer": ("Buffer",),
    "portatile.device.public": ("devices", "get_device"),
    "portatile.images": ("Sampler",),
    "portatile.kernel": ("Kernel", "TunedKernel"),
    "portatile.reports.write": ("report",),
    "portatile.routines.gemm": ("gemm", "matmul"),
    "portatile.routines.compiled": ("Compiled", "compile"),
    "portatile.routines.convolve": ("convolve1d", "convolve3d_separable", "filter_bank1d"),
    "portatile.routines.coulomb": ("coulomb_potential",),
    "portatile.routines.symmetric": ("hemm", "her2k", "herk", "symm", "syr2k", "syrk"),
    "portatile.routines.triangular": ("trmm", "trsm"),
    "portatile.runtime.one_device.memory_limit": ("memory_limit",),
    "portatile.routines.mri": ("mri_fhd", "mri_q"),
    "portatile.shipping.own_kernels": ("export",),
    "portatile.tuning.search.request": ("TuningResult",),
}


def __getattr__(name: str) -> object:
    """Import a public name from its module at first use; see PEP 562."""
    if name not in __all__:
        # Python then suggests a similar name
        raise AttributeError(f"module 'portatile' has no attribute {name!r}", name=name, obj=_modules[__name__])
    if name in ("array_api", "wavelets"):
        return _import_module(f"portatile.{name}")
    module = next((module for module, names in _MODULES.items() if name in names), "portatile.errors")
    value: object = getattr(_import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
