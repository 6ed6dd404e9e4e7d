"""T4, the auto-tuning community's JSON format of results: written from trials, read into trials.

A document holds the results of one problem on one device; version 1.0.0 of the format requires of each result its configuration, times,
invalidity and correctness, and allows further fields. What portatile adds, so that nothing is lost on the way to another store, is in
``metadata.portatile`` (problem and device) and in each result's ``portatile``. Times are in ``metadata.timeunit``: Kernel Tuner writes
milliseconds, portatile seconds, which readers also assume if no unit is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from portatile.errors import ArgumentError
from portatile.formats import bounded_reading, other_tuners
from portatile.records import DeviceInfo, Problem, Value
from portatile.trials import Status, Trial

VERSION = "1.0.0"
Invalidity = Literal["timeout", "compile", "runtime", "correctness", "constraints", "correct"]

_INVALIDITY: dict[Status, Invalidity] = {
    "ok": "correct",
    "compile": "compile",
    "launch": "runtime",
    "crash": "runtime",
    "wrong": "correctness",
    "timeout": "timeout",
    "skipped": "constraints",
}
_STATUS: dict[Invalidity, Status] = {
    "correct": "ok",
    "compile": "compile",
    "runtime": "launch",
    "correctness": "wrong",
    "timeout": "timeout",
    "constraints": "skipped",
}
# The format's own name, and that used by Kernel Tuner, which writes most of these files.
_COMPILATION = ("compilation_time", "compilation")
_PHASES = {**dict.fromkeys(_COMPILATION, "compile"), "benchmark": "run", "framework": "framework", "validation": "check"}
_STANDARD = ("problem", "device", "config", "samples", "time")  # fields of a Trial for which the format itself has a place
_UNITS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class Measurement(msgspec.Struct, omit_defaults=True):
    """One measured value."""

    name: str = ""
    value: float | str | list[Any] | None = None
    unit: str = ""


class Outcome(msgspec.Struct, omit_defaults=True):
    """One configuration. ``times`` are in the document's unit, ``runtimes`` is a list; ``portatile`` has a Trial's other fields."""

    configuration: dict[str, Value]
    times: dict[str, Any]
    invalidity: Invalidity
    correctness: float
    timestamp: str = ""
    objectives: list[Any] = []
    measurements: list[Measurement] = []
    portatile: dict[str, Any] | None = None


class Origin(msgspec.Struct):
    """The problem and the device of a document."""

    problem: Problem
    device: DeviceInfo


class Metadata(msgspec.Struct, omit_defaults=True):
    """The fields that apply to every result."""

    timeunit: str | None = None
    portatile: Origin | None = None


class Document(msgspec.Struct, omit_defaults=True):
    """A file."""

    schema_version: str
    results: list[Outcome]
    metadata: Metadata = msgspec.field(default_factory=Metadata)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.schema_version):
            raise ValueError(f"schema_version {self.schema_version!r} is not major.minor.patch")


def is_one(document: object) -> bool:
    """Whether a JSON document claims to be T4."""
    return isinstance(document, dict) and "results" in document and "schema_version" in document


def write(trials: Sequence[Trial]) -> bytes:
    """A T4 document of trials of one problem on one device, from which ``read`` makes equal trials; raises ArgumentError for others."""
    origins = {(trial.problem.key, trial.device) for trial in trials}
    if len(origins) != 1:
        raise ArgumentError(f"a T4 document holds the results of one problem on one device, not of {len(origins)}")
    metadata = Metadata("seconds", Origin(trials[0].problem, trials[0].device))
    document = Document(VERSION, [_outcome(trial) for trial in trials], metadata)
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def read(document: object) -> list[Trial]:
    """The trials of a T4 document, a decoded JSON object; raises ArgumentError with the path of what is wrong.

    A document of another program does not name its problem and device: both are then empty, and `Trial.problem.workload` is ``"kernel"``.
    Such trials can be replayed but not used.
    """
    try:
        outcomes = msgspec.convert(document, Document)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"this is not T4: {error}") from None
    task, info = other_tuners.problem("", None), other_tuners.device("unknown")
    if (own := outcomes.metadata.portatile) is not None:
        task, info = own.problem, own.device
    return [_trial(result, _unit(outcomes, result), task, info, f"$.results[{place}]") for place, result in enumerate(outcomes.results)]


def load(data: bytes) -> list[Trial]:
    """``read`` from the bytes of a file.

    Raises ArgumentError for what is no T4.

    Examples:
        >>> text = '{"schema_version": "1.0.0", "results": [{"configuration": {"block": 16}, "invalidity": "correct",'
        >>> text += '"correctness": 1, "times": {"runtimes": [2, 3, 2]}}], "metadata": {"timeunit": "milliseconds"}}'
        >>> [(trial.config, trial.median) for trial in load(text.encode())]
        [({'block': 16}, 0.002)]
    """
    try:
        return read(bounded_reading.json_document(data))
    except ValueError as error:
        raise ArgumentError(f"this is not JSON: {error}" if not isinstance(error, ArgumentError) else str(error)) from None


def _outcome(trial: Trial) -> Outcome:
    spent = trial.seconds.get
    times: dict[str, Any] = {
        **dict.fromkeys(_COMPILATION, spent("compile", 0.0)),
        "runtimes": list(trial.samples),
        "benchmark": spent("run", 0.0),
        "framework": 0.0,
        "search_algorithm": 0.0,
        "validation": spent("check", 0.0),
    }
    own = {name: value for name, value in msgspec.to_builtins(trial).items() if name not in _STANDARD}
    measured = [Measurement("time", trial.median, "s")] if trial.status == "ok" else []
    correctness = 0.0 if trial.status == "wrong" else 1.0
    return Outcome(dict(trial.config), times, _INVALIDITY[trial.status], correctness, trial.time, ["time"], measured, own)


def _trial(result: Outcome, unit: float, task: Problem, info: DeviceInfo, place: str) -> Trial:
    runs = result.times.get("runtimes", [])
    if not isinstance(runs, list) or not all(_number(run) for run in runs):
        raise ArgumentError(f"runtimes are a list of numbers - at `{place}.times.runtimes`")
    status = _STATUS[result.invalidity]
    samples = tuple(run * unit for run in runs if other_tuners.valid(run))
    if status == "ok" and not samples:
        samples = _measured(result)
        if not samples:
            raise ArgumentError(f"a correct result needs runtimes or a measurement 'time' - at `{place}.times`")
    own = result.portatile
    if own is None:
        return other_tuners.trial(task, info, result.configuration, status, samples, _spent(result.times, unit))
    standard = {"problem": task, "device": info, "config": result.configuration, "samples": runs, "time": result.timestamp}
    try:
        trial = msgspec.convert(own | msgspec.to_builtins(standard), Trial)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"{error} - in `{place}.portatile`") from None
    if _INVALIDITY[trial.status] != result.invalidity:
        raise ArgumentError(f"status {trial.status!r} and invalidity {result.invalidity!r} disagree - at `{place}.portatile.status`")
    return replace(trial, samples=tuple(run * unit for run in trial.samples)) if unit != 1 else trial


def _measured(result: Outcome) -> tuple[float, ...]:
    """The measurement ``time`` as the only sample, for a result without runtimes; none if that is missing."""
    for measurement in result.measurements:
        if measurement.name == "time" and other_tuners.valid(measurement.value):
            return (measurement.value * _UNITS.get(measurement.unit, 1e-3),)
    return ()


def _spent(times: Mapping[str, Any], unit: float) -> dict[str, float]:
    return {phase: times[name] * unit for name, phase in _PHASES.items() if other_tuners.valid(times.get(name))}


def _unit(document: Document, result: Outcome) -> float:
    """Seconds in the unit of times: the document's; else that of the result's own time; else seconds, as the format's users assume."""
    named = document.metadata.timeunit
    if named is None:
        return next((_UNITS[m.unit] for m in result.measurements if m.name == "time" and m.unit in _UNITS), 1.0)
    if named not in _UNITS:
        raise ArgumentError(f"unknown unit {named!r}; known: {', '.join(_UNITS)} - at `$.metadata.timeunit`")
    return _UNITS[named]


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
