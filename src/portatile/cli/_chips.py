"""CUDA chips on paper: what a plan needs to know of an architecture where no such chip is in the machine."""

from __future__ import annotations

from dataclasses import dataclass

from portatile import device
from portatile.errors import UnknownNameError
from portatile.records import DeviceInfo


@dataclass(frozen=True)
class _Chip:
    """A common chip of an architecture: its multiprocessors, and the bytes of shared memory that one block may opt in to."""

    multiprocessors: int
    shared_memory: int


# Shared memory per block from the CUDA programming guide's table of technical specifications per compute capability;
# multiprocessors of T4, A100, RTX 3090, AGX Orin, RTX 4090, H100 SXM and H200, B200, RTX 5090 from their data sheets.
_CHIPS = {
    "sm_75": _Chip(40, 64 << 10),
    "sm_80": _Chip(108, 163 << 10),
    "sm_86": _Chip(82, 99 << 10),
    "sm_87": _Chip(16, 163 << 10),
    "sm_89": _Chip(128, 99 << 10),
    "sm_90": _Chip(132, 227 << 10),
    "sm_100": _Chip(148, 227 << 10),
    "sm_120": _Chip(170, 99 << 10),
}


def chip(architecture: str) -> DeviceInfo:
    """The chip in this machine that has the architecture, else the one on paper; raises UnknownNameError for one not listed."""
    plain = architecture.rstrip("af")
    for found in device.devices():
        if found.info.backend == "cuda" and found.info.architecture.rstrip("af") == plain:
            return found.info
    known = _CHIPS.get(plain)
    if known is None:
        raise UnknownNameError("CUDA architecture", architecture, _CHIPS)
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
        chip=f"paper:{architecture}",
    )
