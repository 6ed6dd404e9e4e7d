"""The loop between strategy, supervisor and store: spend a budget, keep every trial."""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from portatile import cache, execute, program, select, strategies, workloads
from portatile.errors import CompileError, LaunchError, NoValidVariantError, SpaceError
from portatile.records import Budget, Config, DeviceInfo, Plan, Problem, Source, Status, Trial, canonical
from portatile.space import ParameterSpace
from portatile.store import Query, ResultStore, known_results
from portatile.tuning.arena import Arena
from portatile.tuning.child import Variant
from portatile.tuning.protocol import Case, Evaluated, Part, Timing, thin
from portatile.tuning.supervisor import Limits, Setup, Supervisor
from portatile.workload import Workload

Stopped = Literal["budget", "exhausted", "interrupted"]


@dataclass(frozen=True)
class Request:
    """What to tune, where, and for how long.

    ``device`` is a selector as in ``portatile.device.get``. ``space`` replaces the workload's own space (to sweep one
    parameter, say). ``start`` are configurations to try right after the default. With ``resume`` what the store knows of this
    problem, device, driver and kernel text is not evaluated again; it counts as evaluated. ``jobs``: compile workers,
    ``None`` for as many as the machine can spare, 0 to compile in the timing worker. ``workload`` is for computations that
    have no folder of their own.
    """

    problem: Problem
    device: str | None = None
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    strategy: str = "auto"
    seed: int = 0
    workload: Workload | None = None
    space: ParameterSpace | None = None
    start: tuple[Config, ...] = ()
    resume: bool = True
    jobs: int | None = None
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True)
class Progress:
    """How a tuning run is getting on. ``known`` of the ``evaluations`` came from the store; ``rate`` is trials per second."""

    problem: Problem
    device: DeviceInfo
    best: Trial | None
    last: Trial
    evaluations: int
    known: int
    seconds: float
    seconds_left: float | None
    failures: Mapping[Status, int]
    rate: float


@dataclass(frozen=True)
class Result:
    """What a tuning run found; ``trials`` in the order in which they finished, the default's first."""

    problem: Problem
    device: DeviceInfo
    trials: tuple[Trial, ...]
    best: Trial
    default: Trial
    stopped: Stopped
    seconds: float

    @property
    def failures(self) -> dict[Status, int]:
        """How many trials failed, by kind."""
        return dict(Counter(trial.status for trial in self.trials if trial.status != "ok"))


Listener = Callable[[Progress], None]


def tune(request: Request, store: ResultStore, listen: Listener | None = None) -> Result:
    """Search for the fastest configuration until the budget is spent or there is nothing left to try.

    The default is evaluated first, whatever the budget. Every trial is in ``store`` before the next one is looked at. Ctrl-C ends the run
    as the budget would, if a valid variant was found by then. Raises SpaceError for a space without a legal configuration
    and NoValidVariantError when every variant failed.
    """
    started = time.monotonic()
    strategy = strategies.get(request.strategy)
    with ExitStack() as stack:
        arena = Arena()
        stack.callback(arena.close)
        binaries = stack.enter_context(_cache())
        setup = Setup(request.device, binaries.root, binaries.limit, arena.descriptor, request.limits, request.timing, request.jobs)
        supervisor = stack.enter_context(Supervisor(setup))
        supervisor.begin()
        workload = request.workload or workloads.get(request.problem.workload)
        problems, cases = _cases(workload, request, arena)
        run = _Run(request, strategy, store, listen, supervisor, _Planner(workload, problems, supervisor.info()), started)
        run.check_space()
        supervisor.prepare(cases)
        return run.result(run.search())


def _cases(workload: Workload, request: Request, arena: Arena) -> tuple[list[Problem], tuple[Case, ...]]:
    """The problems that variants are checked on, the timed one last, with operands and reference in the arena."""
    rng = np.random.default_rng([request.seed, 1])
    problems = [*workload.awkward(request.problem), request.problem]
    roles = {operand.name: operand.role for operand in workload.operands}
    cases = []
    for problem in problems:
        inputs = workload.inputs(problem, rng)
        sample = rng if problem is request.problem else None
        expected = {name: arena.put_expected(values) for name, values in workload.reference(problem, inputs, sample).items()}
        operands = {name: arena.put(array) for name, array in inputs.operands.items()}
        label = " ".join(f"{name}={value}" for name, value in problem.sizes.items())
        cases.append(Case(label, operands, {name: roles.get(name, "inout") for name in operands}, inputs.scalars, expected))
    return problems, tuple(cases)


