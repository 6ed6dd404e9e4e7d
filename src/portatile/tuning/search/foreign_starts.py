"""Suggestions to a search from other tuners' results: the legal configurations nearest to theirs, in our parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from operator import itemgetter
from pathlib import Path
from statistics import fmean

import msgspec

from portatile import settings, workloads
from portatile.cache import replace_file
from portatile.errors import ArgumentError, SpaceError
from portatile.formats import bounded_reading, clblast, kernel_tuner, t4
from portatile.formats.other_tuners import ForeignResult
from portatile.records import Config, DeviceInfo, Problem, Value, canonical, digest, from_json, to_json
from portatile.space import ParameterSpace
from portatile.trials import Trial
from portatile.workload import Workload

_MOST = 4  # suggestions to a search
_KEPT = 200  # the fastest of each kernel, device, element type and sizes: so many that what is fast on several devices is among them
_TRIED = 24  # kept configurations that are considered for a problem
AMONG = 8  # the first legal ones, among which suggestions are chosen
_ALIKE = 0.5  # the least share of the named parameters that a legal configuration must match


def read(path: Path) -> list[ForeignResult]:
    """The configurations in a file of another tuner that one of our workloads understands; empty for other kernels and other files.

    CLBlast's database and tuners' files, caches of Kernel Tuner, T4. Raises ArgumentError for a malformed one.
    """
    if not path.is_file():  # a folder that was exported, or a pipe, which can be read only once
        return []
    try:
        raw = bounded_reading.content(path)
        document = kernel_tuner.parse(raw) if raw.lstrip()[:1] == b"{" else None
    except (ArgumentError, ValueError):  # its own reader reports what is wrong
        return []
    if clblast.is_one(document):
        results = clblast.read(document)
    elif kernel_tuner.is_one(document):
        results = [_known(trial) for trial in kernel_tuner.trials(document) if trial.status == "ok"]
    elif isinstance(document, dict) and t4.is_one(document) and not document.get("metadata", {}).get("portatile"):
        results = [_known(trial) for trial in t4.read(document) if trial.status == "ok"]
    else:
        return []
    return [result for result in results if understood(result)]


def understood(result: ForeignResult) -> list[Workload]:
    """The workloads that understand some of a configuration's parameters."""
    return [workload for name in workloads.names() if (workload := workloads.get(name)).translated(result.config)]


def keep(results: Iterable[ForeignResult]) -> int:
    """Store the fastest for later searches; returns how many. Keeping the same file twice changes nothing."""
    groups: dict[str, list[ForeignResult]] = {}
    for result in results:
        groups.setdefault(canonical([result.kernel, result.device, result.dtype, dict(result.sizes)]), []).append(result)
    fastest = [result for group in groups.values() for result in sorted(group, key=lambda known: known.seconds)[:_KEPT]]
    if fastest:
        text = to_json(fastest)
        replace_file(_folder() / f"{digest(text.decode())[:24]}.json", text)
    return len(fastest)


def starts(workload: Workload, problem: Problem, info: DeviceInfo, count: int = _MOST) -> tuple[Config, ...]:
    """The legal configurations nearest to those of other tuners: first of this device, then of the nearest sizes; those that are fast on
    all devices come first."""
    known = [result for result in _all() if result.dtype in ("", problem.dtype) and workload.translated(result.config)]
    if not known:
        return ()
    space, default = workload.space(problem, info), workload.default(problem, info)
    configs: dict[str, Config] = {}
    for foreign in _ordered(known, problem, info)[:_TRIED]:
        config = nearest(space, default, workload.translated(foreign))
        if config is not None:
            configs.setdefault(canonical(config), config)
        if len(configs) >= max(AMONG, count):
            break
    return spread_out(list(configs.values()), count)


def _ordered(known: Iterable[ForeignResult], problem: Problem, info: DeviceInfo) -> list[Config]:
    """Foreign configurations: of this device, then of the nearest sizes; among equals, those that are fast on all devices first."""
    tiers: dict[tuple[bool, float], dict[str, list[tuple[Config, float]]]] = {}
    for result in sorted(known, key=lambda result: (result.device != info.name, _distance(result, problem), result.seconds)):
        groups = tiers.setdefault((result.device != info.name, _distance(result, problem)), {})
        groups.setdefault(canonical([result.kernel, result.device]), []).append((result.config, result.seconds))
    return [config for groups in tiers.values() for config in agreed(list(groups.values()))]


