"""Common AMD GPUs of each architecture, for plans and compilations without such a GPU in the machine."""

from __future__ import annotations

from dataclasses import dataclass

from portatile.capabilities import Capabilities
from portatile.device.amdgcn import toolchain
from portatile.errors import DeviceNotFoundError
from portatile.records import DeviceInfo


@dataclass(frozen=True)
class _Sheet:
    """Name, compute units, wavefront size, KiB of vector registers per compute unit, GiB of memory, MHz, shapes of matrix products."""

    name: str
    units: int
    wavefront: int
    registers: int
    memory: int
    clock: int
    matrix_shapes: tuple[str, ...] = ()


# ROCm's tables of accelerators and GPU hardware specifications, and AMD's data sheets for clocks.
ARCHITECTURES = {
    "gfx906": _Sheet("Radeon VII", 60, 64, 256, 16, 1800),
    "gfx908": _Sheet("Instinct MI100", 120, 64, 512, 32, 1502),
    "gfx90a": _Sheet("Instinct MI250X (one of two dies)", 110, 64, 512, 64, 1700, ("16x16x4",)),
    "gfx942": _Sheet("Instinct MI300X", 304, 64, 512, 192, 2100, ("16x16x4",)),
    "gfx1030": _Sheet("Radeon RX 6900 XT", 80, 32, 256, 16, 2250),
    "gfx1100": _Sheet("Radeon RX 7900 XTX", 96, 32, 384, 24, 2500),
}


def datasheet(architecture: str) -> DeviceInfo | None:
    """A GPU of the architecture; None if it is not listed. It has no images, because libclc cannot read them there."""
    known = ARCHITECTURES.get(architecture)
    if known is None:
        return None
    try:
        compiler = toolchain.version()
    except DeviceNotFoundError:  # plans do not depend on the compiler
        compiler = ""
    return DeviceInfo(
        id=f"paper:{architecture}",
        backend="amdgcn",
        name=f"{known.name} on paper",
        vendor="Advanced Micro Devices, Inc.",
        platform="Clang and libclc",
        kind="gpu",
        architecture=architecture,
        driver="",
        compiler=compiler,
        compute_units=known.units,
        local_memory=64 << 10,
        global_memory=known.memory << 30,
        max_allocation=known.memory << 30,
        max_work_group_size=1024,
        max_work_item_sizes=(1024, 1024, 1024),
        fp64=True,
        fp16=True,
        images=False,
        image_2d_max=(0, 0),
        unified_memory=False,
        physical_id=f"paper:{architecture}",
        clock_mhz=known.clock,
        capabilities=Capabilities(
            assembly="gcn",
            sub_group=known.wavefront,
            registers=known.registers << 8,  # registers of four bytes
            matrix_shapes=known.matrix_shapes,
            ordered_groups=True,
        ),
    )
