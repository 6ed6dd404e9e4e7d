"""Power while work runs: from NVIDIA's counter of a GPU, from RAPL's counters of the CPU's packages, or as the user states it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from portatile.errors import UsageError
from portatile.records import DeviceInfo
from portatile.tuning.sensors import Sensors

RAPL = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Power:
    """Watts, and their ``source``: ``NVML`` or ``RAPL`` while the work ran, or ``stated`` by the user."""

    watts: float
    source: str


@dataclass(frozen=True)
class StatedPower:
    """The user's statement of power for the devices whose id or name contains ``name``, in any case; an empty name is every device's."""

    name: str
    watts: float

    @classmethod
    def parse(cls, text: str) -> StatedPower:
        """``H200=700``, or ``65`` for every device; raises UsageError for what is no positive number of watts."""
        name, _, number = text.rpartition("=")
        try:
            watts = float(number)
        except ValueError:
            watts = 0.0
        if not 0 < watts < float("inf"):
            raise UsageError(f"--tdp {text!r} is not a power; write for example H200=700, in watts")
        return cls(name.strip(), watts)


def under_load(run: Callable[[], object], seconds: float, device: DeviceInfo | None, stated: Sequence[StatedPower] = ()) -> Power | None:
    """The mean power while ``run``, which waits for its work, is repeated for ``seconds``; None if it is unknown.

    ``device`` is None for the host's own processor. A processor's figure is of all its packages, whatever else ran on them.
    """
    if device is not None and device.kind == "gpu":
        sensors = Sensors.of(device)
        watts = None if sensors is None else sensors.under_load(run, seconds).get("power_w")
        if watts:
            return Power(watts, "NVML")
    else:
        packages = counters()
        before, started = [package.joules() for package in packages], time.perf_counter()
        while packages and time.perf_counter() - started < seconds:
            run()
        spent = time.perf_counter() - started
        joules = [package.since(start) for package, start in zip(packages, before, strict=True) if start is not None]
        known = [value for value in joules if value is not None]
        if known and sum(known) > 0:
            return Power(sum(known) / spent, "RAPL")
    names = ("host",) if device is None else (device.id, device.name)
    for entry in stated:
        if any(entry.name.lower() in name.lower() for name in names):
            return Power(entry.watts, "stated")
    return None


@dataclass(frozen=True)
class Counter:
    """One package's energy counter, which begins again at ``span`` microjoules."""

    path: Path
    span: int

    def joules(self) -> float | None:
        """The counter's value; None if it cannot be read (most systems let only root)."""
        try:
            return int(self.path.read_text()) / 1e6
        except (OSError, ValueError):
            return None

    def since(self, before: float) -> float | None:
        """Joules spent since the counter had the value ``before``."""
        present = self.joules()
        if present is None:
            return None
        return present - before if present >= before else present - before + self.span / 1e6


def counters(folder: Path = RAPL) -> list[Counter]:
    """The counters of whole packages that can be read now."""
    files = []
    for path in sorted(folder.glob("*-rapl:?")):
        try:
            counter = Counter(path / "energy_uj", int((path / "max_energy_range_uj").read_text()))
        except (OSError, ValueError):
            continue
        if counter.joules() is not None:
            files.append(counter)
    return files
