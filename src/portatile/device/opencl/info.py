"""The DeviceInfo of an OpenCL device, as its driver reports it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from portatile.capabilities import Capabilities, declared_by_nvidia, of_nvidia, with_warp_groups
from portatile.device.opencl.caches import data_caches
from portatile.device.opencl.driver import cl
from portatile.device.opencl.probe import supported_by_processor, survives
from portatile.records import DeviceInfo

_LATER_PTX = 570  # the release of NVIDIA's driver, of CUDA 12.8, that first accepts the PTX that sm90a.py writes
_DOTS = ("bfloat16", "int8")  # operand types for which processors have dot-product instructions


def describe(identity: str, device: Any) -> DeviceInfo:
    """The properties of a ``pyopencl.Device``; ``identity`` is its id."""
    platform = device.platform
    extensions = set(device.extensions.split())
    kind: Literal["cpu", "gpu", "accelerator"] = "accelerator"
    if device.type & cl.device_type.GPU:
        kind = "gpu"
    elif device.type & cl.device_type.CPU:
        kind = "cpu"
    sizes = (*device.max_work_item_sizes, 1, 1)
    architecture = _architecture(device, extensions)
    images = bool(device.image_support)
    survived = _survived(identity, device, extensions) if kind == "cpu" else None
    return DeviceInfo(
        id=identity,
        backend="opencl",
        name=device.name.strip(),
        vendor=device.vendor.strip(),
        platform=platform.name.strip(),
        kind=kind,
        architecture=architecture,
        driver=device.driver_version.strip(),
        compiler=f"{platform.name.strip()} {platform.version.strip()} / {device.driver_version.strip()}",
        compute_units=device.max_compute_units,
        local_memory=device.local_mem_size,
        global_memory=device.global_mem_size,
        max_allocation=device.max_mem_alloc_size,
        max_work_group_size=device.max_work_group_size,
        max_work_item_sizes=(sizes[0], sizes[1], sizes[2]),
        fp64="cl_khr_fp64" in extensions or bool(device.double_fp_config),
        fp16="cl_khr_fp16" in extensions and (survived is None or "half" in survived),
        images=images,
        image_2d_max=(device.image2d_max_width, device.image2d_max_height) if images else (0, 0),
        unified_memory=bool(device.host_unified_memory),
        physical_id=_physical_id(device, extensions, kind, identity),
        clock_mhz=device.max_clock_frequency,
        constant_memory=device.max_constant_buffer_size,
        capabilities=_capabilities(device, extensions, architecture, survived),
        image_buffer_max=_buffer_pixels(device) if images else 0,
        caches=data_caches() if kind == "cpu" else (),
    )


def _survived(identity: str, device: Any, extensions: set[str]) -> frozenset[str]:
    """The features that a processor's driver can compile; only processors' drivers report vectors of 512 bits."""
    _, platform, number = identity.split(":")
    half = ("half",) if "cl_khr_fp16" in extensions else ()
    names = (
        "wide_arithmetic",
        "wide_functions",
        "relaxed_math",
        *half,
        *supported_by_processor(["half_vectors", *[f"dot_{kind}" for kind in _DOTS]]),
    )
    return survives(int(platform), int(number), device, names)


def _capabilities(device: Any, extensions: set[str], architecture: str, survived: frozenset[str] | None) -> Capabilities:
    """The capabilities of a device, from its extensions, NVIDIA's compute capability, or features that a CPU's compiler ``survived``."""
    if "cl_nv_device_attribute_query" in extensions:
        declared = declared_by_nvidia(architecture, device.local_mem_size)
        known = replace(of_nvidia(architecture), static_local=declared)
        return with_warp_groups(known, architecture) if _release(device) >= _LATER_PTX else known
    if survived is None:
        return Capabilities()
    return Capabilities(
        ordered_groups=True,  # processors preserve the order of a group's writes before it counts itself done
        wide_arithmetic="wide_arithmetic" in survived,
        wide_functions="wide_functions" in survived,
        relaxed_math="relaxed_math" in survived,
        dot_types=tuple(kind for kind in _DOTS if f"dot_{kind}" in survived),
        half_vectors="half_vectors" in survived,
    )


def _release(device: Any) -> int:
    """The number before the first dot of a driver's version; 0 if there is none."""
    first = str(device.driver_version).strip().partition(".")[0]
    return int(first) if first.isdigit() else 0


def _buffer_pixels(device: Any) -> int:
    """Pixels of an image over a buffer; 0 if the driver predates such images."""
    try:
        return int(device.image_max_buffer_size)
    except (AttributeError, cl.Error):
        return 0


_X86 = {8: "x86-64-v3", 16: "x86-64-v4"}  # the level of the instruction set, by its native vector width in float32


def _architecture(device: Any, extensions: set[str]) -> str:
    if "cl_nv_device_attribute_query" in extensions:
        return f"sm_{device.compute_capability_major_nv}{device.compute_capability_minor_nv}"
    if match := re.search(r"(?:pthread|cpu)-([^-\s]+)-[^-]+-[^-]+-[^-]+-(\S+)$", device.version.strip()):
        return "-".join(match.groups())  # PoCL's version contains LLVM's target triple and processor
    intel = device.type & cl.device_type.CPU and "intel" in device.platform.name.lower()  # Intel's runtime does not name its target
    if intel and (level := _X86.get(device.native_vector_width_float)):
        return level
    return re.sub(r"[^a-z0-9]+", "-", device.name.strip().lower()).strip("-")


def _physical_id(device: Any, extensions: set[str], kind: str, identity: str) -> str:
    """An id that is equal for one device through two platforms or back ends: the PCI address of a GPU, the host of a CPU."""
    if kind == "cpu":
        return "cpu:0"
    if "cl_nv_device_attribute_query" in extensions:
        domain = getattr(device, "pci_domain_id_nv", 0)
        return f"pci:{domain:04x}:{device.pci_bus_id_nv:02x}:{device.pci_slot_id_nv:02x}"
    if "cl_khr_pci_bus_info" in extensions:
        try:
            place = device.get_info(cl.device_info.PCI_BUS_INFO_KHR)
            return f"pci:{place.pci_domain:04x}:{place.pci_bus:02x}:{place.pci_device:02x}"
        except (AttributeError, cl.Error):
            return identity
    return identity
