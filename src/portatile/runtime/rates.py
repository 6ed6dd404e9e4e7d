"""The rates that devices showed when they shared problems, transfers included; kept in a file for each device, for the next process."""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from portatile import settings
from portatile.cache import replace_file
from portatile.records import DeviceInfo, Problem, canonical, digest, from_json, to_json
from portatile.store import device_key

_CHANGE = 0.2  # by which a rate differs from the stored one before it is stored again
_Rates = dict[str, dict[int, float]]  # by workload and dtype, by decade of the work

_lock = threading.Lock()
_known: dict[tuple[str, Path], _Rates] = {}


def of(device: DeviceInfo, problem: Problem, work: float, where: str = "") -> float | None:
    """Work a second that the device showed for such problems: of the nearest size, where several are known; None for nothing known.

    ``where``: what of the operands' place it depends on, nothing for arrays on the host.
    """
    with _lock:
        sizes = _rates(device).get(_kind(problem, where), {})
    wanted = _decade(work)
    return sizes[min(sizes, key=lambda decade: abs(decade - wanted))] if sizes else None


def learn(device: DeviceInfo, problem: Problem, work: float, rate: float, where: str = "") -> None:
    """Remember a rate, and store one that has changed. What cannot be stored is known in this process only."""
    with _lock:
        rates = _rates(device)
        sizes = rates.setdefault(_kind(problem, where), {})
        before = sizes.get(_decade(work), 0.0)
        sizes[_decade(work)] = rate
        if abs(rate - before) > _CHANGE * before:
            with suppress(OSError):
                path = _path(device)
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, to_json(rates))


def _kind(problem: Problem, where: str) -> str:
    return f"{problem.workload} {problem.dtype} {where}".rstrip()


def _decade(work: float) -> int:
    return round(math.log10(max(work, 1.0)))


def _rates(device: DeviceInfo) -> _Rates:
    path = _path(device)
    key = device.id, path
    if key not in _known:
        _known[key] = {}
        with suppress(OSError, msgspec.MsgspecError, ValueError):  # none yet, or damaged: they are shown again soon
            _known[key] = from_json(path.read_bytes(), _Rates)
    return _known[key]


def _path(device: DeviceInfo) -> Path:
    """A file for each piece of hardware with its driver and back end: its link counts, too."""
    name = digest(canonical([device_key(device), device.driver, device.physical_id, device.unified_memory]))
    return settings.load().data_dir / "rates" / f"{name}.json"
