"""The survey of this back end, which compiles but has no devices: whether Clang and libclc are installed."""

from __future__ import annotations

from portatile.device.amdgcn import toolchain
from portatile.device.backend import Finding, Survey

_SUBJECT = "AMD GPUs (compile only)"


def survey() -> Survey:
    """A survey without devices: what is missing to compile for AMD's GPUs."""
    clang, library = toolchain.clang(), toolchain.library()
    if clang is None or library is None:
        missing = " and ".join(name for name, place in (("Clang", clang), ("libclc", library)) if place is None)
        return Survey((), (Finding("absent", _SUBJECT, f"{missing} cannot be found", toolchain.REMEDY),))
    return Survey((), (Finding("ok", _SUBJECT, f"{clang} with {library}"),))