@contextmanager
def _cache() -> Iterator[cache.Cache]:
    """The user's binary cache; where it cannot be written, one that lasts as long as the run: workers pass binaries through it."""
    chosen = cache.default()
    probe = "00" * 16
    chosen.put(probe, b"")
    if chosen.get(probe) is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="portatile-binaries-") as folder:
        yield cache.Cache(Path(folder), chosen.limit)


class _Planner:
    """Runs the workload's own code: plans, bounds and legality."""

    def __init__(self, workload: Workload, problems: Sequence[Problem], info: DeviceInfo) -> None:
        self.workload, self.problems, self.info = workload, problems, info
        self.results = known_results()
        self._spaces: dict[str, ParameterSpace] = {}
        self._called: dict[str, Plan] = {}

    def plan(self, problem: Problem, config: Config) -> Plan:
        """The flat plan of one problem."""
        return execute.flatten(self.workload.plan(problem, config, self.info), self._resolve)

    def variant(self, number: int, config: Config, timed: Plan) -> Variant:
        """A configuration's plans for every case that it is legal for; ``timed`` is the last one's."""
        sources: list[Source] = []
        parts = []
        for case, problem in enumerate(self.problems[:-1]):
            if config in self._space(problem):
                parts.append(Part(case, thin(self.plan(problem, config), sources), self.workload.bound(problem, config)))
        last = len(self.problems) - 1
        parts.append(Part(last, thin(timed, sources), self.workload.bound(self.problems[last], config)))
        return Variant(number, tuple(sources), tuple(parts))

    def _space(self, problem: Problem) -> ParameterSpace:
        if problem.key not in self._spaces:
            self._spaces[problem.key] = self.workload.space(problem, self.info)
        return self._spaces[problem.key]

    def _resolve(self, problem: Problem) -> Plan:
        """The plan of a problem that a plan calls, with the best configuration known for it."""
        if problem.key not in self._called:
            workload = workloads.get(problem.workload)
            config = select.choose(workload, problem, self.info, self.results(problem.workload)).config
            self._called[problem.key] = workload.plan(problem, config, self.info)
        return self._called[problem.key]


