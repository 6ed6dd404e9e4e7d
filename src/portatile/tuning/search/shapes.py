"""Many shapes of one workload within one budget: each search starts from the others' results, then the winners run on all shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from portatile import model, workloads
from portatile.errors import ArgumentError, NoValidVariantError
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.space import ParameterSpace
from portatile.store import Query, ResultStore, shipped
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search import held_out, tuner
from portatile.tuning.search.held_out import Regret
from portatile.workload import Workload

Phase = Literal["search", "cross"]
_SEARCH = 0.7  # share of the budget for the searches; the rest is for measuring the winners on the other shapes
_LEAST = 0.2  # seconds below which no further shape is begun


@dataclass(frozen=True)
class ShapesRequest:
    """The problems to tune, of one workload on one device; ``budget`` is for all of them together."""

    problems: tuple[Problem, ...]
    device: str | None = None
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    strategy: str = "auto"
    seed: int = 0
    resume: bool = True


@dataclass(frozen=True)
class ShapeStep:
    """The stage of a run: shape ``number`` of ``total``, searched or measured with the others' winners."""

    phase: Phase
    number: int
    total: int


@dataclass(frozen=True)
class ShapesResult:
    """One tuning result for each shape that was reached, and the regret of every rule with each shape held out.

    ``crossed`` of the ``wanted`` pairs of a winner and another shape were measured, in this run or before.
    """

    results: tuple[tuner.TuningResult, ...]
    unreached: tuple[Problem, ...]
    crossed: int
    wanted: int
    regrets: Mapping[str, Sequence[Regret]]
    seconds: float


Listener = Callable[[ShapeStep, tuner.Progress], None]


def tune(request: ShapesRequest, store: ResultStore, listen: Listener | None = None) -> ShapesResult:
    """Search each shape, near ones one after another, then measure the winners on all shapes, as far as the budget goes.

    Raises ArgumentError for no problems or for problems of several workloads, and what ``tuner.tune`` raises. A shape on which
    every variant fails counts as not reached. Ctrl-C ends the run as the budget would, if a shape was searched by then.
    """
    names = {problem.workload for problem in request.problems}
    if len(names) != 1:
        raise ArgumentError("give one or more shapes of one workload" if not names else f"shapes of several workloads: {sorted(names)}")
    return _Run(request, store, listen, workloads.get(names.pop())).tune()


