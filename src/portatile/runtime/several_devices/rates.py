"""Measured rates of devices that shared problems, and seconds of whole problems, transfers included. They are kept in a file for each
device, so that later processes know them.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from math import inf
from pathlib import Path

import msgspec

from portatile import settings
from portatile.cache import replace_file
from portatile.records import DeviceInfo, Problem, canonical, digest, from_json, to_json
from portatile.store import device_key

_CHANGE = 0.2  # relative change by which a rate must differ to be written to the file again,
_SELDOM = 10.0  # and the least seconds between two writes: noise may change each rate at every call
_MANY = 4096  # kinds of problems in a file
SURE = 2.0  # measurements after which a rate may exclude a device
_WHOLE = 0  # takes the place of a decade for values that belong to a kind as a whole
_Rates = dict[str, dict[int, float]]  # workload, dtype and place -> decade of the work -> rate

_lock = threading.Lock()
_known: dict[tuple[str, Path], _Rates] = {}
_names: dict[int, tuple[DeviceInfo, str]] = {}  # by the identity of the record, since each call asks a dozen times
_paths: dict[tuple[Path, str], Path] = {}  # by folder and name
_written: dict[Path, float] = {}  # when each file was written, in seconds of a monotonic clock


def of(device: DeviceInfo, problem: Problem, work: float, where: str = "", least: float = 0.0, most: float = inf) -> float | None:
    """The device's rate in work per second for such problems, from the nearest known size; None if unknown.

    ``where``: the operands' place as it affects the rate, empty for arrays on the host. ``least``, ``most``: ignore problems of less or
    more work than this, by decades.
    """
    with _lock:
        sizes = _rates(device).get(_kind(problem, where), {})
    decade_of_work = _decade(work)
    if least:
        sizes = {decade: rate for decade, rate in sizes.items() if decade >= _decade(least)}
    if most < inf:
        sizes = {decade: rate for decade, rate in sizes.items() if decade <= _decade(most)}
    return sizes[min(sizes, key=lambda decade: abs(decade - decade_of_work))] if sizes else None


def learn(device: DeviceInfo, problem: Problem, work: float, rate: float, where: str = "") -> None:
    """Keep a rate, and write it to the file if it has changed. If the file cannot be written, the rate is known in this process only."""
    with _lock:
        _store(device, _kind(problem, where), _decade(work), rate)


def record_rate(device: DeviceInfo, problem: Problem, work: float, rate: float, where: str = "") -> None:
    """Record a measured rate: a higher one replaces the known rate, a lower one is averaged with it. Also counts the measurements."""
    kind, times = _kind(problem, where), _kind(problem, _times(where))
    with _lock:
        before, count = (_rates(device).get(one, {}).get(_decade(work)) for one in (kind, times))
        _store(device, kind, _decade(work), rate if before is None else max(rate, (before + rate) / 2))
        _store(device, times, _decade(work), min((count or 0.0) + 1.0, SURE))


def is_confirmed(device: DeviceInfo, problem: Problem, work: float, where: str = "") -> bool:
    """Whether the device's rate for such problems was measured often enough to exclude it: a single measurement may be disturbed."""
    count = of(device, problem, work, _times(where))
    return count is None or count >= SURE  # None: the rate comes from tuning


def seconds(device: DeviceInfo, problem: Problem, what: str) -> float | None:
    """Seconds that a whole problem of about these sizes took, computed as ``what`` says; None if unknown."""
    with _lock:
        return _rates(device).get(_about(problem, what), {}).get(_WHOLE)


def record_seconds(device: DeviceInfo, problem: Problem, what: str, seconds_taken: float) -> None:
    """Record the seconds of a whole problem: a shorter time replaces the known one, a longer one is averaged with it."""
    before = seconds(device, problem, what)
    with _lock:
        _store(device, _about(problem, what), _WHOLE, seconds_taken if before is None else min(seconds_taken, (before + seconds_taken) / 2))


def _store(device: DeviceInfo, kind: str, place: int, value: float) -> None:
    rates = _rates(device)
    if kind not in rates and len(rates) >= _MANY:
        rates.pop(next(iter(rates)))
    sizes = rates.setdefault(kind, {})
    before = sizes.get(place)
    sizes[place] = value
    path, now = _path(device), time.monotonic()
    if before is None or (abs(value - before) > _CHANGE * before and now > _written.get(path, 0.0) + _SELDOM):
        _written[path] = now
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, to_json(rates))


def _about(problem: Problem, what: str) -> str:
    """A kind of problems whose sizes differ by at most a fifth."""
    sizes = " ".join(f"{name}~{round(4 * math.log2(max(size, 1)))}" for name, size in problem.sizes.items())
    options = " ".join(str(value) for value in problem.options.values())
    return f"{_kind(problem, what)}: {sizes} {options}".rstrip()


def _times(where: str) -> str:
    """The key, used in place of ``where``, under which the number of measurements of a rate is kept."""
    return f"times {where}".rstrip()


def _kind(problem: Problem, where: str) -> str:
    return f"{problem.workload} {problem.dtype} {where}".rstrip()


def _decade(work: float) -> int:
    return round(math.log10(max(work, 1.0)))


def _rates(device: DeviceInfo) -> _Rates:
    path = _path(device)
    key = device.id, path
    if key not in _known:
        _known[key] = {}
        with suppress(OSError, msgspec.MsgspecError, ValueError):  # no file yet, or a damaged one: rates are measured again
            _known[key] = from_json(path.read_bytes(), _Rates)
    return _known[key]


def _path(device: DeviceInfo) -> Path:
    """The file of a device with its driver and back end; the physical device is included, since its link affects the rates."""
    remembered = _names.get(id(device))
    if remembered is None or remembered[0] is not device:
        name = digest(canonical([device_key(device), device.driver, device.physical_id, device.unified_memory]))
        remembered = _names[id(device)] = device, name
    place = settings.data_dir(), remembered[1]
    path = _paths.get(place)
    if path is None:
        path = _paths[place] = place[0] / "rates" / f"{place[1]}.json"
    return path
