"""Capabilities that a product's kernels use: matrix instructions, groups that tell which of them is last, static local memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.records import DeviceInfo

MMA_SHAPES = ("8x8x4", "16x8x4", "16x8x8", "16x8x16")
"""Rows, columns and steps of k of the matrix instructions of float64."""

JOINED = 1 << 19
"""Bytes of a tile's sums from which one group adds them more slowly than a second launch on every device seen."""

_CLUSTERED = 16  # multiprocessors
_LARGE = 4  # groups of a large cluster
_USABLE = 120 / 132  # the part of an H100's multiprocessors that can run large clusters, of four groups or of eight


def matrix_units(device: DeviceInfo) -> bool:
    """Whether the device multiplies 16 x 8 x 8 blocks of float64 in one instruction: NVIDIA from compute capability 9.0 to 10.0."""
    return "16x8x8" in matrix_shapes(device)


def matrix_shapes(device: DeviceInfo) -> tuple[str, ...]:
    """The shapes of the matrix instructions of float64 that are faster than plain ones: compute capability 8.0 has one of them."""
    return device.can.matrix_shapes


def joins(device: DeviceInfo) -> bool:
    """Whether the last of some groups can tell that it is, and read what the others wrote: see join.cl."""
    return device.can.ordered_groups


def clusters(device: DeviceInfo) -> bool:
    """Whether neighbouring groups add up what they share in each other's local memory; small parts of a GPU hold no large clusters."""
    return device.can.clusters and device.compute_units >= _CLUSTERED


def usable_multiprocessors(units: Any, cluster: Any) -> Any:
    """The multiprocessors that can run clusters of so many groups, each of which fills one; takes and gives arrays.

    A large cluster lies within one part of the GPU, and the number of multiprocessors of a part need not be a multiple of it.
    """
    return np.where(np.asarray(cluster) >= _LARGE, np.maximum(np.floor(_USABLE * units), 1), units)


def local_limit(device: DeviceInfo) -> int:
    """Bytes of local memory that a group may take, declared in the text or asked for by the launch."""
    return max(device.local_memory, device.static_local)
