"""The DeviceInfo of a GPU, as CUDA reports it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from portatile.capabilities import Capabilities, clusters, of_nvidia, with_warp_groups
from portatile.device.cuda import driver as cuda_driver
from portatile.device.cuda.compiler import CudaTarget
from portatile.device.cuda.driver import call, driver
from portatile.device.cuda.image import PITCH, longest_row
from portatile.images import ImageForm
from portatile.records import DeviceInfo


def _driver_release() -> str:
    """The driver's release, such as 580.126.09, if the kernel module reports it."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return ""
    return next((word for word in words if word.count(".") >= 1 and word.replace(".", "").isdigit()), "")


def capabilities(architecture: str) -> Capabilities:
    """The capabilities of a GPU through CUDA."""
    known = replace(
        of_nvidia(architecture),
        language="CUDA C++",
        static_local=48 << 10,  # bytes of shared memory that kernel text may declare: CUDA programming guide
        clusters=clusters(architecture),
        launch_bounds=True,
        carveout=True,
        addresses=True,
        launch_us=5.0,
    )
    return with_warp_groups(known, architecture)


def describe(index: int, handle: Any, driver_text: str) -> DeviceInfo:
    """The properties of a ``CUdevice``, number ``index`` of the driver; ``driver_text`` is its version."""

    attribute = partial(cuda_driver.attribute, handle)
    name = call(driver.cuDeviceGetName, 256, handle).split(b"\0")[0].decode()
    memory = int(call(driver.cuDeviceTotalMem, handle))
    architecture = f"sm_{attribute('COMPUTE_CAPABILITY_MAJOR')}{attribute('COMPUTE_CAPABILITY_MINOR')}"
    place = (attribute("PCI_DOMAIN_ID"), attribute("PCI_BUS_ID"), attribute("PCI_DEVICE_ID"))
    release = _driver_release()
    return DeviceInfo(
        id=f"cuda:{index}",
        backend="cuda",
        name=name,
        vendor="NVIDIA Corporation",
        platform="NVIDIA CUDA",
        kind="gpu",
        architecture=architecture,
        driver=release or f"CUDA {driver_text}",
        compiler=CudaTarget(architecture).compiler,
        compute_units=attribute("MULTIPROCESSOR_COUNT"),
        local_memory=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        global_memory=memory,
        max_allocation=memory,
        max_work_group_size=attribute("MAX_THREADS_PER_BLOCK"),
        max_work_item_sizes=(attribute("MAX_BLOCK_DIM_X"), attribute("MAX_BLOCK_DIM_Y"), attribute("MAX_BLOCK_DIM_Z")),
        fp64=True,
        fp16=True,
        images=True,
        image_2d_max=(attribute("MAXIMUM_TEXTURE2D_LINEAR_WIDTH"), attribute("MAXIMUM_TEXTURE2D_LINEAR_HEIGHT")),
        unified_memory=bool(attribute("INTEGRATED")),
        physical_id=f"pci:{place[0]:04x}:{place[1]:02x}:{place[2]:02x}",
        clock_mhz=attribute("CLOCK_RATE") // 1000,
        constant_memory=attribute("TOTAL_CONSTANT_MEMORY"),
        image_row_max=attribute("MAXIMUM_TEXTURE2D_LINEAR_PITCH") // PITCH * PITCH,
        capabilities=replace(capabilities(architecture), registers=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR")),
        image_buffer_max=longest_row(ImageForm("image1d_buffer_t", (1, 4)), handle),
    )
