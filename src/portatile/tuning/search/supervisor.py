"""The supervisor of the workers: it compiles ahead, enforces deadlines, restarts workers after a crash and leaves none running."""

from __future__ import annotations

import math
import selectors
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from portatile import errors
from portatile.errors import DeviceError, PortatileError
from portatile.model import Screen
from portatile.records import DeviceInfo, Launch, Plan, Source
from portatile.trials import Status
from portatile.tuning import protocol
from portatile.tuning.protocol import (
    Build,
    Built,
    Case,
    Cases,
    CasesLoaded,
    DeviceOpened,
    DeviceRefused,
    Evaluate,
    Evaluated,
    FinalistsTimed,
    Open,
    PhaseEntered,
    Race,
    Reply,
)
from portatile.tuning.search import compile_workers, external_failures
from portatile.tuning.search.backlog import Backlog
from portatile.tuning.search.deadlines import Deadlines, PhaseLimits
from portatile.tuning.search.external_failures import WakingTime
from portatile.tuning.search.worker_failure import WorkerFailure
from portatile.tuning.search.worker_forks import WorkerForks
from portatile.tuning.search.worker_process import Variant, WorkerEnded, WorkerProcess

_RESTARTS = 3  # workers in a row that die before they have opened the device
_RACE, _SOURCE = -1, -2  # stand in place of a variant's number while a worker holds the final comparison, or compiles a text
_QUEUED = 2  # variants that may wait for the device, and texts for a compiler. More would be chosen before earlier results are known


@dataclass(frozen=True)
class Setup:
    """The setup that every worker of a run receives. ``jobs``: number of compile workers, None for as many as the cores allow.

    ``forks`` may fork these.
    """

    selector: str | None
    cache: Path
    cache_limit: int
    arena: int
    limits: PhaseLimits = field(default_factory=PhaseLimits)
    timing: protocol.Timing = field(default_factory=protocol.Timing)
    jobs: int | None = None
    forks: WorkerForks | None = None


