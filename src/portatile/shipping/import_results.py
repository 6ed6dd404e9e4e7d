"""Import of another machine's results into the store: all are checked first, and each trial is added only once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from portatile import workloads
from portatile.device import backends
from portatile.errors import ArgumentError, UsageError
from portatile.formats import bounded_reading, kernel_tuner, portatile_json, t4
from portatile.records import DeviceInfo, Problem, canonical
from portatile.shipping.folder import TABLE, TRIALS
from portatile.store import Query, ResultStore, device_key, sqlite
from portatile.trials import Trial


@dataclass(frozen=True)
class ImportedTrials:
    """The imported trials of one device. ``known`` were in the store before; ``here``: whether this machine has such a device."""

    device: DeviceInfo
    added: int
    valid: int
    known: int
    here: bool


def read(path: Path) -> list[Trial]:
    """The trials in a file (as printed by `portatile results --json` or `tune --json`, or T4) or in an exported folder.

    Raises ArgumentError with the path of what is malformed, UsageError for results without problem and device.
    """
    if path.is_dir():
        if not (path / TABLE).is_file() or not (path / TRIALS).is_file():
            raise UsageError(f"{path} is not a folder that `portatile export` wrote: it lacks {TABLE} or {TRIALS}")
        path = path / TRIALS
    try:
        data = bounded_reading.content(path)
        if data.startswith(sqlite.MAGIC):
            raise UsageError(f"{path} is a result store: list its trials with `portatile results --store {path} --json` first")
        document = bounded_reading.json_document(data)
    except ValueError as error:
        raise error if isinstance(error, ArgumentError) else ArgumentError(f"{path} is not JSON: {error}") from None
    try:
        if kernel_tuner.is_one(document):
            raise UsageError("a cache of Kernel Tuner is for a kernel that no workload here computes; search it with tune --replay")
        if t4.is_one(document):
            outcomes = t4.read(document)
            if not document.get("metadata", {}).get("portatile"):
                raise UsageError("this T4 does not say to which problem and device it belongs; search it with tune --replay")
            return _checked(outcomes, "$.results")
        if not portatile_json.is_one(document):
            raise UsageError("this holds no trials: it is neither what `portatile results --json` or `tune --json` prints, nor T4")
        return _checked(*portatile_json.read(document))
    except UsageError as error:
        kind = ArgumentError if isinstance(error, ArgumentError) else UsageError
        raise kind(f"{path}: {error}") from None


def add(store: ResultStore, trials: Iterable[Trial], present: Sequence[DeviceInfo]) -> list[ImportedTrials]:
    """Add the trials that the store does not have; returns how many for each device. ``present`` are this machine's devices."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(device_key(trial.device), []).append(trial)
    here = {device_key(info) for info in present}
    arrived = []
    for key, group in groups.items():
        info = group[0].device
        known = {_identity(trial) for problem in _problems(group) for trial in store.trials(Query(problem=problem, device=info))}
        new = list({identity: trial for trial in group if (identity := _identity(trial)) not in known}.values())
        for trial in new:
            store.add(trial)
        arrived.append(ImportedTrials(info, len(new), sum(trial.status == "ok" for trial in new), len(group) - len(new), key in here))
    return arrived


def _problems(trials: Sequence[Trial]) -> list[Problem]:
    return list({trial.problem.key: trial.problem for trial in trials}.values())


def _identity(trial: Trial) -> str:
    """A key that is equal for two records of one evaluation, even if a later version of portatile added fields to one."""
    evaluated = (trial.device.driver, trial.source, trial.status, trial.samples, trial.time, trial.message)
    return canonical([trial.problem.key, dict(trial.config), *evaluated])


def _checked(trials: list[Trial], where: str) -> list[Trial]:
    """The trials with complete problems, if each is valid; raises ArgumentError with the place of the first that is not."""
    sound: dict[str, Problem] = {}
    checked = []
    for place, trial in enumerate(trials):
        at = f"at `{where}[{place}]"
        for name in ("samples", "event_samples"):
            wrong = next((i for i, sample in enumerate(getattr(trial, name)) if not (math.isfinite(sample) and sample > 0)), None)
            if wrong is not None:
                raise ArgumentError(f"a sample is a positive number of seconds - {at}.{name}[{wrong}]`")
        if trial.status == "ok" and not trial.samples:
            raise ArgumentError(f"a trial that is ok has samples - {at}.samples`")
        if not trial.config:
            raise ArgumentError(f"a configuration names at least one parameter - {at}.config`")
        if trial.device.backend not in backends():
            raise ArgumentError(f"a back end is one of {', '.join(backends())} - {at}.device.backend`")
        if not trial.device.name:
            raise ArgumentError(f"a device has a name - {at}.device.name`")
        if trial.problem.key not in sound:
            sound[trial.problem.key] = _whole(trial.problem, f"{at}.problem`")
        checked.append(replace(trial, problem=sound[trial.problem.key]))
    return checked


def _whole(problem: Problem, at: str) -> Problem:
    """The problem with defaults for missing options, checked by its workload; raises ArgumentError where that refuses it.

    A problem of a workload that is not installed is kept as it is, for an installation that has it.
    """
    if problem.workload not in workloads.names():
        return problem
    workload = workloads.get(problem.workload)
    try:
        complete = workload.problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    except UsageError as error:
        raise ArgumentError(f"{error} - {at}") from None
    for name, shape in workload.shapes(complete).items():
        if len(complete.layout[name].strides) != len(shape):
            raise ArgumentError(f"{name} has {len(shape)} dimensions, its layout {len(complete.layout[name].strides)} - {at}")
    return complete
