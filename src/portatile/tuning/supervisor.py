"""Workers and the watch over them: compile-ahead, deadlines, restart after a crash, and nothing left running."""

from __future__ import annotations

import math
import os
import selectors
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from portatile import errors
from portatile.errors import DeviceError, PortatileError
from portatile.model import Screen
from portatile.records import DeviceInfo, Status
from portatile.tuning import protocol
from portatile.tuning.child import Child, Dead, Variant
from portatile.tuning.protocol import (
    Build,
    Built,
    Case,
    Cases,
    Entered,
    Evaluate,
    Evaluated,
    Open,
    Opened,
    Phase,
    Race,
    Raced,
    Ready,
    Refused,
    Reply,
)

_RESTARTS = 3  # workers in a row that die before they have opened the device
_MOST_COMPILERS = 14
_RACE = -1  # the number of what a worker is at while it holds a race


@dataclass(frozen=True)
class Limits:
    """The watchdog's patience, in seconds per phase.

    From the second trial on, a phase may take ``factor`` times as long as the longest so far, but not less than ``least``
    (compiling: three times that) and not more than its own limit.
    """

    open: float = 120.0
    compile: float = 120.0
    launch: float = 60.0
    run: float = 60.0
    least: float = 10.0
    factor: float = 20.0


@dataclass(frozen=True)
class Setup:
    """What every worker of a run is told when it starts. ``jobs``: compile workers, None for as many as the machine has cores for."""

    selector: str | None
    cache: Path
    cache_limit: int
    arena: int
    limits: Limits = field(default_factory=Limits)
    timing: protocol.Timing = field(default_factory=protocol.Timing)
    jobs: int | None = None


@dataclass
class _Patience:
    """The longest that each phase took so far."""

    limits: Limits
    longest: dict[str, float] = field(default_factory=dict)

    def limit(self, phase: Phase, expected: float = 0.0) -> float:
        most = float(getattr(self.limits, phase))
        if phase in self.longest:
            least = 3 * self.limits.least if phase == "compile" else self.limits.least
            most = min(most, max(least, self.limits.factor * self.longest[phase]))
        return max(most, 10 * expected)

    def learn(self, child: Child) -> None:
        self.longest[child.phase] = max(self.longest.get(child.phase, 0.0), time.monotonic() - child.since)


