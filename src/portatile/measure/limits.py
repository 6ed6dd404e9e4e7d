"""What no device can reach: readings above it are mistakes of a clock or of a compiler, and are refused."""

from __future__ import annotations

from portatile.ceilings import DIRECTIONS, STREAMS, Measured
from portatile.errors import DeviceError
from portatile.records import DeviceInfo

# For each compute unit and cycle, several times what any chip does: 256 flop (512 in pairs) of a multiprocessor, 64 of a core;
# 128 bytes of local memory; caches below that.
_PER_CYCLE = {"flop/s": 2048.0, "op/s": 1024.0, "B/s": 1024.0}
_UNKNOWN_CLOCK = 6e9
_BOOST = 2.0  # a device may run this much faster than the clock it tells
_LINK = 2e12  # bytes a second between host and device: more than any link between chips
_RESOLUTION = 1e-8  # seconds: a run that is shorter was not timed


def highest(measured: Measured, info: DeviceInfo) -> float:
    """A rate, in the quantity's own unit, that the device certainly does not reach."""
    if measured.name in ("htod", "dtoh") and not info.unified_memory:
        return _LINK
    clock = (info.clock_mhz * 1e6 or _UNKNOWN_CLOCK) * _BOOST
    return max(info.compute_units, 1) * clock * _PER_CYCLE[measured.unit]


def refuse_impossible(measured: Measured, info: DeviceInfo) -> None:
    """Raise DeviceError for a measurement without samples, of no time, or faster than ``highest``."""
    what = f"{measured.name} on {info.id}"
    if not measured.samples or not min(measured.samples) > 0:
        raise DeviceError(f"{what}: the clock says that it took no time; the reading is refused")
    least = min(measured.samples)
    if least < _RESOLUTION and measured.name not in (*DIRECTIONS, *STREAMS):
        raise DeviceError(f"{what}: {least:.1e} s are below the clock's resolution; measure a larger problem")
    limit = highest(measured, info)
    if measured.rate > limit:
        raise DeviceError(
            f"{what}: {measured.rate:.3g} {measured.unit} are more than any such device reaches ({limit:.3g}); the reading is refused"
        )


def refuse_removed(what: str, once: float, twice: float) -> None:
    """Raise DeviceError where twice as many rounds do not take about twice as long: then a compiler has removed work.

    ``once`` and ``twice`` are seconds.
    """
    if not 1.4 <= twice / once <= 3.5:
        raise DeviceError(
            f"{what}: twice as many rounds take {twice / once:.2f} times as long ({once:.3g} s, {twice:.3g} s); "
            "either work was removed by the compiler or the machine is too busy: the reading is refused"
        )
