"""Checks of NDRanges before a driver sees them, shared by all back ends."""

from __future__ import annotations

from math import prod

from portatile.device.module import LoadedKernel
from portatile.errors import LaunchError
from portatile.records import DeviceInfo, Size3


def named(kernel: LoadedKernel, device: DeviceInfo, global_size: Size3, local_size: Size3) -> str:
    """The launch in words."""
    return f"kernel {kernel.name!r} with global size {global_size} and local size {local_size} on {device.id}"


def check(kernel: LoadedKernel, device: DeviceInfo, limit: int, global_size: Size3, local_size: Size3, groups: int | None = None) -> None:
    """Raise LaunchError for sizes that are not positive, and for sizes that the kernel or the device cannot run.

    ``limit``: the most work-items of a work-group. ``groups``: the most work-groups of a launch; None if the driver checks that itself.
    """

    def refuse(reason: str) -> None:
        raise LaunchError(f"{named(kernel, device, global_size, local_size)}: {reason}")

    required, most = kernel.entry.work_group, device.max_work_item_sizes
    if len(global_size) != 3 or len(local_size) != 3 or min(*global_size, *local_size) < 1:
        refuse("sizes are three positive numbers")
    if any(g % n for g, n in zip(global_size, local_size, strict=True)):
        refuse("the global size must be a multiple of the local size")
    if required is not None and required != local_size:
        refuse(f"the kernel requires the local size {required}")
    if prod(local_size) > limit or any(n > along for n, along in zip(local_size, most, strict=True)):
        refuse(f"at most {limit} work-items and {most} in each dimension")
    count = prod(global_size) // prod(local_size)
    if groups is not None and count > groups:
        refuse(f"{count} work-groups; at most {groups}")
