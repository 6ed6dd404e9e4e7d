"""Convergence curves and scores of search strategies, from several replays of a recording by each.

The figures, of the median over repetitions where nothing else is said:

- ``curve``: the share of the optimum that the best configuration so far reaches (1 = the fastest recorded), with the 10th and 90th
percentile. Failures, and the time before the first valid trial, count as 0.
- ``to_95``, ``to_98``: evaluations until that share is 0.95 and 0.98; None if half of the repetitions do not get there.
- ``score``: P, the mean over the budget's evaluations m of (R(m) - y(m)) / (R(m) - optimum), mean over repetitions. y is the best time so
  far, at most the median of all valid times; R is the exact expectation of y for draws without repetition from all
  configurations, failing ones included. 0 is as good as chance, 1 the optimum at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from portatile import strategies
from portatile.errors import ArgumentError
from portatile.records import Config, canonical
from portatile.trials import Budget, Trial
from portatile.tuning.search.replay import Recording, cost

Vector = NDArray[np.float64]

FRACTIONS = (0.1, 0.2, 0.5, 1.0)
_CUTOFF, _LEAST, _MOST = 0.95, 100, 1000
_GRID = 200  # places of a curve over time


@dataclass(frozen=True)
class StrategiesRequest:
    """What to compare. Default of ``budget``: the evaluations in which random search covers 95 % from median to optimum, 100 to 1000.

    ``suggested`` are configurations of the recording that are tried beside every strategy's own; see ``strategies.with_suggestions``.
    """

    recording: Recording
    strategies: tuple[str, ...]
    repeats: int = 10
    budget: Budget | None = None
    seed: int = 0
    suggested: tuple[Config, ...] = ()


@dataclass(frozen=True)
class Curve:
    """The curve of one strategy. ``middle``, ``low`` and ``high`` belong to ``Comparison.places``.

    ``shares`` are those of ``middle`` after each of FRACTIONS of the budget; ``thinking`` is the strategy's own seconds per proposal.
    """

    strategy: str
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    shares: tuple[float, ...]
    to_95: float | None
    to_98: float | None
    score: float | None
    thinking: float


@dataclass(frozen=True)
class Comparison:
    """Curves over ``places``, evaluations or simulated ``seconds`` up to ``budget``; ``optimum`` in seconds per run."""

    name: str
    unit: str
    budget: float
    places: tuple[float, ...]
    optimum: float
    configurations: int
    failing: int
    repeats: int
    curves: tuple[Curve, ...]


@dataclass
class _Run:
    """One repetition: times and costs in the order of evaluation, and the strategy's own seconds."""

    times: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    thinking: float = 0.0


def compare(request: StrategiesRequest, done: Callable[[], None] | None = None) -> Comparison:
    """Replay every strategy; ``done`` is called after each repetition. Raises ArgumentError if nothing recorded is valid."""
    space = Landscape.of(request.recording)
    for name in request.strategies:
        strategies.get(name)  # a wrong name is a mistake before anything has run
    budget = request.budget or Budget(evaluations=space.budget())
    by_time = budget.evaluations is None
    limit = min(budget.evaluations or space.size, space.size)
    places = np.linspace(0, budget.seconds or 0.0, _GRID + 1)[1:] if by_time else np.arange(1.0, limit + 1)
    curves = []
    for name in request.strategies:
        runs = []
        for repeat in range(request.repeats):
            runs.append(_replay(request, name, repeat, limit, budget.seconds))
            if done is not None:
                done()
        curves.append(_curve(name, runs, places, space, by_time))
    unit = "seconds" if by_time else "evaluations"
    return Comparison(
        request.recording.name,
        unit,
        float(places[-1]),
        tuple(places.tolist()),
        space.optimum,
        space.size,
        space.size - len(space.valid),
        request.repeats,
        tuple(curves),
    )


def to_share(request: StrategiesRequest, share: float) -> list[int | None]:
    """The evaluations that each repetition of the first strategy takes to that share of the optimum; None if it does not reach it."""
    space = Landscape.of(request.recording)
    budget = request.budget or Budget(evaluations=space.budget())
    limit = min(budget.evaluations or space.size, space.size)
    counts = []
    for repeat in range(request.repeats):
        run = _replay(request, request.strategies[0], repeat, limit, budget.seconds)
        first = _first(space.optimum / np.minimum.accumulate(run.times), share)
        counts.append(int(first) if math.isfinite(first) else None)
    return counts