class Supervisor:
    """Evaluates variants in worker processes; a context manager that leaves no process behind."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._selector = selectors.DefaultSelector()
        self._deadlines = Deadlines(setup.limits)
        self._cases: tuple[Case, ...] | None = None
        self._timer: WorkerProcess | None = None
        self._compilers: list[WorkerProcess] = []
        self._ahead = compile_workers.StartedAhead(setup.jobs, setup.forks)
        self._backlog = Backlog()
        self._single = False
        self._done: list[Evaluated] = []
        self._failed_starts = 0
        self._retried: set[int | str] = set()  # variants, and digests of sources, that were retried because their worker was killed
        self._waking = WakingTime()
        self._compiling = False
        self._info: DeviceInfo | None = None
        self._raced: FinalistsTimed | None = None
        self.loading = 0.0  # seconds in which the timing worker had the operands in the device's memory
        self.best: float | None = None
        self.screen = Screen()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def begin(self, info: DeviceInfo | None = None) -> None:
        """Start the timing worker, which opens the device, and the process that starts compile workers. ``info``: the device, if it is
        known."""
        self._info = info
        self._timer = self._start(None)
        self._ahead.begin(info)

    def info(self) -> DeviceInfo:
        """The device; waits for the worker. Raises what opening it raised there."""
        while self._info is None:
            if self._timer is None:
                self._timer = self._start(None)
            self._step(math.inf)
        return self._info

    def prepare(self, cases: tuple[Case, ...]) -> None:
        """Give the timing worker the cases to check and to time on, whose operands are in the shared arrays."""
        self._cases = cases
        if self._timer is not None:
            self._send_cases(self._timer)

    def compile_ahead(self, usual: Plan) -> None:
        """Start compile workers if they save time; otherwise the timing worker compiles. ``usual``: a plan like that of most variants."""
        info = self.info()
        self._single = all(isinstance(step, Launch) and math.prod(step.local_size) == 1 for step in usual.steps)
        workers = compile_workers.count(info, self.setup.jobs, self.alternates, self._single)
        self._compilers = [self._start(info) for _ in range(workers)]
        self._ahead.end()

    @property
    def needs_work(self) -> bool:
        """Whether a worker will be idle unless another variant is submitted.

        No more than that are submitted, so that the strategy chooses each with as many results as possible.
        """
        if not self._compilers or self.alternates:
            return self.under_way < max(len(self._compilers), 1)
        return len(self._backlog.variants) < _QUEUED and len(self._backlog.texts) < _QUEUED

    @property
    def alternates(self) -> bool:
        """Whether compiling would disturb the timing because both use the CPU: then all compile first, and one times afterwards."""
        return self._info is not None and self._info.kind == "cpu"

    @property
    def under_way(self) -> int:
        """Variants that were submitted and have not come back."""
        timing = self._timer is not None and self._timer.variant is not None
        return self._backlog.uncompiled + len(self._backlog.variants) + timing + len(self._done)

    def submit(self, variant: Variant) -> None:
        """Submit a variant. Several workers compile its sources; a source that variants share is compiled once."""
        self._backlog.add(variant, compilers=bool(self._compilers))
        self._dispatch()

    def collect(self, timeout: float, eager: bool = False) -> list[Evaluated]:
        """The outcomes so far; waits up to ``timeout`` seconds for the first, with ``eager`` only until another variant is needed."""
        until = time.monotonic() + timeout
        while not self._done and self.under_way and time.monotonic() < until and not (eager and self.needs_work):
            self._step(until)
        done, self._done = self._done, []
        return done

    def poll(self) -> None:
        """Act on what has arrived, and give idle workers work, without waiting."""
        self._step(time.monotonic())

    def drain(self, timeout: float) -> bool:
        """End the compile workers and wait up to ``timeout`` seconds for the timing worker; returns whether it is free then.

        Its outcome can be collected. On a CPU a worker that is still busy is ended, and its variant is lost: a slow variant may run for
        many seconds there, and a new worker starts in one or two.
        """
        self._backlog.clear()
        for child in self._compilers:
            self._end(child)
        self._compilers, self._compiling = [], False
        until = time.monotonic() + timeout
        while self._timer is not None and self._timer.variant is not None and time.monotonic() < until:
            self._step(until)
        if self.alternates and self._timer is not None and self._timer.variant is not None:
            self._end(self._timer)
            self._timer = None
        return self._timer is None or self._timer.variant is None

    def race(self, entries: tuple[Variant, ...], best: tuple[float, ...], seconds: float, least: float = 0.0) -> FinalistsTimed:
        """Hold the final comparison of these variants; ``best`` is what each took so far. The timing worker must be free."""
        timing = self.setup.timing
        contenders = tuple(Evaluate(v.number, v.sources, v.parts, timing, b) for v, b in zip(entries, best, strict=True))
        self._raced, message = None, Race(contenders, seconds, least)
        while self._raced is None:
            if self._timer is None:
                self._timer = self._start(None)
            timer = self._timer
            if timer.ready and timer.variant is None:
                timer.give(Variant(_RACE, (), ()), message, self._deadlines.limit("compile"))
            self._step(math.inf)
        return self._raced

    def close(self) -> None:
        """End every worker, even if ending one of them is interrupted; a second call does nothing."""
        children = [child for child in (self._timer, *self._compilers) if child is not None]
        with ExitStack() as stack:
            stack.callback(self._selector.close)
            stack.callback(self._ahead.end)
            for child in children:
                stack.callback(self._end, child)
        self._timer, self._compilers = None, []

    def _end(self, child: WorkerProcess) -> None:
        with suppress(KeyError, ValueError):  # an interrupt came while it was being ended
            self._selector.unregister(child.replies)
        child.end(grace=0.5 if child.variant is None else 0)

    def _start(self, compiles: DeviceInfo | None) -> WorkerProcess:
        setup, arena = self.setup, -1 if compiles else self.setup.arena
        child = self._ahead.take() if compiles else WorkerProcess(arena)
        child.open(Open(setup.selector, str(setup.cache), setup.cache_limit, arena, compiles), setup.limits.open)
        self._selector.register(child.replies, selectors.EVENT_READ, child)
        return child

    def _send_cases(self, child: WorkerProcess) -> None:
        if self._cases is not None and not child.has_cases:
            child.has_cases = True
            child.send(Cases(self._cases, draft=self.alternates and not self._compilers))
            child.enter("open", self.setup.limits.open)

    def _dispatch(self) -> None:
        """Give idle workers work; restart a timing worker that ended."""
        backlog = self._backlog
        if self.alternates and self._compilers:
            building = bool(backlog.texts) or any(child.variant is not None for child in self._compilers)
            timing = bool(backlog.variants) or (self._timer is not None and self._timer.variant is not None)
            self._compiling = building and (self._compiling or not timing)
        for child in sorted(self._compilers, key=lambda child: not child.ready):
            if child.variant is None and backlog.texts and (self._compiling or not self.alternates):
                source = backlog.texts.popleft()
                limit = self._deadlines.limit("compile") + (0.0 if child.ready else self.setup.limits.open)
                child.give(Variant(_SOURCE, (source,), ()), Build(_SOURCE, (source,), self._single), limit)
        if not backlog.variants or self._compiling or backlog.first_is_uncompiled:
            return
        if self._timer is None:
            self._timer = self._start(None)
        timer = self._timer
        if timer.ready and timer.variant is None:
            variant = backlog.variants.popleft()
            screen = self.screen if variant.screened and variant.timed else None
            job = Evaluate(variant.number, variant.sources, variant.parts, self.setup.timing, self.best, screen, variant.timed)
            timer.give(variant, job, self._deadlines.limit("compile"))

    def _step(self, until: float) -> None:
        """Wait for a reply or a deadline, at most until ``until``, and act on it."""
        lost = self._waking.before()
        self._dispatch()
        children = [child for child in (self._timer, *self._compilers) if child is not None]
        for child in children:
            child.deadline += lost
        wake = min([until, *(child.deadline for child in children)])
        started = time.monotonic()
        ready = self._selector.select(None if math.isinf(wake) else max(wake - started, 0))
        if late := self._waking.lateness(max(wake, started)):
            for child in children:  # whatever stopped this process during the wait may have stopped the workers too
                child.deadline += late + max(wake - started, 0.0)
        for key, _ in ready:
            worker: WorkerProcess = key.data
            try:
                replies = worker.receive()
            except WorkerEnded as reason:
                self._replace_failed(worker, "crash", str(reason))
                continue
            for reply in replies:
                self._handle(worker, reply)
        now = time.monotonic()
        for child in children:
            if child.deadline < now:
                self._replace_failed(child, "timeout", f"{child.phase} took longer than {now - child.since:.3g} s")
        self._waking.leave()

    def _handle(self, child: WorkerProcess, reply: Reply) -> None:
        match reply:
            case DeviceOpened(info):
                if child is self._timer:
                    child.deadline = math.inf
                    self._info = info
                    if child.has_cases:
                        child.enter("open", self.setup.limits.open)
                    self._send_cases(child)
                    return
                self._failed_starts = 0
                child.ready = True
                if child.variant is None:
                    child.rest()
                else:  # a text was sent to it meanwhile
                    child.enter("compile", self._deadlines.limit("compile"))
            case CasesLoaded():
                self._failed_starts = 0
                self.loading = time.monotonic() - child.since
                child.rest()
            case DeviceRefused(name, message):
                kind = getattr(errors, name, DeviceError)
                raise (kind if issubclass(kind, PortatileError) else DeviceError)(message)
            case PhaseEntered(phase, expected):
                if child.begun:
                    self._deadlines.learn(child)
                child.begun = True
                child.enter(phase, self._deadlines.limit(phase, expected))
            case Built(_, seconds, failed, message):
                assert child.variant is not None
                (source,) = child.variant.sources
                self._deadlines.learn(child)
                child.rest()
                self._compiled(source, sum(seconds.values()), "compile" if failed else None, message)
            case Evaluated():
                self._deadlines.learn(child)
                child.rest()
                self._finish(reply)
                if reply.broken:
                    self._replace_failed(child, "crash", "")
            case FinalistsTimed():
                self._deadlines.learn(child)
                child.rest()
                self._raced = reply
                if reply.broken:
                    self._replace_failed(child, "crash", "")

    def _compiled(self, source: Source, seconds: float, failed: Status | None, message: str = "", foreign: bool = False) -> None:
        """Pass the result of compiling a source on to the variants that waited for it. ``foreign``: it failed for a reason from outside."""
        for number in self._backlog.compiled(source, seconds, failed is not None):
            assert failed is not None
            self._finish(Evaluated(number, failed, message=message, conditions={external_failures.OUTSIDE: 1.0} if foreign else {}))

    def _finish(self, outcome: Evaluated) -> None:
        """Add an outcome to those to collect; its compile time includes what other workers compiled for it."""
        seconds = dict(outcome.seconds)
        seconds["compile"] = seconds.get("compile", 0.0) + self._backlog.compile_seconds(outcome.number)
        self._done.append(msgspec.structs.replace(outcome, seconds=seconds))

    def _replace_failed(self, child: WorkerProcess, status: Status, reason: str) -> None:
        """End a failed worker and replace it. Its variant gets ``status``, or goes to another worker if it is not to blame."""
        self._selector.unregister(child.replies)
        variant, failure = child.variant, WorkerFailure.end(child, status, reason)
        if variant is not None and variant.number == _RACE:
            self._raced = FinalistsTimed((), failure.race_message)
        elif variant is not None and self._is_fault_of_variant(child, variant, failure):
            self._fail(child, variant, failure)
        elif variant is not None and child is self._timer:
            self._backlog.variants.appendleft(variant)
        elif variant is not None:
            self._backlog.texts.appendleft(variant.sources[0])
        if timing := child is self._timer:
            self._timer = None  # started again when there is something to time
        else:
            self._compilers.remove(child)
        if not child.ready and not self._ahead.failed(child):
            self._failed_starts += 1
            if self._failed_starts >= _RESTARTS:
                how = f"{self._failed_starts} times before it could: {reason} ({failure.exit_status})"
                raise DeviceError(f"the worker that opens the device ended {how}")
        if not timing:
            self._compilers.append(self._start(self._info))

    def _is_fault_of_variant(self, child: WorkerProcess, variant: Variant, failure: WorkerFailure) -> bool:
        """Whether a failure counts as the variant's: the worker had begun it, and it was not ended from outside for the first time."""
        name = variant.number if child is self._timer else variant.sources[0].digest
        if failure.from_outside and name not in self._retried:
            self._retried.add(name)
            return False
        return child.begun or failure.hung

    def _fail(self, child: WorkerProcess, variant: Variant, failure: WorkerFailure) -> None:
        """Give the variant, or all that wait for the text under compilation, the outcome of a worker's failure."""
        message = failure.message(variant)
        if child is self._timer:
            spent, conditions = {failure.phase: failure.spent}, {external_failures.OUTSIDE: 1.0} if failure.from_outside else {}
            self._finish(Evaluated(variant.number, failure.status, seconds=spent, message=message, conditions=conditions))
        else:
            self._compiled(variant.sources[0], failure.spent, failure.status, message, failure.from_outside)
