"""The loop between strategy, supervisor and store: spend a budget, keep every trial."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from portatile import device, execute, model, program, select, strategies, workloads
from portatile.errors import CompileError, DeviceError, LaunchError, NoValidVariantError, SpaceError
from portatile.model import Screen
from portatile.records import Config, Plan, Problem, canonical
from portatile.store import Query, ResultStore
from portatile.trials import Status, Trial
from portatile.tuning.final import ranking, reserved_time
from portatile.tuning.final.comparison import FinalComparison
from portatile.tuning.protocol import Evaluated
from portatile.tuning.search import deferred_checks, objective, planner
from portatile.tuning.search.concurrent_searches import OTHER_SEARCHES, ConcurrentSearches
from portatile.tuning.search.deferred_checks import PendingVariant
from portatile.tuning.search.objective import Goal
from portatile.tuning.search.planner import Planner
from portatile.tuning.search.request import Listener, Progress, Stopped, TuningRequest, TuningResult
from portatile.tuning.search.supervisor import Setup, Supervisor
from portatile.tuning.shared_arrays import SharedArrays

__all__ = ["Listener", "Progress", "Stopped", "TuningRequest", "TuningResult", "tune"]

_SHORTEST_RACE = 0.5  # seconds, where the budget counts evaluations
_DRAWN = 64  # configurations that the model ranks
_PAPER = 100  # configurations turned away on paper count as one evaluation: endless ones must end too


def tune(request: TuningRequest, store: ResultStore, listen: Listener | None = None) -> TuningResult:
    """Search for the fastest configuration until the budget is spent or there is nothing left to try.

    The default is evaluated first, whatever the budget. Every trial is in ``store`` before the next one is looked at. At the end the
    fastest few race: checked again and timed in turn, they give the winner, of equals the one of the fewest registers, then the least
    workspace, then the smallest canonical text. Ctrl-C ends the run without a race, if a valid variant was found by then. Raises
    SpaceError for a space without a legal configuration and NoValidVariantError when every variant failed.
    """
    started = time.monotonic()
    objective.check_name(request.objective)
    device.check(request.device)
    if request.objective == "energy" and not request.timing.power:
        request = replace(request, timing=msgspec.structs.replace(request.timing, power=objective.LOAD))
    strategy = strategies.get(request.strategy)
    with ExitStack() as stack:
        arena = SharedArrays()
        stack.callback(arena.close)
        kept = stack.enter_context(planner.binaries())
        limits = request.limits.within(request.budget.seconds)
        setup = Setup(request.device, kept.root, kept.limit, arena.descriptor, limits, request.timing, request.jobs)
        supervisor = stack.enter_context(Supervisor(setup))
        supervisor.begin()
        workload = request.workload or workloads.get(request.problem.workload)
        problems, cases = planner.cases(workload, request.problem, request.seed, arena)
        plans = Planner(workload, problems, cases, supervisor.info())
        supervisor.compile_ahead(_usual(plans, request.problem))
        supervisor.prepare(cases)
        company = stack.enter_context(ConcurrentSearches(plans.info))
        company.others()
        run = _Run(request, strategy, store, listen, supervisor, plans, company, started)
        run.check_space()
        return run.result(run.race(run.search()))


@dataclass
class _Run:
    """One call of ``tune``: ``search``, then ``race``, then ``result``; what each of them needs follows it, the budget comes last."""

    request: TuningRequest
    strategy: strategies.Strategy
    store: ResultStore
    listen: Listener | None
    supervisor: Supervisor
    planner: Planner
    company: ConcurrentSearches
    started: float
    trials: dict[str, Trial] = field(default_factory=dict)  # by canonical configuration, in the order of their ends
    known: int = 0  # trials that the store answered
    best: Trial | None = None
    waiting: dict[int, PendingVariant] = field(default_factory=dict)  # what the supervisor has, by number
    failures: Counter[Status] = field(default_factory=Counter)
    finalists: tuple[Trial, ...] = ()
    number: int = 0  # of the variant that was submitted last
    on_paper: int = 0  # trials that the model turned away
    spill_free: bool = False  # a valid variant without spills is known
    fastest: list[float] = field(default_factory=list)  # the fastest sample of every valid trial
    near: tuple[float, ...] = ()  # what those near the best took: if more than one is, some of the budget is kept back for a race
    unraced: str = ""  # why the nearly equal did not race
    warm: frozenset[str] = frozenset()  # configurations that other problems' results suggested

    def __post_init__(self) -> None:
        request, planner = self.request, self.planner
        self.space = request.space or planner.workload.space(request.problem, planner.info)
        self.default = planner.workload.default(request.problem, planner.info)
        self.goal = Goal(request.objective, planner.info)

    def check_space(self) -> None:
        """Raise SpaceError for a space in which there is nothing to search, UsageError for an objective that the device cannot serve."""
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
        """Evaluate until the budget, the space or the user's patience ends."""
        try:
            self._begin(self.default)
            while self.waiting and self.supervisor.alternates:  # what is compiled meanwhile would keep the default waiting
                self._collect(60.0)
            return self._explore()
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return "interrupted"

    def _explore(self) -> Stopped:
        """Answer the strategy: begin its wishes, tell it what finished."""
        search = self.strategy(self.space, np.random.default_rng(self.request.seed), self._start())
        told: set[str] = set()
        try:
            wishes = next(search)
            while not self._spent():
                for wish in wishes:
                    if self._enough() or not self.supervisor.hungry:
                        break
                    self._begin(wish)
                if self.waiting and len(told) == len(self.trials):
                    self._collect(self._seconds_left(), eager=not self._enough() and not self.supervisor.hungry)
                news = {key: trial for key, trial in self.trials.items() if key not in told}
                if not news and not self.waiting:
                    return "exhausted"
                if not news and not self.supervisor.hungry:
                    continue  # a rival's proof is under way
                told.update(news)
                wishes = search.send([self.goal.told(trial) for trial in news.values() if trial.config in self.space])
            return "budget"
        except StopIteration:
            while self.waiting and not self._spent():
                self._collect(self._seconds_left())
            return "exhausted"
        finally:
            search.close()
            while canonical(self.default) not in self.trials and self.waiting:  # whatever the budget
                self._collect(60.0)

    def _start(self) -> list[Config]:
        """The default, what the request says, and what is known of similar problems and devices; where it is legal."""
        request, planner = self.request, self.planner
        own = {canonical(config): config for config in (self.default, *request.start)}
        known = planner.results(request.problem.workload) if request.warm else ()
        choices = select.candidates(planner.workload, request.problem, planner.info, known, request.warm)
        near = {canonical(choice.config): choice.config for choice in choices if choice.config in self.space}
        self.warm = frozenset(near.keys() - own.keys())
        first = {**own, **near}
        if request.model and request.ranked:
            drawn = self.space.scatter(np.random.default_rng([request.seed, 2]), _DRAWN)
            first |= {canonical(config): config for config in planner.ranked(drawn)[: request.ranked]}
        return [config for config in first.values() if config in self.space]

    def _begin(self, config: Config) -> None:
        """Have a configuration evaluated, unless it is known or under way."""
        key = canonical(config)
        if key in self.trials or any(canonical(pending.config) == key for pending in self.waiting.values()):
            return
        try:
            timed = self.planner.plan(self.request.problem, config)
            source = program.source_hash(tuple(execute.sources(timed)))
            if self.request.resume and (known := self._remembered(config, source)) is not None:
                self.known += 1
                self._keep(known)
                return
            screened = self.request.model and key != canonical(self.default)
            if screened and (reason := self.planner.rejects(timed, self._hopeless())) is not None:
                self.on_paper += 1
                self._add(self._trial(config, source, Evaluated(self.number, "skipped", message=f"{model.ON_PAPER}: {reason}")))
                return
            self.number += 1
            variant = self.planner.variant(self.number, config, timed)
        except (CompileError, LaunchError) as error:  # the workload itself refuses to generate the variant
            status: Status = "compile" if isinstance(error, CompileError) else "launch"
            self._add(self._trial(config, "", Evaluated(self.number, status, message=str(error))))
            return
        variant = replace(variant, screened=screened)
        now = deferred_checks.first_half(variant) if screened else variant
        self.waiting[variant.number] = PendingVariant(config, source, variant, now)
        self.supervisor.submit(now)

    def _remembered(self, config: Config, source: str) -> Trial | None:
        info = self.planner.info
        known = self.store.trials(Query(problem=self.request.problem, device=info, driver=info.driver, source=source))
        found = (replace(trial, config=self.space.complete(trial.config)) for trial in reversed(known) if self._answers(trial))
        return next((trial for trial in found if canonical(trial.config) == canonical(config)), None)

    def _answers(self, trial: Trial) -> bool:
        """Whether a trial says what this run would find out: measured, in the same way and company, with power where that is asked for."""
        if trial.status in ("skipped", *self.request.again) or (OTHER_SEARCHES in trial.conditions and not self.company.others()):
            return False
        return trial.cold == self.request.timing.cold and self.goal.answers(trial)

    def _collect(self, timeout: float, eager: bool = False) -> None:
        for outcome in self.supervisor.collect(timeout, eager):
            if outcome.number not in self.waiting:
                continue  # the search had ended before it
            pending = self.waiting.pop(outcome.number)
            if pending.timed is not None:
                self._add(self._trial(pending.config, pending.source, pending.joined(outcome), pending))
                continue
            trial = self._trial(pending.config, pending.source, outcome, pending)
            if trial.status != "ok" or pending.complete or not self._rivals_now(trial):
                self._add(trial)
                continue
            self.waiting[outcome.number] = replace(pending, timed=outcome)
            self.supervisor.submit(pending.rest())

    def _rivals_now(self, trial: Trial) -> bool:
        """Whether a trial would race if the search ended now. Who is none today is none later, for the others only get faster."""
        if self.goal.is_time and self.best is not None and min(trial.samples) > ranking.NEAR * self.best.comparable:
            return False
        faster = sum(self._score(other) <= self._score(trial) for other in self.trials.values() if other.status == "ok")
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
            time=planner.now(),
            conditions=self.company.noted(outcome.conditions),
            cold=self.request.timing.cold,
        )
        if trial.status != "ok" or pending is None:
            return trial
        if (reason := self.planner.unbelievable(trial.median, pending.whole.sources)) is not None:
            return replace(trial, status="wrong", message=reason)
        checked, partial = (pending.whole, False) if len(outcome.errors) == len(pending.whole.parts) else (pending.now, True)
        return replace(trial, certificate=self.planner.certificate(checked, outcome.errors, source, partial))

    def _hopeless(self) -> float:
        """Seconds from which a variant is not worth anything."""
        give_up = self.request.timing.give_up
        return give_up * self.best.median if self.best is not None and self.goal.grows_with_time else math.inf

    def _add(self, trial: Trial) -> None:
        self.store.add(trial)
        self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        self.trials[canonical(trial.config)] = trial
        if trial.status == "ok":
            self.spill_free = self.spill_free or model.spills(trial.resources) is False
            if self.best is None or self.goal.score(trial) < self.goal.score(self.best):
                self.best = trial
            self.supervisor.best = self.best.median if self.goal.grows_with_time else None
            self.supervisor.screen = Screen(self.spill_free)
            self.fastest.append(min(trial.samples))
            self.near = reserved_time.near(self.fastest, self.best.median)
        elif trial.status != "skipped":
            self.failures[trial.status] += 1
        if self.listen is not None:
            self.listen(self._progress(trial))

    def race(self, stopped: Stopped) -> Stopped:
        """Let the best few run against each other, if there is some time left."""
        if stopped == "interrupted" or self.best is None:
            self.unraced = "the search was interrupted" if len(self.near) > 1 else ""
            return stopped
        problem, default = self.request.problem, canonical(self.default)
        tell, seconds, collect = self._announce, self._race_seconds, self._clear
        race = FinalComparison(
            problem, self.planner, self.supervisor, self.trials, default, self._replace, tell, seconds, collect, self.goal
        )
        try:
            self._prove([trial for trial in race.field() if not trial.proven])
            self.finalists = race.decide()
            self.unraced = race.unraced if self.request.timing.race > 0 else ""
        except KeyboardInterrupt:
            self.unraced = "the race was interrupted"
            return "interrupted"
        except DeviceError as error:  # the worker ends before it begins: what the search found stands
            self.unraced = str(error).splitlines()[0]
            return stopped
        return stopped

    def _prove(self, trials: Sequence[Trial]) -> None:
        """Check and time anew what was no rival in an earlier run and is one in this, if there is some time left."""
        for trial in trials if self._seconds_left() > 0 else ():
            self.number += 1
            whole = self.planner.variant(self.number, trial.config, self.planner.plan(self.request.problem, trial.config))
            self.waiting[self.number] = PendingVariant(trial.config, trial.source, whole, whole)
            self.supervisor.submit(whole)
        while trials and self.waiting and self._seconds_left() > 0:
            self._collect(self._seconds_left())

    def _race_seconds(self) -> float:
        """What a race may take: what the budget keeps back, or a tenth of what the search took."""
        most = self.request.timing.race
        longest = reserved_time.wanted(self.near, most)
        if self.request.budget.seconds is not None:
            return min(longest, self._seconds_left(race=True))
        spent = time.monotonic() - self.started
        return min(
            longest, max(_SHORTEST_RACE, 0.1 * spent, min(reserved_time.rounds(self.near, ranking.LOOKS[0]), reserved_time.MOST * spent))
        )

    def _announce(self, field: Sequence[Trial]) -> None:
        if self.listen is not None:
            self.listen(replace(self._progress(field[0]), racing=len(field)))

    def _clear(self) -> None:
        """Take in what was finished; what was not is forgotten."""
        self._collect(0)
        self.waiting.clear()

    def _replace(self, trial: Trial) -> None:
        """Store what came of a race in place of the earlier trial; not an evaluation of its own."""
        self.store.add(trial)
        self.trials[canonical(trial.config)] = trial

    def result(self, stopped: Stopped) -> TuningResult:
        """The trials so far; raises NoValidVariantError if all of them failed."""
        default = self.trials[canonical(self.default)]
        trials = (default, *(trial for trial in self.trials.values() if trial is not default))  # what is on paper may be answered sooner
        valid = [trial for trial in trials if trial.status == "ok"]
        if not valid:
            raise NoValidVariantError(_despair(trials))
        best = min(valid, key=lambda trial: (not trial.proven, trial.rank if self.goal.is_time else self.goal.score(trial)))
        if self.finalists and not self.goal.is_time:  # times of the race and of the search are not to be compared
            best = self.finalists[0]
        seconds = time.monotonic() - self.started
        problem, info = self.request.problem, self.planner.info
        self.company.others()
        others = self.company.most
        return TuningResult(problem, info, trials, best, default, stopped, seconds, self.finalists, self.warm, self.unraced, others)

    def _progress(self, last: Trial) -> Progress:
        seconds, count = time.monotonic() - self.started, len(self.trials)
        left = None if self.request.budget.seconds is None else max(self._seconds_left(), 0.0)
        rate = (count - self.known) / seconds if seconds > 0 else 0.0
        info = self.planner.info
        warm, failures = len(self.warm & self.trials.keys()), dict(self.failures)
        most = self.request.budget.evaluations
        trials = None if most is None else max(most - self._evaluated(), 0)
        return Progress(self.request.problem, info, self.best, last, count, self.known, seconds, left, failures, rate, 0, warm, trials)

    def _seconds_left(self, race: bool = False) -> float:
        """What is left of the budget; for the search less what is kept back for the race."""
        seconds = self.request.budget.seconds
        if seconds is None:
            return math.inf
        kept = reserved_time.kept(seconds, self.near, self.request.timing.race) if len(self.near) > 1 and not race else 0.0
        return self.started + seconds - kept - time.monotonic()

    def _evaluated(self) -> int:
        """What counts against a budget of evaluations."""
        return len(self.trials) - self.on_paper + self.on_paper // _PAPER

    def _spent(self) -> bool:
        evaluations = self.request.budget.evaluations
        return self._seconds_left() <= 0 or (evaluations is not None and self._evaluated() >= evaluations)

    def _enough(self) -> bool:
        """Whether the budget allows for no further variant."""
        evaluations = self.request.budget.evaluations
        return (evaluations is not None and self._evaluated() + len(self.waiting) >= evaluations) or self._seconds_left() <= 0


def _usual(plans: Planner, problem: Problem) -> Plan:
    """The default's plan; without steps where the workload refuses it, which its trial will say."""
    try:
        return plans.plan(problem, plans.workload.default(problem, plans.info))
    except (CompileError, LaunchError):
        return Plan(())


def _despair(trials: Sequence[Trial]) -> str:
    """Counts by kind and the first message of each."""
    lines = [f"all {len(trials)} variants failed" if len(trials) != 1 else "the only variant that was tried failed"]
    for status, count in Counter(trial.status for trial in trials).items():
        first = next(trial for trial in trials if trial.status == status)
        config = " ".join(f"{name}={value}" for name, value in first.config.items())
        lines.append(f"{status}: {count}, the first ({config}): {first.message}")
    return "\n".join(lines)