class Supervisor:
    """Evaluates variants in worker processes; a context manager that leaves no process behind."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._selector = selectors.DefaultSelector()
        self._patience = _Patience(setup.limits)
        self._cases: tuple[Case, ...] | None = None
        self._timer: Child | None = None
        self._compilers: list[Child] = []
        self._to_compile: deque[Variant] = deque()
        self._to_time: deque[Variant] = deque()
        self._compile_seconds: dict[int, float] = {}
        self._done: list[Evaluated] = []
        self._stillborn = 0
        self._compiling = False
        self._info: DeviceInfo | None = None
        self._raced: Raced | None = None
        self.best: float | None = None
        self.screen: Screen | None = None

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def begin(self) -> None:
        """Start the timing worker, so that it opens the device while the parent prepares the operands."""
        self._timer = self._start(None)

    def info(self) -> DeviceInfo:
        """The device; waits for the worker. Raises what opening it raised there."""
        while self._info is None:
            if self._timer is None:
                self.begin()
            self._turn(math.inf)
        return self._info

    def prepare(self, cases: tuple[Case, ...]) -> None:
        """What to check and to time on; the arena holds it."""
        self._cases = cases
        if self._timer is not None:
            self._lay_out(self._timer)

    def compile_ahead(self) -> None:
        """Start the compile workers; until then the timing worker compiles."""
        info, jobs = self.info(), self.setup.jobs
        if jobs is None:
            spare = _cores() if self._alternates else _cores() - 2  # the timing worker and the parent
            jobs = min(max(spare, 1), _MOST_COMPILERS)
        if not (self._alternates and jobs == 1):  # one alone does not compile faster than the timing worker itself
            self._compilers = [self._start(info) for _ in range(jobs)]

    @property
    def ahead(self) -> int:
        """How many variants should be under way at once to keep every worker busy."""
        return len(self._compilers) * (1 if self._alternates else 2) + (0 if self._alternates and self._compilers else 1)

    @property
    def _alternates(self) -> bool:
        """Whether compiling would disturb the timing, because both are the CPU's work: then all compile, then one times."""
        return self._info is not None and self._info.kind == "cpu"

    @property
    def under_way(self) -> int:
        """Variants that were submitted and have not come back."""
        busy = [child for child in (self._timer, *self._compilers) if child is not None and child.variant is not None]
        return len(self._to_compile) + len(self._to_time) + len(busy) + len(self._done)

    def submit(self, variant: Variant) -> None:
        """Have a variant evaluated."""
        (self._to_compile if self._compilers else self._to_time).append(variant)
        self._dispatch()

    def collect(self, timeout: float) -> list[Evaluated]:
        """What has been evaluated; waits up to ``timeout`` seconds for the first."""
        until = time.monotonic() + timeout
        while not self._done and self.under_way and time.monotonic() < until:
            self._turn(until)
        done, self._done = self._done, []
        return done

    def calm(self, timeout: float) -> bool:
        """Begin nothing more, end the compile workers, and wait up to ``timeout`` seconds for the timing worker; whether it is free then.

        What it was at can be collected.
        """
        self._to_compile.clear()
        self._to_time.clear()
        for child in self._compilers:
            self._end(child)
        self._compilers, self._compiling = [], False
        until = time.monotonic() + timeout
        while self._timer is not None and self._timer.variant is not None and time.monotonic() < until:
            self._turn(until)
        return self._timer is None or self._timer.variant is None

    def race(self, entries: tuple[Variant, ...], best: tuple[float, ...], seconds: float) -> Raced:
        """Have variants timed in turn, ``best`` being what each took so far; the timing worker is free."""
        timing = self.setup.timing
        contenders = tuple(Evaluate(v.number, v.sources, v.parts, timing, b) for v, b in zip(entries, best, strict=True))
        self._raced, message = None, Race(contenders, seconds)
        while self._raced is None:
            if self._timer is None:
                self.begin()
            timer = self._timer
            assert timer is not None
            if timer.ready and timer.variant is None:
                timer.give(Variant(_RACE, (), ()), message, self._patience.limit("compile"))
            self._turn(math.inf)
        return self._raced

    def close(self) -> None:
        """End every worker; a second call does nothing."""
        for child in (self._timer, *self._compilers):
            if child is not None:
                self._end(child)
        self._timer, self._compilers = None, []
        self._selector.close()

    def _end(self, child: Child) -> None:
        self._selector.unregister(child.replies)
        child.end(grace=0.5 if child.variant is None else 0)

    def _start(self, compiles: DeviceInfo | None) -> Child:
        setup = self.setup
        arena = -1 if compiles else setup.arena
        child = Child(Open(setup.selector, str(setup.cache), setup.cache_limit, arena, compiles), setup.limits.open)
        self._selector.register(child.replies, selectors.EVENT_READ, child)
        return child

    def _lay_out(self, child: Child) -> None:
        if self._cases is not None:
            child.send(Cases(self._cases))
            child.enter("open", self.setup.limits.open)

    def _dispatch(self) -> None:
        """Give idle workers work; replace a timing worker that died."""
        if self._alternates and self._compilers:
            building = bool(self._to_compile) or any(child.variant is not None for child in self._compilers)
            timing = bool(self._to_time) or (self._timer is not None and self._timer.variant is not None)
            self._compiling = building and (self._compiling or not timing)
        for child in self._compilers:
            if child.ready and child.variant is None and self._to_compile and (self._compiling or not self._alternates):
                variant = self._to_compile.popleft()
                child.give(variant, Build(variant.number, variant.sources), self._patience.limit("compile"))
        if not self._to_time or self._compiling:
            return
        if self._timer is None:
            self.begin()
        timer = self._timer
        assert timer is not None
        if timer.ready and timer.variant is None:
            variant = self._to_time.popleft()
            message = Evaluate(variant.number, variant.sources, variant.parts, self.setup.timing, self.best, self.screen)
            timer.give(variant, message, self._patience.limit("compile"))

    def _turn(self, until: float) -> None:
        """Wait for something to happen until ``until`` and act on it."""
        self._dispatch()
        children = [child for child in (self._timer, *self._compilers) if child is not None]
        wake = min([until, *(child.deadline for child in children)])
        timeout = None if math.isinf(wake) else max(wake - time.monotonic(), 0)
        for key, _ in self._selector.select(timeout):
            child: Child = key.data
            try:
                replies = child.receive()
            except Dead as reason:
                self._bury(child, "crash", str(reason))
                continue
            for reply in replies:
                self._hear(child, reply)
        now = time.monotonic()
        for child in children:
            if child.deadline < now:
                self._bury(child, "timeout", f"{child.phase} took longer than {now - child.since:.3g} s")

    def _hear(self, child: Child, reply: Reply) -> None:
        match reply:
            case Opened(info):
                child.deadline = math.inf
                if child is self._timer:
                    self._info = info
                    self._lay_out(child)
                else:
                    self._stillborn = 0
                    child.rest()
            case Ready():
                self._stillborn = 0
                child.rest()
            case Refused(name, message):
                kind = getattr(errors, name, DeviceError)
                raise (kind if issubclass(kind, PortatileError) else DeviceError)(message)
            case Entered(phase, expected):
                if child.begun:
                    self._patience.learn(child)
                child.begun = True
                child.enter(phase, self._patience.limit(phase, expected))
            case Built(number, seconds, failed, message):
                variant = child.variant
                assert variant is not None
                self._patience.learn(child)
                child.rest()
                self._compile_seconds[number] = sum(seconds.values())
                if failed:
                    self._finish(Evaluated(number, "compile", message=message))
                else:
                    self._to_time.append(variant)
            case Evaluated():
                self._patience.learn(child)
                child.rest()
                self._finish(reply)
                if reply.broken:
                    self._bury(child, "crash", "")
            case Raced():
                self._patience.learn(child)
                child.rest()
                self._raced = reply
                if reply.broken:
                    self._bury(child, "crash", "")

    def _finish(self, outcome: Evaluated) -> None:
        """Hand an outcome to the caller; what was compiled ahead counts too."""
        seconds = dict(outcome.seconds)
        seconds["compile"] = seconds.get("compile", 0.0) + self._compile_seconds.pop(outcome.number, 0.0)
        self._done.append(msgspec.structs.replace(outcome, seconds=seconds))

    def _bury(self, child: Child, status: Status, reason: str) -> None:
        """End a worker; the variant that it was at has ``status``."""
        self._selector.unregister(child.replies)
        hung, variant, spent = status == "timeout", child.variant, time.monotonic() - child.since
        fate = child.end(grace=0 if hung else 1)
        child.deadline = math.inf
        if variant is not None and variant.number == _RACE:
            self._raced = Raced((), reason if hung else f"the worker ended during {child.phase} ({fate})")
        elif variant is not None and (child.begun or hung):
            message = reason if hung else f"the worker ended during {child.phase} ({fate})"
            self._finish(Evaluated(variant.number, status, seconds={child.phase: spent}, message=message))
        elif variant is not None:
            (self._to_time if child is self._timer else self._to_compile).appendleft(variant)
        timing = child is self._timer
        if timing:
            self._timer = None
        else:
            self._compilers.remove(child)
        if not child.ready:
            self._stillborn += 1
            if self._stillborn >= _RESTARTS:
                raise DeviceError(f"the worker that opens the device ended {self._stillborn} times before it could: {reason} ({fate})")
        if not timing:
            self._compilers.append(self._start(self._info))


def _cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