class _Run:
    """The state of one call of ``tune``."""

    def __init__(self, request: ShapesRequest, store: ResultStore, listen: Listener | None, workload: Workload) -> None:
        self.request, self.store, self.listen, self.workload = request, store, listen, workload
        self.started = time.monotonic()
        self.used = 0  # evaluations that counted against the budget
        self.interrupted = False
        self.results: dict[str, tuner.TuningResult] = {}

    def tune(self) -> ShapesResult:
        """Both phases and the report."""
        problems = _chain(self.workload, self.request.problems)
        for number, problem in enumerate(problems):
            if (budget := self._slice(len(problems) - number, _SEARCH)) is None:
                break
            self._tune_one(problem, ShapeStep("search", number + 1, len(problems)), budget)
        transfers = self._transfers()
        reached = [problem for problem in problems if transfers.get(problem.key)]
        for number, problem in enumerate(reached):
            if (budget := self._slice(len(reached) - number, 1.0)) is None:
                break
            self._tune_one(problem, ShapeStep("cross", number + 1, len(reached)), budget, transfers[problem.key])
        left = sum(map(len, self._transfers().values()))
        pairs = len(self._winners()) * len(self.results)
        unreached = tuple(problem for problem in problems if problem.key not in self.results)
        regrets = self._regrets() if self.results else {}
        return ShapesResult(tuple(self.results.values()), unreached, pairs - left, pairs, regrets, time.monotonic() - self.started)

    def _tune_one(self, problem: Problem, step: ShapeStep, budget: Budget, winners: Sequence[Config] = ()) -> None:
        """Search one shape, or with ``winners`` measure those."""
        request = self.request
        tell = None if self.listen is None else lambda progress: self.listen(step, progress)  # type: ignore[misc]
        search = tuner.TuningRequest(problem, request.device, budget, request.strategy, request.seed, resume=request.resume)
        if winners:
            only = ParameterSpace.from_configs(list(winners))
            timing = Timing(race=0.0)
            search = tuner.TuningRequest(
                problem, request.device, budget, "exhaustive", request.seed, space=only, timing=timing, model=False, warm=0
            )
        try:
            result = tuner.tune(search, self.store, tell)
        except NoValidVariantError:
            self.used += 1
            return
        except KeyboardInterrupt:
            if not self.results:
                raise
            self.interrupted = True
            return
        self.used += len(result.trials) - result.saved.get(model.ON_PAPER, 0)  # a rejection on paper costs next to nothing
        self.interrupted = self.interrupted or result.stopped == "interrupted"
        known = self.results.get(problem.key)
        if known is not None:  # another shape's winner may have been faster than the search's
            trials = {canonical(trial.config): trial for trial in (*known.trials, *result.trials)}
            trials |= {canonical(trial.config): trial for trial in known.trials if trial.status != "skipped"}
            result = replace(known, trials=tuple(trials.values()), best=min(known.best, result.best, key=lambda trial: trial.rank))
        self.results[problem.key] = result

    def _slice(self, shapes: int, share: float) -> Budget | None:
        """The budget of the next of ``shapes`` shapes, from this ``share`` of the whole; None if nothing is left.

        Of few evaluations each shape gets one, as long as there are any.
        """
        budget = self.request.budget
        seconds = evaluations = None
        if budget.seconds is not None:
            seconds = (self.started + share * budget.seconds - time.monotonic()) / shapes
        if budget.evaluations is not None:
            left = budget.evaluations - self.used
            evaluations = max(int(share * budget.evaluations - self.used) // shapes, min(left, 1))
        if self.interrupted or (seconds is not None and seconds < _LEAST) or (evaluations is not None and evaluations < 1):
            return None
        return Budget(seconds, evaluations)

    def _winners(self) -> list[Config]:
        return list({canonical(result.best.config): result.best.config for result in self.results.values()}.values())

    def _transfers(self) -> dict[str, list[Config]]:
        """The winners that are legal for a shape and were not tried on it, for each shape."""
        transfers: dict[str, list[Config]] = {}
        for key, result in self.results.items():
            space = self.workload.space(result.problem, result.device)
            tried = {canonical(trial.config) for trial in result.trials if trial.status != "skipped"}
            missing = [config for config in self._winners() if canonical(config) not in tried and config in space]
            transfers[key] = missing
        return transfers

    def _regrets(self) -> dict[str, list[Regret]]:
        info = next(iter(self.results.values())).device
        return regrets(self.workload, self.store, info, {result.problem.key for result in self.results.values()})


def regrets(workload: Workload, store: ResultStore, device: DeviceInfo, problems: set[str] | None = None) -> dict[str, list[Regret]]:
    """The regrets of every rule on a store's measurements on a device, for ``problems`` (their keys) or for all."""
    known = [*store.for_prediction(workload.name), *shipped(workload.name)]
    measured = store.trials(Query(workload=workload.name, device=device, status="ok"))
    chosen = [trial for trial in measured if problems is None or trial.problem.key in problems]
    return {name: held_out.regrets(workload, device, known, chosen, rule) for name, rule in held_out.RULES.items()}


def _chain(workload: Workload, problems: Sequence[Problem]) -> list[Problem]:
    """The problems ordered so that each is near the one before: from the largest, always to the nearest that is left."""
    left = sorted({problem.key: problem for problem in problems}.values(), key=workload.flops)
    ordered = [left.pop()]
    while left:
        nearest = min(left, key=lambda problem: workload.distance(ordered[-1], problem))
        left.remove(nearest)
        ordered.append(nearest)
    return ordered
