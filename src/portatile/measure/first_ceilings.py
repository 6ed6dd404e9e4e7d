"""The first ceilings of a device, by themselves: a child process measures copy and multiply-adds within seconds, and stores them.

A brief measurement may lie a little below what the device reaches. It says so in its details, nothing is refused by it as narrowly as by
a full one, and what `portatile bench` measures takes its place. What a busy processor gave, or where a quantity could not be measured,
later searches measure again once the processor is free, up to ``_ATTEMPTS`` times in all, and the fastest counts.
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

_SECONDS = 2.0  # after which matrix units are left out
_ATTEMPTS = 4
_BUSY = 0.4  # of the processor, by the load of the last minute
_LATEST = 30.0  # after which the child is ended: a simulator, or a compiler that takes very long
_WAY = MeasurementOptions(MeasurementLength(samples=5, seconds=0.08, burst=0.005))


def ensure(info: DeviceInfo, say: Callable[[str], None] = lambda text: None) -> Ceilings | None:
    """The ceilings of a device; where none were measured with its driver they are now, in under 3 s on most devices.

    A device of which nothing could be measured is not tried again: its ceilings are then empty. Where the machine had more to do than
    it has cores, and time ran out, it is. None where ``PORTATILE_CEILINGS`` is off.
    ``say`` is told what was measured, or why nothing was.
    """
    known = ceilings.load(info)
    if not settings.measures_ceilings() or (known is not None and (not _uncertain(known) or busy(info))):
        return known
    started, why, crowded = time.monotonic(), "", False
    delays.notice(f"measuring how fast {info.name} copies and calculates; this takes some seconds, once")
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
    """Copy, then multiply-adds, each checked before it is timed; what cannot be measured is left out."""
    until = time.monotonic() + seconds
    measurements: list[Measured] = []
    for quantity in (*peaks.memory_quantities(device.info)[:1], *peaks.arithmetic_quantities(device.info)):
        if quantity.name not in (name for name, _, _ in _SUMMARISED) or (quantity.name == "mma" and time.monotonic() > until):
            continue
        with suppress(PortatileError):
            measurements.append(_brief(device, quantity))
    return measurements


def _brief(device: Device, quantity: Quantity) -> Measured:
    """A brief measurement in one configuration, the best known."""
    problem = peaks.problem(quantity, device.info)
    return peaks.measure(device, quantity, problem, _WAY, runs.known(problem, device).config)


def _uncertain(known: Ceilings) -> bool:
    """Whether a busy processor was measured, or not all of it, and it has not been tried often."""
    wanted = {"copy", "fp32", "fp64"} if known.device.fp64 else {"copy", "fp32"}
    names = {m.name for m in known.measured}
    attempts = max((int(m.details.get(BRIEF, 0)) for m in known.measured), default=_ATTEMPTS)
    doubtful = any(m.details.get(BUSY) for m in known.measured) or not wanted <= names
    return doubtful and 0 < attempts < _ATTEMPTS


def busy(info: DeviceInfo) -> bool:
    """Whether the device is a processor on which programs ran during the last minute; False where the system does not tell."""
    return info.kind == "cpu" and _load() > _BUSY * (os.cpu_count() or 1)


def _load() -> float:
    """The mean number of processes that ran, or waited to, in the last minute; 0 where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def marked(measured: Measured, disturbed: bool) -> Measured:
    """The measurement, with a mark where other programs kept the processor busy."""
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
