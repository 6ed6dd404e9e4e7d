"""Device capabilities that a product's kernels use: matrix instructions, cooperation between work-groups, local memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.records import DeviceInfo

MMA_SHAPES = ("8x8x4", "16x8x4", "16x8x8", "16x8x16")
"""The shapes of float64 matrix instructions: rows x columns x steps of k."""

JOINED = 1 << 19
"""Bytes of a tile's partial sums above which, on every device seen, a second launch adds them faster than the last work-group does."""

_CLUSTERED = 16  # multiprocessors that a device needs for clusters
_LARGE = 4  # work-groups from which a cluster is large
_USABLE = 120 / 132  # the share of an H100's multiprocessors that can run clusters of four or of eight work-groups


def matrix_units(device: DeviceInfo) -> bool:
    """Whether the device multiplies 16 x 8 x 8 blocks of float64 in one instruction: NVIDIA from compute capability 9.0 to 10.0."""
    return "16x8x8" in matrix_shapes(device)


def matrix_shapes(device: DeviceInfo) -> tuple[str, ...]:
    """The float64 matrix instructions that are faster than plain ones; compute capability 8.0 has one of them."""
    return device.can.matrix_shapes


def joins(device: DeviceInfo) -> bool:
    """Whether the last of several work-groups can detect that it is the last, and read what the others wrote: see join.cl."""
    return device.can.ordered_groups


def clusters(device: DeviceInfo) -> bool:
    """Whether the work-groups of a cluster can add up their sums in each other's local memory; a small slice of a GPU has no large
    clusters.
    """
    return device.can.clusters and device.compute_units >= _CLUSTERED


def usable_multiprocessors(units: Any, cluster: Any) -> Any:
    """The multiprocessors that can run clusters of ``cluster`` work-groups, one group on each; accepts and returns arrays.

    All groups of a large cluster run in one GPC of the GPU, and the number of multiprocessors of a GPC need not be a multiple of
    ``cluster``.

    A large cluster lies within one part of the GPU, and the number of multiprocessors of a part need not be a multiple of it.
    """
    return np.where(np.asarray(cluster) >= _LARGE, np.maximum(np.floor(_USABLE * units), 1), units)


def local_limit(device: DeviceInfo) -> int:
    """Bytes of local memory that a work-group may use, declared in the text or requested at launch."""
    return max(device.local_memory, device.static_local)