@dataclass(frozen=True)
class Landscape:
    """The valid times of a recording in ascending order, and the expected result of random search."""

    valid: Vector
    size: int

    @classmethod
    def of(cls, recording: Recording) -> Landscape:
        """Made from a recording; raises ArgumentError without a valid trial."""
        times = np.sort([trial.comparable for trial in recording.trials if math.isfinite(trial.comparable)])
        if not len(times):
            raise ArgumentError(f"{recording.name}: none of its {len(recording.trials)} configurations was valid")
        return cls(times, len(recording.trials))

    @property
    def optimum(self) -> float:
        """The fastest time."""
        return float(self.valid[0])

    @property
    def median(self) -> float:
        """The median of the valid times."""
        return float(np.median(self.valid))

    def chance(self, count: int) -> Vector:
        """The expected best time, at most the median, after 1 to ``count`` draws without repetition from all configurations.

        With k configurations better than a level, none of them is among m draws with probability
        prod_{j<m} (n - k - j) / (n - j); the expectation sums the levels' distances times these.
        """
        fast = self.valid[self.valid < self.median]
        levels = np.diff(np.append(fast, self.median))
        better = np.arange(1.0, len(fast) + 1)
        missed, expected = np.ones(len(fast)), np.empty(count)
        for draw in range(count):
            missed = missed * np.clip((self.size - better - draw) / (self.size - draw), 0.0, None)
            expected[draw] = self.optimum + float(levels @ missed)
        return expected

    def budget(self) -> int:
        """The draws after which random search has covered 95 % of the way from the median to the optimum; 100 to 1000."""
        goal = self.optimum + (1 - _CUTOFF) * (self.median - self.optimum)
        reached = np.nonzero(self.chance(min(_MOST, self.size)) <= goal)[0]
        return min(max(int(reached[0]) + 1 if len(reached) else _MOST, _LEAST), _MOST, self.size)


def _replay(request: StrategiesRequest, name: str, repeat: int, limit: int, seconds: float | None) -> _Run:
    recording, result = request.recording, _Run()
    table, default = recording.table(), recording.default()
    started = time.perf_counter()
    rng = np.random.default_rng([request.seed, repeat])
    search = strategies.get(name)(recording.space(), rng, [] if default is None else [default])
    search = strategies.with_suggestions(search, request.suggested) if request.suggested else search
    spent = 0.0
    for trial in strategies.evaluate(search, lambda config: table[canonical(config)]):
        assert isinstance(trial, Trial)
        result.times.append(trial.comparable)
        result.costs.append(cost(trial))
        spent += result.costs[-1]
        if len(result.times) >= limit or (seconds is not None and spent >= seconds):
            break
    result.thinking = (time.perf_counter() - started) / max(len(result.times), 1)
    return result


def _curve(name: str, runs: Sequence[_Run], places: Vector, space: Landscape, by_time: bool) -> Curve:
    bests = [np.append(np.inf, np.minimum.accumulate(run.times)) for run in runs]  # after 0, 1, ... evaluations
    evaluated = [np.searchsorted(np.cumsum(run.costs), places, side="right") if by_time else places.astype(int) for run in runs]
    reached = np.array([best[np.minimum(count, len(best) - 1)] for best, count in zip(bests, evaluated, strict=True)])
    shares = space.optimum / reached
    low, middle, high = np.percentile(shares, [10, 50, 90], axis=0)
    at = [max(round(fraction * len(places)), 1) - 1 for fraction in FRACTIONS]
    firsts = {goal: [_first(space.optimum / best[1:], goal) for best in bests] for goal in (0.95, 0.98)}
    score = None
    if not by_time:
        chance = space.chance(len(places))
        able = chance > space.optimum  # nothing can be gained once random search has certainly found the optimum
        gained = (chance - np.minimum(reached, space.median))[:, able] / (chance - space.optimum)[able]
        score = float(gained.mean()) if able.any() else None
    thinking = float(np.median([run.thinking for run in runs]))
    return Curve(
        name,
        tuple(middle.tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
        tuple(middle[at].tolist()),
        _middle(firsts[0.95]),
        _middle(firsts[0.98]),
        score,
        thinking,
    )


def _first(shares: Vector, goal: float) -> float:
    """The number of evaluations after which the goal is reached."""
    reached = np.nonzero(shares >= goal)[0]
    return float(reached[0] + 1) if len(reached) else math.inf


def _middle(counts: Sequence[float]) -> float | None:
    """The median; None if it is infinite."""
    ordered = sorted(counts)
    middle = ordered[len(ordered) // 2] if len(ordered) % 2 else (ordered[len(ordered) // 2 - 1] + ordered[len(ordered) // 2]) / 2
    return middle if math.isfinite(middle) else None