def agreed(groups: Sequence[Sequence[tuple[Config, float]]]) -> list[Config]:
    """The configurations of several devices with their seconds, each once; those that are fast on all devices come first.

    The order follows the mean, over the groups, of the logarithm of a configuration's time over the group's least time. In a group
    without the configuration, it counts as the slowest. Equal ones alternate between the groups, and a single group stays in the order of
    its times.
    """
    ordered = [sorted(group, key=itemgetter(1)) for group in groups]
    tables = [_over_the_least(group) for group in ordered]
    worst = [max(table.values()) for table in tables]
    by_turns = (known for turn in zip_longest(*ordered) for known in turn if known)
    configs = {canonical(config): config for config, _ in by_turns}

    def loss(key: str) -> float:
        return fmean(table.get(key, slowest) for table, slowest in zip(tables, worst, strict=True))

    return [configs[key] for key in sorted(configs, key=loss)]


def _over_the_least(group: Sequence[tuple[Config, float]]) -> dict[str, float]:
    """The logarithm of each configuration's time over the group's least; the group is in the order of its times."""
    least = max(group[0][1], math.ulp(0.0))
    return {canonical(config): math.log(max(seconds, least) / least) for config, seconds in reversed(group)}


def spread_out(configs: Sequence[Config], count: int) -> tuple[Config, ...]:
    """The first configuration, and those among the next few that differ from it and from one another in most parameters.

    The fastest configurations of another device are similar: if one is slow here, its neighbours are too.
    """
    waiting, chosen = list(configs[: max(AMONG, count)]), list[Config]()
    while waiting and len(chosen) < count:
        apart = [min((sum(one[name] != other.get(name) for name in one) for other in chosen), default=0) for one in waiting]
        chosen.append(waiting.pop(apart.index(max(apart))))
    return tuple(chosen)


def nearest(space: ParameterSpace, default: Config, foreign: Mapping[str, Value]) -> Config | None:
    """A legal configuration with as many of the wanted values as greedy steps from the default reach; None if that is at most half of
    them."""
    config, names = dict(default), [name for name in foreign if name in space.parameters and name in default]
    if not names:
        return None
    for _ in range(2):  # a later change may make legal what was refused before
        for name in names:
            for value in sorted(space.parameters[name], key=lambda value: _value_distance(value, foreign[name])):
                if _value_distance(value, foreign[name]) >= _value_distance(config[name], foreign[name]):
                    break
                if (better := _with(space, config, {name: value})) is not None:
                    config = better
                    break
    candidate = _with(space, config, {name: foreign[name] for name in names})
    config = config if candidate is None else candidate
    met = sum(config.get(name) == foreign[name] for name in names)
    return config if met > _ALIKE * len(foreign) else None


def _with(space: ParameterSpace, config: Config, changes: Config) -> dict[str, Value] | None:
    """The configuration with changes, if that is legal."""
    changed = {**config, **changes}
    try:
        return changed if space.violated(changed) is None else None
    except (SpaceError, ArgumentError, KeyError):
        return None


def _value_distance(value: Value, other: Value) -> float:
    """The distance of two values: in doublings for numbers."""
    if isinstance(value, bool) or isinstance(other, bool) or isinstance(value, str) or isinstance(other, str):
        return float(value != other)
    return abs(math.log2(max(float(value), 0.5)) - math.log2(max(float(other), 0.5)))


def _distance(result: ForeignResult, problem: Problem) -> float:
    """The distance of two sizes in doublings; a little for those that are not known."""
    shared = [(result.sizes[name], size) for name, size in problem.sizes.items() if name in result.sizes]
    return sum(_value_distance(a, b) for a, b in shared) if shared else 1.0


def _known(trial: Trial) -> ForeignResult:
    return ForeignResult(
        trial.problem.workload, trial.device.name, trial.problem.dtype, dict(trial.problem.sizes), trial.config, trial.median
    )


def _all() -> list[ForeignResult]:
    results: list[ForeignResult] = []
    for path in sorted(islice(_folder().glob("*.json"), 100)):
        try:
            results += from_json(path.read_bytes(), list[ForeignResult])
        except (OSError, msgspec.DecodeError):  # written by another version, or damaged: ignored
            continue
    return results


def _folder() -> Path:
    return settings.load().data_dir / "others"


def summary(results: Sequence[ForeignResult]) -> list[tuple[str, str, int]]:
    """Kernel, workloads that understand it, and how many configurations, for each kernel."""
    kernels: dict[str, list[ForeignResult]] = {}
    for result in results:
        kernels.setdefault(result.kernel, []).append(result)
    return [(name, ", ".join(workload.name for workload in understood(group[0])), len(group)) for name, group in kernels.items()]
