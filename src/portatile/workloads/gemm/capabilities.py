"""What the kernels of a product may use of a device: matrix instructions, groups that tell which of them is last, static local memory."""

from __future__ import annotations

from portatile.records import DeviceInfo

MMA_SHAPES = ("8x8x4", "16x8x4", "16x8x8", "16x8x16")
"""Rows, columns and steps of k of the matrix instructions of float64."""

JOINED = 1 << 19
"""Bytes of a tile's sums from which one group adds them more slowly than a second launch on every device seen."""


def matrix_units(device: DeviceInfo) -> bool:
    """Whether the device multiplies 16 x 8 x 8 blocks of float64 in one instruction: NVIDIA from compute capability 9.0 to 10.0."""
    return "16x8x8" in matrix_shapes(device)


def matrix_shapes(device: DeviceInfo) -> tuple[str, ...]:
    """The shapes of the matrix instructions of float64 that are faster than plain ones: compute capability 8.0 has one of them."""
    return {"sm_80": MMA_SHAPES[:1], "sm_90": MMA_SHAPES, "sm_100": MMA_SHAPES}.get(device.architecture.rstrip("af"), ())


def joins(device: DeviceInfo) -> bool:
    """Whether the last of some groups can tell that it is, and read what the others wrote: see join.cl."""
    capability = device.architecture.rstrip("af").removeprefix("sm_")
    return device.kind == "cpu" or (device.nvidia and capability.isdigit() and int(capability) >= 70)


def local_limit(device: DeviceInfo) -> int:
    """Bytes of local memory that a static array may take.

    NVIDIA's OpenCL names 48 KB, but its compiler takes arrays up to what CUDA offers less a few bytes of its own: measured,
    226 KB and not 227 at compute capability 9.0; in proportion, 162 KB at 8.0.
    """
    known = {"sm_80": 162 * 1024, "sm_90": 226 * 1024, "sm_100": 226 * 1024}
    known_here = known.get(device.architecture.rstrip("af"), 0) if device.backend == "opencl" and device.local_memory >= 48 * 1024 else 0
    return max(device.local_memory, known_here)
