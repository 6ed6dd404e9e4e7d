"""Limits that no device can exceed: measurements above them are errors of a clock or a compiler, and are refused."""

from __future__ import annotations

import math
from collections.abc import Callable

from portatile import ceilings
from portatile.ceilings import DIRECTIONS, STREAMS, Measured
from portatile.device import devices
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.records import DeviceInfo

_MODERN = 70  # ten times NVIDIA's compute capability from which on _NVIDIA is valid

# Per compute unit and cycle: floating-point operations, functions, bytes of local memory. For an NVIDIA multiprocessor what no device
# exceeds (most have less float64); for a core twice what two 512-bit units do; for other GPUs several times the usual values.
_NVIDIA = {"fp32": 256.0, "fp64": 128.0, "mma": 256.0, "special": 16.0, "local": 128.0}
_NEWER_FUNCTIONS = (103, 32.0)  # from this capability on there are twice as many units for functions
_CPU = {"fp32": 128.0, "fp64": 64.0, "mma": 128.0, "special": 64.0, "local": 256.0}
_GPU = {"fp32": 512.0, "fp64": 256.0, "mma": 1024.0, "special": 128.0, "local": 256.0}

_CACHES = {"cpu": 192.0}  # bytes per compute unit and cycle; on other devices registers receive 256 from the nearest cache
_MEMORY = {"cpu": 32.0}  # ... of arrays that no cache holds; on other devices 64, twice what any GPU reaches
_TOLD = 1.3  # times the memory's own rate: a part of an array is still in the cache, and memories may be overclocked
_COPIED = 4.0  # times the rate of copies within the device, which read and write as streams do
_UNKNOWN_CLOCK = 6e9
_BOOST = {"nvidia": 1.25, "other": 2.0}  # a device may run this much faster than its reported clock: NVIDIA reports the highest
_LINK = 1e12  # bytes per second between host and device: more than any link
_RESOLUTION = 1e-8  # seconds: a shorter run was not timed


def highest(measured: Measured, info: DeviceInfo, memory: float = 0.0) -> float:
    """A rate, in the quantity's own unit, that the device cannot reach; ``memory``: the limit of its memory, in B/s."""
    if measured.name in ("htod", "dtoh") and not info.unified_memory:
        return _LINK
    capability = _capability(info)
    modern = capability >= _MODERN
    clock = (info.clock_mhz * 1e6 or _UNKNOWN_CLOCK) * _BOOST["nvidia" if modern else "other"]
    cycles = max(info.compute_units, 1) * clock
    if measured.name in (*DIRECTIONS, *STREAMS):
        if not _beyond_caches(measured, info):
            return cycles * _CACHES.get(info.kind, 256.0)
        return min(cycles * _MEMORY.get(info.kind, 64.0), memory or math.inf)
    if modern:
        functions = measured.name == "special" and capability >= _NEWER_FUNCTIONS[0]
        return cycles * (_NEWER_FUNCTIONS[1] if functions else _NVIDIA[measured.name])
    return cycles * (_CPU if info.kind == "cpu" else _GPU)[measured.name]


def memory_limit(device: Device, copied: Callable[[], float]) -> float:
    """A throughput in B/s that the device's memory cannot reach; 0 if nothing is known.

    It follows from clock and bus width, which CUDA also reports for the hardware of an OpenCL device; for other GPUs from ``copied``, which
    measures a copy within the device. A CPU's copy uses only one core, so it gives no limit.
    """
    rate = device.memory_rate or max(
        (other.memory_rate for other in devices() if other.info.physical_id == device.info.physical_id), default=0.0
    )
    if rate:
        return _TOLD * rate
    return _COPIED * copied() if device.info.kind == "gpu" else 0.0


def _capability(info: DeviceInfo) -> int:
    """Ten times NVIDIA's compute capability; 0 for other devices."""
    number = info.architecture.removeprefix("sm_").rstrip("af")
    return int(number) if info.architecture.startswith("sm_") and number.isdigit() else 0


def _beyond_caches(measured: Measured, info: DeviceInfo) -> bool:
    nbytes = measured.details.get("bytes")
    return ceilings.through_memory(measured, info) if nbytes is None else int(nbytes) >= ceilings.stream_bytes(info)


def refuse_impossible(measured: Measured, info: DeviceInfo, memory: float = 0.0) -> None:
    """Raise DeviceError for a measurement without samples, with a time of 0, or faster than ``highest``."""
    what = f"{measured.name} on {info.id}"
    if not measured.samples or not min(measured.samples) > 0:
        raise DeviceError(f"{what}: it took no time by the clock; the measurement is refused")
    least = min(measured.samples)
    if least < _RESOLUTION and measured.name not in (*DIRECTIONS, *STREAMS):
        raise DeviceError(f"{what}: {least:.1e} s are below the clock's resolution; measure a larger problem")
    limit = highest(measured, info, memory)
    if measured.rate > limit:
        raise DeviceError(
            f"{what}: {measured.rate:.3g} {measured.unit} are more than any such device reaches ({limit:.3g}); the measurement is refused"
        )


def refuse_removed(what: str, once: float, twice: float) -> None:
    """Raise DeviceError unless twice as many rounds take about twice as long: otherwise a compiler has removed work.

    ``once`` and ``twice`` are seconds.
    """
    if not 1.4 <= twice / once <= 3.5:
        raise DeviceError(
            f"{what}: twice as many rounds take {twice / once:.2f} times as long ({once:.3g} s, {twice:.3g} s); "
            "either the compiler removed work or the machine is too busy: the measurement is refused; try again when nothing else runs"
        )
