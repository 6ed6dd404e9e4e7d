"""The survey of OpenCL devices: every usable one of every platform."""

from __future__ import annotations

import shutil
from typing import Any

from portatile import settings
from portatile.device.backend import Finding, Survey
from portatile.device.base import Device
from portatile.device.opencl import icd, pocl_cache
from portatile.device.opencl.device import ClDevice
from portatile.device.opencl.driver import cl, import_error
from portatile.user_warnings import warn


def survey() -> Survey:
    """Every usable device of every platform, numbered as ``pyopencl.get_platforms()`` numbers them in this process."""
    if cl is None:
        remedy = "install it: pip install pyopencl pocl-binary-distribution"
        return Survey((), (Finding("broken", "OpenCL", f"pyopencl cannot be imported: {import_error}", remedy),))
    if message := settings.ensure_writable_caches():
        warn(message)
    pocl_cache.prepare()
    with icd.vendors() as findings:
        try:
            platforms = cl.get_platforms()
        except cl.Error as error:
            remedy = "install an OpenCL library, for example: pip install pocl-binary-distribution"
            return Survey((), (*findings, Finding("broken", "OpenCL", f"the loader finds no platform: {error}", remedy)))
    devices: list[Device] = []
    seen: set[tuple[str, str, str]] = set()
    for number, platform in enumerate(platforms):
        try:
            listed = platform.get_devices()
        except cl.Error as error:
            findings.append(Finding("broken", platform.name.strip(), f"lists no devices: {error}", "reinstall that OpenCL library"))
            continue
        identity = (platform.name, platform.version, ";".join(sorted(handle.name for handle in listed)))
        if identity in seen:
            findings.append(Finding("ok", platform.name.strip(), f"platform {number} is registered twice; the second is ignored"))
            continue
        seen.add(identity)
        if _is_pocl(platform) and shutil.which("ld", path=settings.search_path()) is None:
            detail = "PoCL links kernels with 'ld', which is not on PATH: the first launch would end the process"
            findings.append(Finding("broken", platform.name.strip(), detail, "install binutils (Debian: apt install binutils)"))
            continue
        devices += [ClDevice(f"opencl:{number}:{place}", handle) for place, handle in enumerate(listed)]
        findings.append(Finding("ok", platform.name.strip(), f"{platform.version.strip()}: {len(listed)} device(s)"))
    return Survey(tuple(devices), tuple(findings))


def _is_pocl(platform: Any) -> bool:
    return "Portable Computing Language" in platform.name