@dataclass
class _Run:
    """One call of ``tune``."""

    request: Request
    strategy: strategies.Strategy
    store: ResultStore
    listen: Listener | None
    supervisor: Supervisor
    planner: _Planner
    started: float
    trials: dict[str, Trial] = field(default_factory=dict)
    known: int = 0
    best: Trial | None = None
    waiting: dict[int, tuple[Config, str]] = field(default_factory=dict)
    failures: Counter[Status] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        request, planner = self.request, self.planner
        self.space = request.space or planner.workload.space(request.problem, planner.info)
        self.default = planner.workload.default(request.problem, planner.info)

    def check_space(self) -> None:
        """Raise SpaceError for a space in which there is nothing to search."""
        if self.default not in self.space and next(iter(self.space), None) is None:
            raise SpaceError(
                f"no configuration of {self.request.problem.workload} is legal on {self.planner.info.name}: the space is empty"
            )
        if self.request.space is None and (why := self.space.violated(self.default)):
            raise SpaceError(
                f"the default configuration of {self.request.problem.workload} is not legal on {self.planner.info.name}: it {why}"
            )

    def search(self) -> Stopped:
        """Evaluate until the budget, the space or the user's patience ends."""
        try:
            self._begin(self.default)
            while self.waiting:
                self._collect(60.0)
            return self._explore()
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return "interrupted"

    def result(self, stopped: Stopped) -> Result:
        """The trials so far; raises NoValidVariantError if all of them failed."""
        trials = tuple(self.trials.values())
        if self.best is None:
            raise NoValidVariantError(_despair(trials))
        default = self.trials[canonical(self.default)]
        return Result(self.request.problem, self.planner.info, trials, self.best, default, stopped, time.monotonic() - self.started)

    def _explore(self) -> Stopped:
        """Answer the strategy: begin its wishes, tell it what finished."""
        search = self.strategy(self.space, np.random.default_rng(self.request.seed), self._start())
        told: set[str] = set()
        try:
            self.supervisor.compile_ahead()
            wishes = next(search)
            while not self._spent():
                for wish in wishes:
                    if self._busy():
                        break
                    self._begin(wish)
                if self.waiting and len(told) == len(self.trials):
                    self._collect(self._seconds_left())
                news = {key: trial for key, trial in self.trials.items() if key not in told}
                if not news and not self.waiting:
                    return "exhausted"
                told.update(news)
                wishes = search.send([trial for trial in news.values() if trial.config in self.space])
            return "budget"
        except StopIteration:
            while self.waiting and not self._spent():
                self._collect(self._seconds_left())
            return "exhausted"
        finally:
            search.close()

    def _start(self) -> list[Config]:
        """The default, what the request says, and what is known of similar problems and devices; where it is legal."""
        request, planner = self.request, self.planner
        near = select.choose(planner.workload, request.problem, planner.info, planner.results(request.problem.workload))
        wanted = {canonical(config): config for config in (self.default, *request.start, near.config)}
        return [config for config in wanted.values() if config in self.space]

    def _begin(self, config: Config) -> None:
        """Have a configuration evaluated, unless it is known or under way."""
        key = canonical(config)
        if key in self.trials or any(canonical(other) == key for other, _ in self.waiting.values()):
            return
        try:
            timed = self.planner.plan(self.request.problem, config)
            source = program.source_hash(tuple(execute.sources(timed)))
            if self.request.resume and (known := self._remembered(config, source)) is not None:
                self.known += 1
                self._keep(known)
                return
            self.number += 1
            variant = self.planner.variant(self.number, config, timed)
        except (CompileError, LaunchError) as error:  # the workload itself refuses to generate the variant
            status: Status = "compile" if isinstance(error, CompileError) else "launch"
            self._add(self._trial(config, "", Evaluated(self.number, status, message=str(error))))
            return
        self.waiting[variant.number] = config, source
        self.supervisor.best = None if self.best is None else self.best.median
        self.supervisor.submit(variant)

    def _remembered(self, config: Config, source: str) -> Trial | None:
        info = self.planner.info
        found = self.store.trials(Query(problem=self.request.problem, device=info, driver=info.driver, source=source, config=config))
        return found[-1] if found else None

    def _collect(self, timeout: float) -> None:
        for outcome in self.supervisor.collect(timeout):
            config, source = self.waiting.pop(outcome.number)
            self._add(self._trial(config, source, outcome))

    def _trial(self, config: Config, source: str, outcome: Evaluated) -> Trial:
        return Trial(
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
            time=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _add(self, trial: Trial) -> None:
        self.store.add(trial)
        self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        self.trials[canonical(trial.config)] = trial
        if trial.status != "ok":
            self.failures[trial.status] += 1
        elif self.best is None or trial.median < self.best.median:
            self.best = trial
        if self.listen is not None:
            self.listen(self._progress(trial))

    def _progress(self, last: Trial) -> Progress:
        seconds, count = time.monotonic() - self.started, len(self.trials)
        left = None if self.request.budget.seconds is None else max(self._seconds_left(), 0.0)
        rate = (count - self.known) / seconds if seconds > 0 else 0.0
        info = self.planner.info
        return Progress(self.request.problem, info, self.best, last, count, self.known, seconds, left, dict(self.failures), rate)

    def _seconds_left(self) -> float:
        seconds = self.request.budget.seconds
        return math.inf if seconds is None else self.started + seconds - time.monotonic()

    def _spent(self) -> bool:
        evaluations = self.request.budget.evaluations
        return self._seconds_left() <= 0 or (evaluations is not None and len(self.trials) >= evaluations)

    def _busy(self) -> bool:
        """Whether no further variant should be begun now."""
        evaluations = self.request.budget.evaluations
        enough = evaluations is not None and len(self.trials) + len(self.waiting) >= evaluations
        return enough or len(self.waiting) >= self.supervisor.ahead or self._seconds_left() <= 0


def _despair(trials: Sequence[Trial]) -> str:
    """Counts by kind and the first message of each."""
    lines = [f"all {len(trials)} variants failed"]
    for status, count in Counter(trial.status for trial in trials).items():
        first = next(trial for trial in trials if trial.status == status)
        config = " ".join(f"{name}={value}" for name, value in first.config.items())
        lines.append(f"{status}: {count}, the first ({config}): {first.message}")
    return "\n".join(lines)
