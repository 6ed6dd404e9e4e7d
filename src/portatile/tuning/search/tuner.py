"""The search loop between strategy, supervisor and store: it spends a budget and stores every trial."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from portatile import device, flat_plans, model, program, strategies, workloads
from portatile.errors import ArgumentError, CompileError, DeviceError, LaunchError, PortatileError, SpaceError
from portatile.model import Screen
from portatile.records import Config, DeviceInfo, Plan, canonical
from portatile.space import deadline
from portatile.space.deadline import OverdueError
from portatile.store import Query, ResultStore
from portatile.trials import Status, Trial, now
from portatile.tuning.final import ranking, reserved_time
from portatile.tuning.final.comparison import FinalComparison
from portatile.tuning.protocol import Evaluated
from portatile.tuning.search import deferred_checks, first_configs, objective, planner
from portatile.tuning.search.background import in_background
from portatile.tuning.search.concurrent_searches import ConcurrentSearches
from portatile.tuning.search.cooperation import Participant, alone
from portatile.tuning.search.deferred_checks import PendingVariant
from portatile.tuning.search.objective import Goal
from portatile.tuning.search.outcomes import Outcomes
from portatile.tuning.search.planner import Planner, PreparedSearch
from portatile.tuning.search.request import Listener, Progress, Stopped, TuningRequest, TuningResult
from portatile.tuning.search.spending import Spending
from portatile.tuning.search.stored_trials import replaces_evaluation
from portatile.tuning.search.supervisor import Setup, Supervisor

__all__ = ["Listener", "Progress", "Stopped", "TuningRequest", "TuningResult", "tune"]

_SEEKING = 2.0  # seconds that the first legal configuration may be looked for, however small the budget


def tune(
    request: TuningRequest,
    store: ResultStore,
    listen: Listener | None = None,
    prepared: PreparedSearch | None = None,
    info: DeviceInfo | None = None,
    cooperation: Participant | None = None,
) -> TuningResult:
    """Search for the fastest configuration until the budget is spent or the space is exhausted.

    The default is evaluated first, whatever the budget. Every trial is stored before the next one is considered. At the end comes the
    final comparison: the fastest few are checked again and timed in turns. Of equals the winner has the fewest registers, then the
    least workspace, then the smallest canonical text. Ctrl-C ends the run without a final comparison, if a valid variant was found.
    ``prepared`` are the cases, where other searches use them too; ``info`` the device, where it is known: the first texts are compiled
    while it is opened. ``cooperation``: what is shared with searches on other devices of its kind.
    Raises SpaceError for a space without a legal configuration and NoValidVariantError when every variant failed.
    """
    started = time.monotonic()
    device.check(request.device)
    if request.objective == "energy" and not request.timing.power:
        request = replace(request, timing=msgspec.structs.replace(request.timing, power=objective.LOAD))
    strategy = request.strategy if callable(request.strategy) else strategies.get(request.strategy)
    with ExitStack() as stack:
        workload = request.workload or workloads.get(request.problem.workload)
        prepared = prepared or stack.enter_context(PreparedSearch(workload, request.problem, request.seed))
        binaries = stack.enter_context(planner.binaries())
        seconds = request.budget.seconds
        limits = request.limits.within(seconds)
        shared_by_workers = binaries.root, binaries.limit, prepared.arena.descriptor
        setup = Setup(request.device, *shared_by_workers, limits, request.timing, request.jobs, prepared.forks)
        supervisor = stack.enter_context(Supervisor(setup))
        supervisor.begin(info)
        stack.enter_context(deadline.within(None if seconds is None else started + max(seconds, _SEEKING)))
        if info is None:
            prepared.cases()  # while the device is opened
        plans = Planner(workload, prepared.problems(), (), supervisor.info(), prepared.results)
        shared = cooperation or alone()
        supervisor.compile_ahead(shared.once("usual plan", plans.default_plan))
        concurrent = stack.enter_context(ConcurrentSearches(plans.info))
        concurrent.others()
        spending = Spending(request.budget, request.timing.race, started)
        run = _Run(request, strategy, store, listen, supervisor, plans, concurrent, spending, shared)
        run.check_space()
        run.begin(run.default)  # its texts are compiled while the operands are made
        cases = prepared.cases()
        plans.compare(cases)
        supervisor.prepare(cases)
        stopped = run.search()
        with deadline.within(None):
            return run.result(run.race(stopped))


@dataclass
class _Run:
    """The state of one call of ``tune``: ``search``, then ``race``, then ``result``, each followed by its helpers."""

    request: TuningRequest
    strategy: strategies.Strategy
    store: ResultStore
    listen: Listener | None
    supervisor: Supervisor
    planner: Planner
    concurrent: ConcurrentSearches
    spending: Spending
    cooperation: Participant
    waiting: dict[int, PendingVariant] = field(default_factory=dict)  # submitted variants, by number
    finalists: tuple[Trial, ...] = ()
    number: int = 0  # the number of the variant submitted last
    spill_free: bool = False  # whether a valid variant without spills is known
    fastest: list[float] = field(default_factory=list)  # the fastest sample of every valid trial
    unraced: str = ""  # why there was no final comparison
    refusals: tuple[type[PortatileError], ...] = (CompileError, LaunchError)  # errors by which a workload refuses to make a plan

    def __post_init__(self) -> None:
        request, planner = self.request, self.planner
        self.space = request.space or self.cooperation.once("space", partial(planner.workload.space, request.problem, planner.info))
        self.default = planner.workload.default(request.problem, planner.info)
        if request.space is not None:  # its configurations need not be legal
            self.refusals += (ArgumentError,)
        self.goal = Goal(request.objective, planner.info)
        self.outcomes = Outcomes(request.problem, planner.info, self.goal.score)
        self.own_work = {} if request.workload is None else planner.own_work()

    def check_space(self) -> None:
        """Raise SpaceError for an empty space, UsageError for an objective that the device cannot measure."""
        self.goal.check()
        if self.default not in self.space and next(iter(self.space), None) is None:
            raise SpaceError(
                f"no configuration of {self.request.problem.workload} is legal on {self.planner.info.name}: the space is empty"
            )
        if self.request.space is None and (why := self.space.violated(self.default)):
            raise SpaceError(
                f"the default configuration of {self.request.problem.workload} is not legal on {self.planner.info.name}: {why}"
            )

    def search(self) -> Stopped:
        """Evaluate until the budget is spent, the space is exhausted, or the user presses Ctrl-C."""
        try:
            while self.waiting and self.supervisor.alternates:  # compiling others now would delay the default
                self._collect(60.0)
            return self._explore()
        except OverdueError:  # legal configurations are rare; the default was evaluated
            self._await_default()
            return "budget"
        except KeyboardInterrupt:
            if self.outcomes.best is None:
                raise
            return "interrupted"

    def _explore(self) -> Stopped:
        """Serve the strategy: begin what it requests, send it what finished."""
        start = partial(first_configs.start_search, self.strategy, self.request, self.planner, self.space, self.default, self.cooperation)
        search, requested, self.outcomes.warm = in_background(start, self._poll)
        reported: set[str] = set()
        try:
            while not self._spent():
                for config in (*self.cooperation.better_configs(), *requested):
                    if self._spent(len(self.waiting)) or not self.supervisor.needs_work:
                        break
                    self.begin(config)
                    self.supervisor.poll()
                if self.waiting and len(reported) == len(self.outcomes.trials):
                    self._collect(self.spending.seconds_left(), eager=not self._spent(len(self.waiting)) and not self.supervisor.needs_work)
                news = {key: trial for key, trial in self.outcomes.trials.items() if key not in reported}
                if not news and not self.waiting:
                    return "exhausted"
                if not news and not self.supervisor.needs_work:
                    continue  # the deferred checks of a candidate are under way
                reported.update(news)
                requested = search.send([self.goal.as_finished(trial) for trial in news.values() if trial.config in self.space])
            return "budget"
        except StopIteration:
            while self.waiting and not self._spent():
                self._collect(self.spending.seconds_left())
            return "exhausted"
        finally:
            search.close()
            self._await_default()

    def _poll(self) -> None:
        self.supervisor.poll()
        self._collect(0)

    def _spent(self, under_way: int = 0) -> bool:
        """Whether the budget allows no further variant, counting ``under_way`` that have not finished."""
        return self.spending.spent(len(self.outcomes.trials), under_way)

    def _await_default(self) -> None:
        while canonical(self.default) not in self.outcomes.trials and self.waiting:  # whatever the budget
            self._collect(60.0)

    def begin(self, config: Config) -> None:
        """Begin to evaluate a configuration, unless it is known or under way."""
        key = canonical(config)
        if key in self.outcomes.trials or any(canonical(pending.config) == key for pending in self.waiting.values()):
            return
        is_default = key == canonical(self.default)
        try:
            if is_default:
                timed, variant = self.cooperation.once("default", partial(self.planner.planned, config))
            else:
                timed, variant = self.planner.plan(self.request.problem, config), None
            source = program.source_hash(tuple(flat_plans.sources(timed)))
            screened = self.request.model and not is_default
            if self._known_or_rejected(config, source, timed, screened):
                return
            self.number += 1
            variant = variant or self.planner.variant(self.number, config, timed)
        except self.refusals as error:  # the workload itself refuses to generate the variant
            status: Status = "compile" if isinstance(error, CompileError) else "launch"
            self._add(self._trial(config, "", Evaluated(self.number, status, message=str(error))))
            return
        variant = replace(variant, number=self.number, screened=screened)
        now = deferred_checks.needed_to_time(variant) if screened else variant
        self.waiting[variant.number] = PendingVariant(config, source, variant, now)
        self.supervisor.submit(now)

    def _known_or_rejected(self, config: Config, source: str, timed: Plan, screened: bool) -> bool:
        """Whether a configuration needs no evaluation: the store has its trial, or the model rejects it on paper. Keeps that trial."""
        if self.request.resume and (known := self._stored_trial(config, source)) is not None:
            self.outcomes.known += 1
            self._keep(known)
            return True
        if screened and (reason := self.planner.rejects(timed, self._hopeless())) is not None:
            self.spending.on_paper += 1
            self._add(self._trial(config, source, Evaluated(self.number, "skipped", message=f"{model.ON_PAPER}: {reason}")))
            return True
        return False

    def _stored_trial(self, config: Config, source: str) -> Trial | None:
        """The newest trial in the store that replaces an evaluation of the configuration."""
        info = self.planner.info
        stored = self.store.trials(Query(problem=self.request.problem, device=info, driver=info.driver, source=source))
        alone = bool(stored) and not self.concurrent.others()
        for trial in reversed(stored):
            if replaces_evaluation(trial, self.request, self.goal, alone):
                known = replace(trial, config=self.space.complete(trial.config))
                if canonical(known.config) == canonical(config):
                    return known
        return None

    def _collect(self, timeout: float, eager: bool = False) -> None:
        for outcome in self.supervisor.collect(timeout, eager):
            if outcome.number not in self.waiting:
                continue  # it was forgotten when the search ended
            pending = self.waiting.pop(outcome.number)
            if pending.timed is not None:
                self._add(self._trial(pending.config, pending.source, pending.merged(outcome), pending))
                continue
            trial = self._trial(pending.config, pending.source, outcome, pending)
            if trial.status != "ok" or pending.complete or not self._would_be_finalist(trial):
                self._add(trial)
                continue
            self.waiting[outcome.number] = replace(pending, timed=outcome)
            self.supervisor.submit(pending.rest())

    def _would_be_finalist(self, trial: Trial) -> bool:
        """Whether a trial would be a finalist if the search ended now. If not, it never will be, because the field only gets faster."""
        if self.goal.is_time and self.outcomes.best is not None and min(trial.samples) > ranking.NEAR * self.outcomes.best.comparable:
            return False
        faster = sum(self._score(other) <= self._score(trial) for other in self.outcomes.trials.values() if other.status == "ok")
        return faster < ranking.FIELD

    def _score(self, trial: Trial) -> float:
        return trial.comparable if self.goal.is_time else self.goal.score(trial)

    def _trial(self, config: Config, source: str, outcome: Evaluated, pending: PendingVariant | None = None) -> Trial:
        trial = Trial(
            problem=self.request.problem,
            config=dict(config),
            device=self.planner.info,
            source=source,
            status=outcome.status,
            samples=outcome.samples,
            event_samples=outcome.event_samples,
            seconds=outcome.seconds,
            error=outcome.error,
            message=outcome.message,
            resources=outcome.resources,
            time=now(precisely=True),
            conditions={**self.concurrent.with_other_searches(outcome.conditions), **self.own_work},
            cold=self.request.timing.cold,
        )
        if trial.status != "ok" or pending is None:
            return trial
        if (reason := self.planner.too_fast(trial.median, pending.whole.sources)) is not None:
            return replace(trial, status="wrong", message=reason)
        checked, partial = (pending.whole, False) if len(outcome.errors) == len(pending.whole.parts) else (pending.now, True)
        return replace(trial, certificate=self.planner.certificate(checked, outcome.errors, source, partial))

    def _hopeless(self) -> float:
        """Seconds from which a variant is hopeless."""
        give_up = self.request.timing.give_up
        return give_up * self.outcomes.best.median if self.outcomes.best is not None and self.goal.grows_with_time else math.inf

    def _add(self, trial: Trial) -> None:
        self.store.add(trial)
        self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        """Count a trial, and tell the workers, the budget and other searches what follows from it."""
        if self.outcomes.add(trial):
            self.cooperation.report(trial.config, self.goal.score(trial))
        if trial.status == "ok":
            best = self.outcomes.best or trial
            self.spill_free = self.spill_free or model.spills(trial.resources) is False
            self.supervisor.best = best.median if self.goal.grows_with_time else None
            self.supervisor.screen = Screen(self.spill_free)
            self.fastest.append(min(trial.samples))
            self.spending.near = reserved_time.near(self.fastest, best.median)
            self.spending.entering = self.supervisor.loading  # a finalist is checked on operands in memory of its own
        if self.listen is not None:
            self.listen(self._progress(trial))

    def race(self, stopped: Stopped) -> Stopped:
        """Hold the final comparison, if there is some time left."""
        if stopped == "interrupted" or self.outcomes.best is None:
            self.unraced = "the search was interrupted" if len(self.spending.near) > 1 else ""
            return stopped
        race = FinalComparison(
            problem=self.request.problem,
            planner=self.planner,
            supervisor=self.supervisor,
            trials=self.outcomes.trials,
            default=canonical(self.default),
            add=self._replace,
            announce=self._announce,
            seconds=self.spending.race_seconds,
            collect=self._clear,
            goal=self.goal,
            entering=self.spending.entering,
        )
        try:
            self._check_fully([trial for trial in race.field() if not trial.fully_checked])
            self.finalists = race.decide()
            self.unraced = race.unraced if self.request.timing.race > 0 else ""
        except KeyboardInterrupt:
            self.unraced = "the final comparison was interrupted"
            return "interrupted"
        except DeviceError as error:  # the worker ended before it began: the search's result stands
            self.unraced = str(error).splitlines()[0]
            return stopped
        return stopped

    def _check_fully(self, trials: Sequence[Trial]) -> None:
        """Check fully, and time again, candidates that an earlier run checked only in part, if there is some time left."""
        for trial in trials if self.spending.seconds_left() > 0 else ():
            self.number += 1
            variant = self.planner.variant(self.number, trial.config, self.planner.plan(self.request.problem, trial.config))
            self.waiting[self.number] = PendingVariant(trial.config, trial.source, variant, variant)
            self.supervisor.submit(variant)
        while trials and self.waiting and self.spending.seconds_left() > 0:
            self._collect(self.spending.seconds_left())

    def _announce(self, field: Sequence[Trial]) -> None:
        if self.listen is not None:
            self.listen(self._progress(field[0], racing=len(field)))

    def _clear(self) -> None:
        """Collect what has finished; forget the rest."""
        self._collect(0)
        self.waiting.clear()

    def _replace(self, trial: Trial) -> None:
        self.store.add(trial)
        self.outcomes.replace(trial)

    def result(self, stopped: Stopped) -> TuningResult:
        """The trials so far; raises NoValidVariantError if all of them failed."""
        trials = self.outcomes.default_first(self.default)
        valid = [trial for trial in trials if trial.status == "ok"]
        best = min(valid, key=lambda trial: (not trial.fully_checked, trial.rank if self.goal.is_time else self.goal.score(trial)))
        if self.finalists and not self.goal.is_time:  # measurements of the search and of the final comparison are not comparable
            best = self.finalists[0]
        self.concurrent.others()
        return TuningResult(
            problem=self.request.problem,
            device=self.planner.info,
            trials=trials,
            best=best,
            default=trials[0],
            stopped=stopped,
            seconds=self.spending.elapsed,
            finalists=self.finalists,
            warm=self.outcomes.warm,
            unraced=self.unraced,
            others=self.concurrent.most,
        )

    def _progress(self, last: Trial, racing: int = 0) -> Progress:
        left = None if self.request.budget.seconds is None else self.spending.seconds_left()
        evaluations_left = self.spending.evaluations_left(len(self.outcomes.trials))
        return self.outcomes.progress(last, self.spending.elapsed, left, evaluations_left, racing)
