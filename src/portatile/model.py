"""A performance model of configurations before they run: what cannot run, what cannot be fast, and a lower bound of the time.

Limits of NVIDIA's devices are from the table of technical specifications per compute capability in the CUDA programming guide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from portatile.records import DeviceInfo, Launch, Plan, Resources

ON_PAPER = "on paper"
COMPILED = "once compiled"
SLOW = "early stop"
"""The prefixes of a trial's message if the model rejected it before or after compiling, or if its timing was stopped early."""

SPILLS = 256
"""Bytes of spills (stored and loaded, per work-item) from which on a kernel is rejected if another does not spill."""
BEYOND_CACHES = 1 << 29
"""Bytes that no cache holds: this much traffic must cross the memory bus."""

_REGISTER_UNIT = 256  # registers are allocated to whole warps in multiples of this
_USUAL_WARP = 32  # for a GPU that does not report its own
NEAR = {"gpu": 2.0, "cpu": 0.5}
"""Arithmetic operations in the time of loading a byte from local memory or the nearest cache, if not measured: a multiprocessor does 256
operations and loads 128 bytes per clock, a core with 512-bit vectors does 64 and loads 128.
"""
# the factor by which one part of a processor may exceed its share of the whole: higher clocks, and hardware threads that share cores
_TURBO = 4.0


class Screen(msgspec.Struct, frozen=True):
    """The data by which a worker rejects a compiled variant: whether a valid variant without spills is known."""

    spill_free: bool = False


@dataclass(frozen=True)
class Multiprocessor:
    """The limits of an NVIDIA multiprocessor. ``shared``: bytes of local memory; ``reserved``: bytes of it per work-group."""

    threads: int
    groups: int
    shared: int
    reserved: int = 1024


_MULTIPROCESSORS: Mapping[str, Multiprocessor] = {
    "sm_70": Multiprocessor(2048, 32, 96 << 10, 0),
    "sm_75": Multiprocessor(1024, 16, 64 << 10, 0),
    "sm_80": Multiprocessor(2048, 32, 164 << 10),
    "sm_86": Multiprocessor(1536, 16, 100 << 10),
    "sm_87": Multiprocessor(1536, 16, 164 << 10),
    "sm_89": Multiprocessor(1536, 24, 100 << 10),
    "sm_90": Multiprocessor(2048, 32, 228 << 10),
    "sm_100": Multiprocessor(2048, 32, 228 << 10),
    "sm_120": Multiprocessor(1536, 24, 100 << 10),
}


def multiprocessor(device: DeviceInfo) -> Multiprocessor | None:
    """The limits of the device's multiprocessors; None for a device that is not in the table."""
    return _MULTIPROCESSORS.get(device.architecture.rstrip("af"))


