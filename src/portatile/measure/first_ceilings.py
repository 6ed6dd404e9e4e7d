"""The first ceilings of a device, measured automatically: a child process measures copies and multiply-adds within seconds, and stores
them.

A brief measurement may be slightly below what the device reaches. Its details say that it is brief, limits that follow from it are less
strict, and the result of `portatile bench` replaces it. If the processor was busy, or a quantity could not be measured, later searches
repeat the measurement once the processor is free, up to ``_ATTEMPTS`` times in all, and the fastest result counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from portatile import ceilings, delays, processes, settings
from portatile import device as devices
from portatile.ceilings import BRIEF, BUSY, Ceilings, Measured
from portatile.device.base import Device
from portatile.errors import PortatileError, StoreError
from portatile.measure import peaks, runs
from portatile.measure.peaks import Quantity
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.records import DeviceInfo

_SECONDS = 2.0  # seconds after which matrix units are skipped
_ATTEMPTS = 4
_BUSY = 0.4  # fraction of the processor that the load of the last minute may use
_LATEST = 30.0  # seconds after which the child is killed: a simulator, or a compiler that takes very long
_WAY = MeasurementOptions(MeasurementLength(samples=5, seconds=0.08, burst=0.005))


def ensure(info: DeviceInfo, say: Callable[[str], None] = lambda text: None) -> Ceilings | None:
    """The ceilings of a device; if none were measured with its driver, they are measured now, in under 3 s on most devices.

    A device on which nothing could be measured is not tried again: its ceilings are then empty. It is tried again if time ran out while the
    machine had more runnable processes than cores. None if ``PORTATILE_CEILINGS`` is off. ``say`` is called with what was measured, or why
    nothing was.
    """
    known = ceilings.load(info)
    if not settings.measures_ceilings() or (known is not None and (not _uncertain(known) or busy(info))):
        return known
    started, why, crowded = time.monotonic(), "", False
    delays.notice(f"measuring how fast {info.name} copies and computes; this takes some seconds, once")
    try:
        child = processes.finished([sys.executable, "-P", "-m", __name__, info.id], _LATEST)
        why = child.stderr.strip().rpartition("\n")[2] or processes.exit_status(child.returncode)
    except subprocess.TimeoutExpired:
        why, crowded = f"it took more than {_LATEST:g} s", _load() > (os.cpu_count() or 1)
    stored = ceilings.load(info)
    if known is not None and known.measured:
        return stored
    if stored is None or not stored.measured:
        again = "the next search" if crowded else "`portatile bench peak`"
        say(f"the ceilings of {info.name} could not be measured ({why}); {again} tries again")
        with suppress(StoreError):
            return stored if crowded else stored or ceilings.add(info, [])
        return stored
    seconds = time.monotonic() - started
    say(f"{info.name}: {summary(stored)}, measured in {seconds:.1f} s and stored; `portatile bench` measures more thoroughly")
    return stored


def summary(known: Ceilings) -> str:
    """``copies 20 GB/s, float32 100 Gflop/s``."""
    parts = [f"{title} {1e-9 * rate:.4g} {unit}" for name, title, unit in _SUMMARISED if (rate := known.best(name)) is not None]
    return ", ".join(parts)


_SUMMARISED = (
    ("copy", "copies", "GB/s"),
    ("fp32", "float32", "Gflop/s"),
    ("fp64", "float64", "Gflop/s"),
    ("mma", "float64 matrix units", "Gflop/s"),
)


def measure(device: Device, seconds: float = _SECONDS) -> list[Measured]:
    """Copy, then multiply-adds, each checked before it is timed; quantities that cannot be measured are skipped."""
    until = time.monotonic() + seconds
    measurements: list[Measured] = []
    for quantity in (*peaks.memory_quantities(device.info)[:1], *peaks.arithmetic_quantities(device.info)):
        if quantity.name not in (name for name, _, _ in _SUMMARISED) or (quantity.name == "mma" and time.monotonic() > until):
            continue
        with suppress(PortatileError):
            measurements.append(_brief(device, quantity))
    return measurements


def _brief(device: Device, quantity: Quantity) -> Measured:
    """A brief measurement in the best known configuration."""
    problem = peaks.problem(quantity, device.info)
    return peaks.measure(device, quantity, problem, _WAY, runs.known(problem, device).config)


def _uncertain(known: Ceilings) -> bool:
    """Whether the processor was busy during the measurement, or a quantity is missing, and attempts are left."""
    wanted = {"copy", "fp32", "fp64"} if known.device.fp64 else {"copy", "fp32"}
    names = {m.name for m in known.measured}
    attempts = max((int(m.details.get(BRIEF, 0)) for m in known.measured), default=_ATTEMPTS)
    doubtful = any(m.details.get(BUSY) for m in known.measured) or not wanted <= names
    return doubtful and 0 < attempts < _ATTEMPTS


def busy(info: DeviceInfo) -> bool:
    """Whether the device is a processor on which programs ran during the last minute; False if the system does not report it."""
    return info.kind == "cpu" and _load() > _BUSY * (os.cpu_count() or 1)


def _load() -> float:
    """The mean number of runnable processes in the last minute; 0 if the system does not report it."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def marked(measured: Measured, disturbed: bool) -> Measured:
    """The measurement, marked if other programs kept the processor busy."""
    return replace(measured, details={**measured.details, BUSY: True}) if disturbed else measured


def _kept(new: Measured, known: Ceilings | None, disturbed: bool) -> Measured:
    """The faster of this and an earlier brief measurement, with the number of attempts and whether the processor was busy now."""
    old = next((m for m in known.measured if m.key == new.key), None) if known is not None else None
    attempt = 1 if known is None else 1 + max((int(m.details.get(BRIEF, 0)) for m in known.measured), default=0)
    fastest = old if old is not None and old.brief and old.rate > new.rate else new
    details = {name: value for name, value in fastest.details.items() if name != BUSY}
    return marked(replace(fastest, details={**details, BRIEF: attempt}), disturbed)


def _main(selector: str) -> int:
    device = devices.get(selector)
    known = ceilings.load(device.info)
    disturbed = busy(device.info)
    measurements = [_kept(measured, known, disturbed) for measured in measure(device)]
    if not measurements:
        print("no kernel ran", file=sys.stderr)
        return 1
    ceilings.add(device.info, measurements)
    return 0


if __name__ == "__main__":
    processes.end_with_parent()
    try:
        sys.exit(_main(sys.argv[1]))
    except PortatileError as error:
        sys.exit(f"{error}".splitlines()[0])
