"""A search's part on a worker: the ordinary tuner, in a thread, evaluates what it is sent and holds the final comparison.

The tuner's children open the device, check and time; they end with the worker, and their watchdog ends a kernel that hangs. A session
lives from task to task, so that device, operands and reference are prepared once, and ends when nothing comes for some minutes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from portatile import cache, device, program, settings
from portatile.errors import CompileError, DeviceError
from portatile.fleet import members
from portatile.records import Config, DeviceInfo, Problem, Source, Value, canonical, from_json, to_json
from portatile.space import ParameterSpace
from portatile.store import ResultStore
from portatile.strategies import Search
from portatile.trials import Budget, Trial
from portatile.tuning.protocol import Timing
from portatile.tuning.search import tuner
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.request import Progress, TuningRequest, TuningResult

_IDLE = 300.0  # seconds without a task after which a session ends

Binaries = Sequence[tuple[str, bytes]]
"""Binaries that were compiled elsewhere: keys of the cache, and contents."""


@dataclass(frozen=True)
class SessionRequest:
    """The data that all trials of a search share."""

    problem: Problem
    seed: int = 0
    limits: PhaseLimits = field(default_factory=PhaseLimits)
    timing: Timing = field(default_factory=Timing)
    model: bool = True


@dataclass(frozen=True)
class Decision:
    """The final comparison: its trials in the order of their places, the best of all checked there, and why there was none."""

    finalists: tuple[Trial, ...]
    best: Trial
    unraced: str


def evaluate(order: bytes, config: bytes, *binaries: Binaries) -> bytes:
    """Check and time one configuration on this worker's device; a Trial comes back. All as JSON."""
    kept = cache.default()
    for key, data in (pair for compiled in binaries for pair in compiled):
        kept.put(key, data)
    members.begins(members.key_of(config))
    return to_json(_session(order).evaluate(from_json(config, dict[str, Value])))


def finish(order: bytes, configs: bytes) -> bytes:
    """Hold the final comparison of configurations on this worker's device; a Decision comes back. The session ends."""
    session = _session(order)
    for config in from_json(configs, list[dict[str, Value]]):
        session.evaluate(config)
    result = session.decide()
    return to_json(Decision(result.finalists, result.best, result.unraced))


def compile_texts(sources: bytes, info: bytes) -> Binaries:
    """Compile kernel texts for a device that need not be here; those that do not compile are left to the worker that has it."""
    target, kept = device.target(from_json(info, DeviceInfo)), cache.default()
    binaries: list[tuple[str, bytes]] = []
    for source in from_json(sources, list[Source]):
        try:
            program.build(source, target, kept)
        except CompileError:
            continue
        name = program.key(source, target)
        if (data := kept.get(name)) is not None:
            binaries.append((name, data))
    return binaries


def close() -> None:
    """End this worker's sessions, without a final comparison."""
    with _lock:
        sessions = list(_sessions.values())
        _sessions.clear()
    for session in sessions:
        session.close()


class _Session:
    """One tuner. Safe to use from several threads."""

    def __init__(self, order: SessionRequest) -> None:
        self._order = order
        self._wanted: queue.Queue[Config | None] = queue.Queue()
        self._news = threading.Condition()
        self._trials: dict[str, Trial] = {}
        self._result: TuningResult | None = None
        self._error: Exception | None = None
        self._stopped = self._closed = self._ended = False
        self._thread = threading.Thread(target=self._run, name="portatile-session", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it accepts configurations."""
        return not (self._ended or self._stopped)

    def evaluate(self, config: Config) -> Trial:
        """The trial of a configuration; raises what ended the tuner."""
        key = canonical(config)
        with self._news:
            if key not in self._trials:
                self._wanted.put(config)
                self._news.wait_for(lambda: key in self._trials or self._ended or self._closed)
            if key in self._trials:
                return self._trials[key]
        raise self._error or DeviceError("the tuner of this worker ended")

    def decide(self) -> TuningResult:
        """End with the final comparison; raises what ended the tuner."""
        self._stopped = True
        self._wanted.put(None)
        self._thread.join()
        if self._result is None:
            raise self._error or DeviceError("the tuner of this worker ended")
        return self._result

    def close(self) -> None:
        """End without one; waits for the children."""
        with self._news:  # a thread that waits for a trial is notified at once
            self._stopped = self._closed = True
            self._news.notify_all()
        self._wanted.put(None)
        self._thread.join()

    def _run(self) -> None:
        order = self._order
        request = TuningRequest(
            order.problem,
            settings.load().device,
            Budget(),
            self._strategy,
            order.seed,
            resume=False,
            jobs=0,  # the fleet compiles ahead
            limits=order.limits,
            timing=order.timing,
            model=order.model,
            warm=0,
            ranked=0,
        )
        try:
            self._result = tuner.tune(request, ResultStore(None), self._listen)
        except Exception as error:  # raised again in the thread that waits
            self._error = error
        except KeyboardInterrupt:  # ours, before there was a valid trial
            pass
        finally:
            with self._news:
                self._ended = True
                self._news.notify_all()

    def _listen(self, progress: Progress) -> None:
        with self._news:
            self._trials.setdefault(canonical(progress.last.config), progress.last)
            self._news.notify_all()

    def _strategy(self, space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search:
        """A strategy that yields configurations as they arrive. Raises KeyboardInterrupt to end without a final comparison."""
        while True:
            try:
                config = self._wanted.get(timeout=_IDLE)
            except queue.Empty:
                self._stopped = True
                raise KeyboardInterrupt from None
            if config is None:
                if self._closed:
                    raise KeyboardInterrupt
                return
            if (key := canonical(config)) not in self._trials:  # the default is evaluated before anything comes
                yield [config]
                # the trial that was sent is an earlier one; waiting for another configuration here would be a deadlock
                while key not in self._trials:
                    yield []


_lock = threading.Lock()
_sessions: dict[bytes, _Session] = {}


def _session(order: bytes) -> _Session:
    """The session of an order; another search's ends first, because it would time on the same device."""
    with _lock:
        known = _sessions.get(order)
        if known is not None and known.alive:
            return known
        for other in _sessions.values():
            other.close()
        _sessions.clear()
        _sessions[order] = session = _Session(from_json(order, SessionRequest))
        return session
