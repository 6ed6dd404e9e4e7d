"""Replay: a strategy spends a simulated budget on trials that were recorded, without a device and without kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from portatile import strategies, workloads
from portatile.errors import ArgumentError, NoValidVariantError, PortatileError
from portatile.formats import bounded_reading, kernel_tuner, portatile_json, t4
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.space import ParameterSpace
from portatile.store import ResultStore, device_key, sqlite
from portatile.trials import Budget, Trial
from portatile.tuning.search.outcomes import Outcomes
from portatile.tuning.search.request import Listener, Stopped, TuningResult
from portatile.workloads import speeds


@dataclass(frozen=True)
class Recording:
    """The trials of one problem on one device, timed in one manner, one for each configuration. A configuration without one is not legal.

    ``left_out`` counts trials whose configuration names other parameters than the rest, as an older version of a kernel does.
    """

    name: str
    trials: tuple[Trial, ...]
    left_out: int = 0

    @property
    def problem(self) -> Problem:
        """The problem of every trial."""
        return self.trials[0].problem

    @property
    def cold(self) -> bool:
        """Whether every trial was timed with operands that no cache held."""
        return self.trials[0].cold

    @property
    def device(self) -> DeviceInfo:
        """The device of every trial."""
        return self.trials[0].device

    def table(self) -> dict[str, Trial]:
        """The trials by their configuration's canonical text."""
        return {canonical(trial.config): trial for trial in self.trials}

    def space(self) -> ParameterSpace:
        """The space that holds exactly what was recorded."""
        return ParameterSpace.from_configs([trial.config for trial in self.trials])

    def default(self) -> Config | None:
        """The workload's default for the problem, where it was recorded."""
        if self.problem.workload not in workloads.names():
            return None
        try:
            config = workloads.get(self.problem.workload).default(self.problem, self.device)
        except (PortatileError, KeyError):  # a problem of another version of the workload
            return None
        return config if canonical(config) in self.table() else None


@dataclass(frozen=True)
class ReplayRequest:
    """The recording and the search to replay. ``budget.seconds`` counts simulated seconds: the recorded times of compiling, checking and
    running.
    """

    recording: Recording
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    strategy: str = "auto"
    seed: int = 0


def cost(trial: Trial) -> float:
    """Seconds that an evaluation took: all its recorded phases, or its runs where only these are known."""
    return math.fsum(trial.seconds.values()) if trial.seconds else math.fsum(trial.samples)


def recordings(path: Path) -> list[Recording]:
    """The recordings in a file: a result store, `portatile results --json` or `tune --json`, T4, or a cache of Kernel Tuner.

    All but the store may be packed by gzip. Raises ArgumentError with the path of what is wrong in it.
    """
    if bounded_reading.begins_with(path, sqlite.MAGIC):
        with ResultStore.reader(path) as store:
            return group(store.trials(), path.stem)
    try:
        document = kernel_tuner.parse(bounded_reading.content(path))
        trials: list[Trial]
        if kernel_tuner.is_one(document):
            trials = kernel_tuner.trials(document)
        elif t4.is_one(document):
            trials = t4.read(document)
        elif portatile_json.is_one(document):
            trials, _ = portatile_json.read(document)
        else:
            known = "a result store, what `portatile results --json` or `tune --json` prints, T4, or a cache of Kernel Tuner"
            raise ArgumentError(f"this holds no trials: it is not {known}")
    except (msgspec.ValidationError, ArgumentError) as error:
        raise ArgumentError(str(error) if str(error).startswith(f"{path} ") else f"{path}: {error}") from None
    return group(trials, path.name.split(".")[0])


def group(trials: Iterable[Trial], name: str) -> list[Recording]:
    """Recordings of trials of any problems and devices, cold ones separate; of a configuration's trials the latest counts.

    A trial that the model rejected was not evaluated: it counts only where there is no other.
    """
    groups: dict[tuple[str, str, bool], dict[str, Trial]] = {}
    for trial in trials:
        known, key = groups.setdefault((trial.problem.key, device_key(trial.device), trial.cold), {}), canonical(trial.config)
        if trial.status != "skipped" or key not in known:
            known[key] = trial
    grouped = []
    for same_device in groups.values():
        first = next(iter(same_device.values()))
        manner = ", cold" if first.cold else ""
        label = (
            name
            if len(groups) == 1
            else f"{first.problem.workload} {speeds.described(first.problem)} {first.problem.dtype} on {first.device.name}{manner}"
        )
        names = Counter(tuple(sorted(trial.config)) for trial in same_device.values()).most_common(1)[0][0]
        comparable = tuple(trial for trial in same_device.values() if tuple(sorted(trial.config)) == names)
        grouped.append(Recording(label, comparable, len(same_device) - len(comparable)))
    return grouped


def run(request: ReplayRequest, listen: Listener | None = None) -> TuningResult:
    """Let the strategy search the recording until the budget is spent or nothing is left; seconds of the result are simulated.

    The workload's default is evaluated first where it was recorded, as in live tuning; elsewhere the result's default is a trial of
    status ``skipped``. Ctrl-C ends it as the budget would. Raises NoValidVariantError if every configuration that was tried had failed.
    """
    if not request.recording.trials:
        raise ArgumentError("there is nothing to replay: the recording is empty")
    table, default = request.recording.table(), request.recording.default()
    space, clock = request.recording.space(), _Clock(request, listen)
    strategy = strategies.get(request.strategy)
    search = strategy(space, np.random.default_rng(request.seed), [] if default is None else [default])
    outcomes = strategies.evaluate(search, lambda config: table[canonical(config)])
    stopped: Stopped = "exhausted"
    first = [] if default is None else [table[canonical(default)]]
    try:
        for trial in chain(first, outcomes):
            assert isinstance(trial, Trial)
            clock.take(trial)
            if clock.spent():
                stopped = "budget"
                break
    except KeyboardInterrupt:
        if clock.outcomes.best is None:
            raise
        stopped = "interrupted"
    return clock.result(stopped, default)


@dataclass
class _Clock:
    """Simulated time: the sum of the recorded durations of what was evaluated."""

    request: ReplayRequest
    listen: Listener | None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        recording = self.request.recording
        self.outcomes = Outcomes(recording.problem, recording.device, lambda trial: trial.median)

    def take(self, trial: Trial) -> None:
        """Count a trial, unless it is counted."""
        if canonical(trial.config) in self.outcomes.trials:
            return
        self.outcomes.add(trial)
        self.seconds += cost(trial)
        if self.listen is not None:
            limit = self.request.budget.seconds
            self.listen(self.outcomes.progress(trial, self.seconds, None if limit is None else limit - self.seconds))

    def spent(self) -> bool:
        """Whether the budget is at its end."""
        budget = self.request.budget
        enough = budget.evaluations is not None and len(self.outcomes.trials) >= budget.evaluations
        return enough or (budget.seconds is not None and self.seconds >= budget.seconds)

    def result(self, stopped: Stopped, default: Config | None) -> TuningResult:
        """The result that a tuning run would give."""
        recording, trials, best = self.request.recording, tuple(self.outcomes.trials.values()), self.outcomes.best
        if best is None:
            counts = ", ".join(f"{count} {status}" for status, count in Counter(trial.status for trial in trials).items())
            raise NoValidVariantError(f"all {len(trials)} configurations that were tried had failed: {counts}")
        if default is not None:
            first = self.outcomes.trials[canonical(default)]
        else:
            first = Trial(recording.problem, {}, recording.device, "", "skipped", message="the recording has no default")
        return TuningResult(recording.problem, recording.device, trials, best, first, stopped, self.seconds)
