"""Kernel Tuner's cache files as recorded trials, including those of interrupted runs.

A cache is a JSON object: the device, the parameters' names in order, and one entry for each configuration with its times in milliseconds. A
run appends entries and closes the object at its end, so an interrupted run leaves a file that is cut off anywhere. A configuration that
failed has a marker such as ``"CompilationFailedConfig"`` in place of its time, or a huge time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from portatile.errors import ArgumentError
from portatile.formats import bounded_reading, other_tuners
from portatile.records import DeviceInfo, Problem, Value
from portatile.trials import Status, Trial

_FAILURES: dict[str, Status] = {"InvalidConfig": "skipped", "CompilationFailedConfig": "compile", "RuntimeFailedConfig": "launch"}
_PHASES = {"compile_time": "compile", "verification_time": "check", "benchmark_time": "run", "framework_time": "framework"}
_MILLISECOND = 1e-3


class _Cache(msgspec.Struct):
    """A cache: the fields that it must have, and the optional ones that are read."""

    device_name: str
    tune_params_keys: list[str]
    cache: dict[str, dict[str, Any]]
    kernel_name: str = ""
    problem_size: Any = None


class _CompactRecording(msgspec.Struct):
    """A recorded space in short form: ``codes`` are indices into ``params``, row by row; times and costs in seconds, null for a failure."""

    name: str
    params: dict[str, list[Value]]
    codes: list[int]
    times: list[float | None]
    costs: list[float]
    meta: dict[str, Any] = {}


def is_one(document: object) -> bool:
    """Whether a JSON document is a cache or the short form of one."""
    return isinstance(document, dict) and (("cache" in document and "tune_params_keys" in document) or {"codes", "params"} <= set(document))


def parse(data: bytes | str) -> object:
    """The JSON document in ``data``, which may be cut off within the cache; raises ArgumentError if it is not JSON.

    Examples:
        >>> parse('{"cache": {"1": {"time": 2.5},\\n"2": {"ti')
        {'cache': {'1': {'time': 2.5}}}
    """
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    try:
        return bounded_reading.json_document(text)
    except json.JSONDecodeError as error:
        reason = error
    except ValueError as error:
        raise ArgumentError(f"this cannot be read: {error}") from None
    text_without_comma = text.rstrip().rstrip(",")
    entries = (
        text_without_comma,
        text_without_comma[: text_without_comma.rfind("}") + 1],
        text_without_comma[: text_without_comma.rfind("},") + 1],
    )
    for repaired in (text_without_comma + "}", *(entry + "}}" for entry in entries)):
        try:
            return bounded_reading.json_document(repaired)
        except ValueError:
            continue
    raise ArgumentError(f"this is not JSON: {reason}")


def read(path: Path) -> list[Trial]:
    """The trials of a cache file, plain or gzipped; raises ArgumentError with the path of what is wrong in it."""
    document = parse(bounded_reading.content(path))
    if not is_one(document):
        raise ArgumentError(f"{path} is not a cache of Kernel Tuner: it has no 'tune_params_keys' beside 'cache'")
    try:
        return trials(document)
    except (msgspec.ValidationError, ArgumentError) as error:
        raise ArgumentError(f"{path}: {error}") from None


def trials(document: object) -> list[Trial]:
    """The trials of a cache or of its short form; raises msgspec.ValidationError or ArgumentError with the path of what is wrong.

    Examples:
        >>> entries = {"16": {"block": 16, "time": 2.0, "times": [2.0, 2.5, 2.0]}, "32": {"block": 32, "time": "InvalidConfig"}}
        >>> [(t.config, t.median, t.status) for t in trials({"device_name": "A", "tune_params_keys": ["block"], "cache": entries})]
        [({'block': 16}, 0.002, 'ok'), ({'block': 32}, inf, 'skipped')]
    """
    if isinstance(document, dict) and "codes" in document:
        return _compact(msgspec.convert(document, _CompactRecording))
    cache = msgspec.convert(document, _Cache)
    task, info = other_tuners.problem(cache.kernel_name, cache.problem_size), other_tuners.device(cache.device_name)
    return [_entry(key, entry, cache.tune_params_keys, task, info) for key, entry in cache.cache.items()]


def _entry(key: str, entry: Mapping[str, Any], names: list[str], task: Problem, info: DeviceInfo) -> Trial:
    """The trial of one entry of a cache; raises ArgumentError that names the entry."""
    place = f"$.cache[{key!r}]"
    config: dict[str, Value] = {}
    for name in names:
        if name not in entry:
            raise ArgumentError(f"no value of the parameter {name!r} - at `{place}`")
        value = entry[name]
        config[name] = value if isinstance(value, (bool, int, float, str)) else json.dumps(value, sort_keys=True)
    if "time" not in entry and "__error__" not in entry:
        raise ArgumentError(f"no 'time' - at `{place}`")
    time = entry.get("__error__", entry.get("time"))
    if not isinstance(time, (int, float, str)):
        raise ArgumentError(f"{time!r} is neither a time nor a failure's name - at `{place}.time`")
    repeated = entry.get("times")
    runs = [run for run in repeated if other_tuners.valid(run)] if isinstance(repeated, list) else []
    status: Status = _FAILURES.get(str(time), "launch")
    samples: tuple[float, ...] = ()
    if other_tuners.valid(time):
        status, samples = "ok", tuple(float(run) * _MILLISECOND for run in runs or [time])
    spent = {phase: entry[name] * _MILLISECOND for name, phase in _PHASES.items() if other_tuners.valid(entry.get(name))}
    return other_tuners.trial(task, info, config, status, samples, spent)


def _compact(cache: _CompactRecording) -> list[Trial]:
    """The trials of the short form."""
    names, count = list(cache.params), len(cache.times)
    if len(cache.codes) != count * len(names) or len(cache.costs) != count:
        raise ArgumentError(f"{count} times want {count * len(names)} codes and {count} costs - at `$.codes`")
    task = other_tuners.problem(str(cache.meta.get("kernel") or cache.name), cache.meta.get("problem_size"))
    info = other_tuners.device(str(cache.meta.get("device") or cache.name))
    rows = []
    for row, (time, cost) in enumerate(zip(cache.times, cache.costs, strict=True)):
        codes = cache.codes[row * len(names) : (row + 1) * len(names)]
        try:
            config = {name: cache.params[name][code] for name, code in zip(names, codes, strict=True)}
        except IndexError:
            raise ArgumentError(f"a position beyond the parameter's values - at `$.codes[{row * len(names)}]`") from None
        good = time is not None and math.isfinite(time)
        samples = (float(time),) if good and time is not None else ()
        rows.append(other_tuners.trial(task, info, config, "ok" if good else "launch", samples, {"run": cost}))
    return rows
