"""Common GPUs of each architecture, for plans and compilations without such a GPU in the machine."""

from __future__ import annotations

from dataclasses import dataclass

from portatile.device.cuda.info import capabilities
from portatile.records import DeviceInfo


@dataclass(frozen=True)
class _Sheet:
    """A common GPU of an architecture: its multiprocessors, and the bytes of shared memory that one block may opt in to."""

    multiprocessors: int
    shared_memory: int


# Shared memory per block from the CUDA programming guide's table of technical specifications per compute capability;
# multiprocessors of T4, A100, RTX 3090, AGX Orin, RTX 4090, H100 SXM and H200, B200, RTX 5090 from their data sheets.
ARCHITECTURES = {
    "sm_75": _Sheet(40, 64 << 10),
    "sm_80": _Sheet(108, 163 << 10),
    "sm_86": _Sheet(82, 99 << 10),
    "sm_87": _Sheet(16, 163 << 10),
    "sm_89": _Sheet(128, 99 << 10),
    "sm_90": _Sheet(132, 227 << 10),
    "sm_100": _Sheet(148, 227 << 10),
    "sm_120": _Sheet(170, 99 << 10),
}


def datasheet(architecture: str) -> DeviceInfo | None:
    """A GPU of the architecture, such as ``sm_90`` or ``sm_90a``; None if it is not listed."""
    known = ARCHITECTURES.get(architecture.rstrip("af"))
    if known is None:
        return None
    return DeviceInfo(
        id=f"paper:{architecture}",
        backend="cuda",
        name=f"{architecture} on paper",
        vendor="NVIDIA Corporation",
        platform="NVIDIA CUDA",
        kind="gpu",
        architecture=architecture,
        driver="",
        compiler="",
        compute_units=known.multiprocessors,
        local_memory=known.shared_memory,
        global_memory=16 << 30,
        max_allocation=16 << 30,
        max_work_group_size=1024,
        max_work_item_sizes=(1024, 1024, 64),
        fp64=True,
        fp16=True,
        images=True,
        image_2d_max=(131072, 65000),
        image_row_max=2096640,
        image_buffer_max=2**27,
        unified_memory=False,
        physical_id=f"paper:{architecture}",
        capabilities=capabilities(architecture),
    )
