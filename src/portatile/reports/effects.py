"""The effect of each parameter on the time: the distribution for every value, and the share of the variance that it explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from portatile.records import Value
from portatile.reports.groups import Group, varying
from portatile.trials import Trial


@dataclass(frozen=True)
class ValueEffect:
    """The times in ascending seconds of the valid configurations with one value of a parameter, and how many of its trials failed."""

    value: Value
    times: tuple[float, ...]
    failed: int

    @property
    def median(self) -> float:
        """Seconds."""
        return median(self.times)

    def quantile(self, share: float) -> float:
        """The time below which ``share`` of the configurations lie, between neighbours in proportion."""
        place = share * (len(self.times) - 1)
        low = math.floor(place)
        high = min(low + 1, len(self.times) - 1)
        return self.times[low] + (place - low) * (self.times[high] - self.times[low])


@dataclass(frozen=True)
class Effect:
    """One parameter. ``share`` of the variance of log(time) that it explains alone; None if there are too few trials to say."""

    name: str
    share: float | None
    values: tuple[ValueEffect, ...]


def effects(group: Group) -> list[Effect]:
    """The parameters that took more than one value in valid trials, the most important first."""
    measured = [_effect(name, group) for name in varying(group.ranked)] if len(group.ranked) > 1 else []
    return sorted(measured, key=lambda effect: -1.0 if effect.share is None else effect.share, reverse=True)


def explained(samples: Sequence[Sequence[float]]) -> float | None:
    """Epsilon squared of a one-way analysis of variance: the share of the variance that the grouping explains, less its expected share by
    chance. None without variance, or if every group has one member.
    """
    groups = [group for group in samples if group]
    total = sum(map(len, groups))
    inside = total - len(groups)
    if inside <= 0 or len(groups) < 2:
        return None
    mean = fmean(x for group in groups for x in group)
    variance = math.fsum((x - mean) ** 2 for group in groups for x in group)
    within = math.fsum((x - fmean(group)) ** 2 for group in groups for x in group)
    if variance <= 0:
        return None
    return max(0.0, (variance - within - (len(groups) - 1) * within / inside) / variance)


def _effect(name: str, group: Group) -> Effect:
    times: dict[str, list[float]] = {}
    values: dict[str, Value] = {}
    for trial in group.ranked:
        if name in trial.config:
            values[repr(trial.config[name])] = trial.config[name]
            times.setdefault(repr(trial.config[name]), []).append(trial.comparable)
    failed = [repr(trial.config.get(name)) for trial in _failures(group)]
    of_values = [ValueEffect(values[key], tuple(sorted(seconds)), failed.count(key)) for key, seconds in times.items()]
    of_values.sort(key=lambda effect: (isinstance(effect.value, str), effect.value))
    return Effect(name, explained([[math.log(time) for time in seconds] for seconds in times.values()]), tuple(of_values))


def _failures(group: Group) -> list[Trial]:
    return [trial for trial in group.trials if trial.status != "ok"]
