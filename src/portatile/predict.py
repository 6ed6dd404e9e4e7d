"""Predicts the time of configurations tuned for other problems: their relative speed on near problems, corrected for wasted work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.trials import Trial
from portatile.workload import Workload

_FADES = 1.0  # a measurement has the weight exp(-_FADES * distance): half at two thirds of a doubling
_DOUBT = 0.02  # the weight of the guess below, relative to 1 for a measurement at distance 0
_GUESS = math.log(1.5)  # the guess: how much slower than the best (a logarithm) an unmeasured configuration is assumed to be
_MISSED = 0.3  # the weight of the same guess for a problem on which only others were measured: it may have been skipped there as too slow
_DEFAULT_FADES = 0.5  # results about defaults transfer over larger distances, because defaults adapt to the shape
_INSTANT = 1e-12  # seconds, in place of times that a coarse clock measures as 0
SURER = math.log(1.1)
"""By how much (a logarithm) a measured configuration may be predicted to be slower than the default and still be preferred."""


@dataclass(frozen=True)
class Candidate:
    """A configuration, its predicted slowness relative to the best (a logarithm), and its nearest trial, ``distance`` away."""

    config: Config
    slowness: float
    distance: float
    trial: Trial


class Prediction:
    """A prediction for a problem from valid trials ``near`` it (distance and trial).

    The slowness of a configuration on a problem is the logarithm of its time over that of the problem's fastest one, both without the
    factor ``Workload.waste`` (partial tiles, a last wave of groups). On a problem without trials the prediction is the mean of the slowness
    on other problems, weighted by nearness, with a guess for pairs that were not measured. If another device measured this same problem
    through the same back end, its slowness there is used.
    """

    def __init__(self, workload: Workload, problem: Problem, device: DeviceInfo, near: Iterable[tuple[float, Trial]]) -> None:
        self.workload, self.problem, self.device = workload, problem, device
        self._rows = sorted(near, key=lambda row: (row[0], row[1].rank))
        self._fastest: dict[str, Trial] = {}
        self._distance: dict[str, float] = {}
        for distance, trial in self._rows:
            key = trial.problem.key
            self._distance.setdefault(key, distance)
            if key not in self._fastest or trial.rank < self._fastest[key].rank:
                self._fastest[key] = trial
        self._nearness = {key: math.exp(-_FADES * distance) for key, distance in self._distance.items()}
        self._base = {key: self._bare(trial) for key, trial in self._fastest.items()}
        here = (trial for _, trial in self._rows if self._answers(trial))
        usual = _default(workload, problem, device)
        self._default_here = next((trial for trial in here if canonical(trial.config) == usual), None)

    def candidates(self) -> list[Candidate]:
        """The configurations by predicted slowness, the fastest first; equal ones by distance, then by time."""
        by_config: dict[str, list[Trial]] = {}
        for _, trial in self._rows:
            by_config.setdefault(canonical(trial.config), []).append(trial)
        return sorted(map(self._candidate, by_config.values()), key=lambda candidate: candidate.slowness)

    def default(self) -> float:
        """The expected logarithm of the default's time over the best. It follows from the measured defaults of other problems, a guess
        where they were not measured, and the work that this problem's default wastes.
        """
        wasted = self._waste(self.problem, self.workload.default(self.problem, self.device))
        if self._default_here is not None:
            return self._standing(self._default_here) + wasted
        trials = {(trial.problem.key, canonical(trial.config)): trial for _, trial in self._rows}
        guess = math.log(self.workload.loss(self.problem, self.device))
        weight, total = _DOUBT, _DOUBT * guess
        for key, best in self._fastest.items():
            trial = trials.get((key, _default(self.workload, best.problem, self.device)))
            share = math.exp(-_DEFAULT_FADES * self._distance[key])
            weight += share
            total += share * (guess if trial is None else self._standing(trial))
        return total / weight + wasted

    def slack(self) -> float:
        """The logarithm of the factor by which a configuration may be predicted to be slower than the default and still be preferred.

        Below 0 if the workload trusts its default so much that the other must be predicted to be faster; 0 if both were measured on this
        same problem.
        """
        if self._default_here is not None:
            return 0.0
        return min(SURER, math.log(self.workload.loss(self.problem, self.device)) - SURER)

    def _candidate(self, measured: Sequence[Trial]) -> Candidate:
        nearest = measured[0]
        wasted = self._waste(self.problem, nearest.config)
        if self._answers(nearest):
            return Candidate(nearest.config, self._standing(nearest) + wasted, 0.0, nearest)
        there = {trial.problem.key for trial in measured}
        weight = _DOUBT + _MISSED * sum(share for key, share in self._nearness.items() if key not in there)
        total = weight * _GUESS
        for trial in measured:
            share = self._nearness[trial.problem.key]
            weight += share
            total += share * self._standing(trial)
        return Candidate(nearest.config, total / weight + wasted, self._distance[nearest.problem.key], nearest)

    def _answers(self, trial: Trial) -> bool:
        return trial.problem.key == self.problem.key and trial.device.backend == self.device.backend

    def _standing(self, trial: Trial) -> float:
        return self._bare(trial) - self._base[trial.problem.key]

    def _bare(self, trial: Trial) -> float:
        """The logarithm of the time without the wasted part."""
        return math.log(max(trial.rank, _INSTANT)) - self._waste(trial.problem, trial.config)

    def _waste(self, problem: Problem, config: Config) -> float:
        return math.log(self.workload.waste(problem, config, self.device))


_defaults: WeakKeyDictionary[Workload, dict[tuple[str, DeviceInfo], str]] = WeakKeyDictionary()


def _default(workload: Workload, problem: Problem, device: DeviceInfo) -> str:
    """A workload's default as canonical text; cached, because it is needed for every near problem."""
    known, key = _defaults.setdefault(workload, {}), (problem.key, device)
    if key not in known:
        known[key] = canonical(workload.default(problem, device))
    return known[key]