def occupancy(used: Resources, launch: Launch, device: DeviceInfo) -> float | None:
    """The occupancy: the fraction of a multiprocessor's work-items that a launch can keep resident; 0 if no work-group fits.

    None if the device is not in the table, or the compiler reports no resources.
    """
    limits, warp = multiprocessor(device), device.can.sub_group
    if limits is None or warp == 0 or used.registers < 0:
        return None
    items = math.prod(launch.local_size)
    warps = -(-items // warp)
    per_warp = -(-max(used.registers, 1) * warp // _REGISTER_UNIT) * _REGISTER_UNIT
    local = max(used.local_memory, 0) + _dynamic(launch) + limits.reserved
    groups = min(limits.groups, limits.threads // (warps * warp), device.can.registers // (per_warp * warps))
    if local > limits.reserved:
        groups = min(groups, limits.shared // local)
    return groups * warps * warp / limits.threads


def impossible(plan: Plan, device: DeviceInfo) -> str | None:
    """Why the flat plan cannot run on the device whatever the compiler does, or None."""
    for launch in plan.steps:
        if not isinstance(launch, Launch):
            continue
        items = math.prod(launch.local_size)
        if items > device.max_work_group_size:
            return f"{launch.kernel} has {items} work-items in a group, the device allows {device.max_work_group_size}"
        if any(n > most for n, most in zip(launch.local_size, device.max_work_item_sizes, strict=True)):
            return f"{launch.kernel} has groups of {launch.local_size} work-items, the device allows {device.max_work_item_sizes}"
        dynamic = _dynamic(launch)
        if dynamic > _local_limit(device):
            return f"{launch.kernel} needs {dynamic} bytes of local memory, the device has {_local_limit(device)}"
    for temporary in plan.temporaries:
        if temporary.nbytes > device.max_allocation > 0:
            return f"its workspace {temporary.name} has {temporary.nbytes} bytes, the device allocates {device.max_allocation} at most"
    if plan.workspace > device.global_memory > 0:
        return f"its workspace has {plan.workspace} bytes, the device {device.global_memory}"
    return None


def hopeless(plan: Plan, resources: Mapping[str, Resources], device: DeviceInfo, screen: Screen) -> str | None:
    """Why the compiled plan cannot run or cannot be fast, or None."""
    for launch in plan.steps:
        used = resources.get(launch.kernel) if isinstance(launch, Launch) else None
        if used is None or not isinstance(launch, Launch):
            continue
        local, most = max(used.local_memory, 0) + _dynamic(launch), _local_limit(device)
        if local > most:
            return f"{launch.kernel} needs {local} bytes of local memory, the device has {most}"
        if occupancy(used, launch, device) == 0:
            return (
                f"no group of {launch.kernel} fits: {math.prod(launch.local_size)} work-items of {used.registers} registers, {local} bytes"
            )
        spills = max(used.spill_stores, 0) + max(used.spill_loads, 0)
        if screen.spill_free and spills > SPILLS:
            return f"{launch.kernel} spills {spills} bytes, and others do not"
    return None


def likely(plan: Plan, work: Demand, device: DeviceInfo, near: float) -> float:
    """An estimate of a flat plan's time, to rank it among others for the same problem: in floating-point operations, not seconds.

    It adds the arithmetic (on a GPU in whole warps, however few work-items a group has) and the loads of its work-items, at ``near``
    operations per byte; both are multiplied by the factor of wasted work that the shape implies.
    """
    items = [math.prod(step.local_size) for step in plan.steps if isinstance(step, Launch)]
    warp = device.can.sub_group or _USUAL_WARP
    lanes = min((n / (-(-n // warp) * warp) for n in items), default=1.0) if device.kind == "gpu" else 1.0
    return work.waste * (work.flops / lanes + near * work.loads)


def spills(resources: Mapping[str, Resources]) -> bool | None:
    """Whether any kernel spills; None if the compiler does not report it."""
    known = [used for used in resources.values() if used.spill_stores >= 0]
    return any(used.spill_stores or used.spill_loads for used in known) if known else None


@dataclass(frozen=True)
class Peaks:
    """The measured ceilings of a device: ``flops`` per second, ``bandwidth`` in bytes per second; 0 if unknown."""

    flops: float = 0.0
    bandwidth: float = 0.0


@dataclass(frozen=True)
class Demand:
    """The work of a computation: floating-point operations, and the fewest bytes that cross the memory bus.

    For a configuration also the bytes that its work-items load from near memory, and the factor of wasted work.
    """

    flops: float
    traffic: float
    loads: float = 0.0
    waste: float = 1.0


def least_seconds(work: Demand, peaks: Peaks) -> float:
    """A lower bound in seconds for a device with these peaks; 0 if nothing is known.

    Traffic counts only if no cache can hold it: operands that stay in a cache between runs do not cross the bus.
    """
    through_memory = work.traffic if work.traffic >= BEYOND_CACHES else 0.0
    return max(_time(work.flops, peaks.flops), _time(through_memory, peaks.bandwidth))


def estimate(plan: Plan, work: Demand, device: DeviceInfo, peaks: Peaks) -> float:
    """A lower bound in seconds for a flat plan: the roofline of its arithmetic and traffic on the part of the device that it occupies.

    Its traffic includes the workspace, written and read once, unless a cache holds it. It can use at most as many compute units as its
    largest launch has work-groups. 0 if nothing is known.
    """
    groups = [math.prod(launch.global_size) // math.prod(launch.local_size) for launch in plan.steps if isinstance(launch, Launch)]
    share = min(1.0, max(groups, default=1) / max(device.compute_units, 1))
    if device.kind == "cpu":
        share = min(1.0, _TURBO * share)
    workspace = 2.0 * plan.workspace if plan.workspace >= BEYOND_CACHES else 0.0
    alone = least_seconds(work, Peaks(share * peaks.flops, peaks.bandwidth))
    return max(alone, _time(work.traffic * (work.traffic >= BEYOND_CACHES) + workspace, peaks.bandwidth))


def _time(amount: float, rate: float) -> float:
    return amount / rate if rate > 0 else 0.0


def _dynamic(launch: Launch) -> int:
    """Bytes of local memory in a launch's arguments."""
    return sum(int(arg.value or 0) for arg in launch.args if arg.kind == "local")


def _local_limit(device: DeviceInfo) -> int:
    """Bytes of local memory for a work-group; NVIDIA's OpenCL allows more than it reports."""
    limits = multiprocessor(device)
    return device.local_memory if limits is None else max(device.local_memory, limits.shared - limits.reserved)
