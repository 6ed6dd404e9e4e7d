"""A search whose trials run on a fleet: the strategy, in this process, proposes as many configurations as the fleet can evaluate.

Every worker with the device first evaluates the default. Workers whose times for it differ by more than the noise are left
out. If a worker is killed, Dask repeats its trial on another one; a configuration that ends two workers is stored as a crash. Results are
stored in this process as they arrive. The running trials are submitted again to a restarted scheduler.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from portatile import device, flat_plans, program, strategies, workloads
from portatile.errors import CompileError, DeviceError, LaunchError, UsageError
from portatile.fleet import members, session
from portatile.fleet.members import Fleet
from portatile.fleet.outcomes import FleetOutcomes
from portatile.fleet.session import Decision, SessionRequest
from portatile.records import Config, DeviceInfo, canonical, from_json, to_json
from portatile.store import Query, ResultStore
from portatile.trials import Status, Trial, now
from portatile.tuning.final import ranking
from portatile.tuning.search import agreement, first_configs
from portatile.tuning.search.background import in_background
from portatile.tuning.search.cooperation import alone
from portatile.tuning.search.first_configs import StartedSearch
from portatile.tuning.search.objective import Goal
from portatile.tuning.search.planner import Planner
from portatile.tuning.search.request import Listener, Stopped, TuningRequest, TuningResult
from portatile.tuning.search.stored_trials import replaces_evaluation
from portatile.user_warnings import warn

_WAIT = 0.2  # seconds between two looks at the fleet
_RESULT_SECONDS = 3.0  # how long to wait for the result of a finished task, whose worker may be gone
_GONE = 60.0  # seconds for which workers may all be gone
_ATTEMPTS = 3  # attempts at a trial that fails for another reason than its configuration
_AHEAD = 14  # trials that are compiled ahead for each worker, at most: a later choice knows more results


def tune(request: TuningRequest, scheduler: str, store: ResultStore, listen: Listener | None = None) -> TuningResult:
    """Tune one problem on the fleet of the scheduler at an address such as ``tcp://host:8786``.

    ``request.device`` is a part of a device's id, name, vendor or kind; without one, the most numerous GPUs of the fleet are taken.
    Raises UsageError for a request that a fleet cannot serve, if there is no scheduler, and if versions differ; DeviceNotFoundError if no
    worker has such a device; and the exceptions of ``tuner.tune``.
    """
    _check(request)
    started = time.monotonic()
    with members.connected(scheduler) as fleet:
        search = _Search(request, fleet, store, listen, fleet.choose(request.device), started)
        try:
            return search.result(search.run())
        finally:
            search.close()


def _check(request: TuningRequest) -> None:
    if request.workload is not None or request.space is not None:
        raise UsageError("a fleet tunes the package's workloads; tune a kernel of your own on one machine")
    if request.objective != "time":
        raise UsageError(f"a fleet minimises time; tune for {request.objective!r} on one machine")


@dataclass
class _Task:
    """A configuration in progress. ``worker``: the only worker that may evaluate it, used for the default on each worker. ``allowed``:
    the workers that may evaluate it, if some with the device may not.
    """

    config: Config
    source: str
    future: Any
    attempts: int = 1
    worker: str = ""
    allowed: tuple[str, ...] = ()


@dataclass
class _Search:
    """One search: ``run``, then ``result``. It holds the running tasks and knows which workers agree."""

    request: TuningRequest
    fleet: Fleet
    store: ResultStore
    listen: Listener | None
    info: DeviceInfo
    started: float
    under_way: dict[str, _Task] = field(default_factory=dict)
    defaults: dict[str, Trial] = field(default_factory=dict)  # by worker
    apart: set[str] = field(default_factory=set)  # workers that disagree
    decision: Decision | None = None
    number: int = 0
    seen: float = 0.0  # when there was a worker last

    def __post_init__(self) -> None:
        problem = self.request.problem
        self.found = FleetOutcomes(self.request, self.info, self.started)
        self.workload = workloads.get(problem.workload)
        self.space = self.workload.space(problem, self.info)
        self.default = self.workload.default(problem, self.info)
        self.planner = Planner(self.workload, [*self.workload.awkward(problem), problem], (), self.info)
        limits = self.request.limits.within(self.request.budget.seconds)
        self.order = to_json(SessionRequest(problem, self.request.seed, limits, self.request.timing, self.request.model))
        self.stored = self._stored()

    def run(self) -> Stopped:
        """Search until the budget is spent, the space is exhausted or the user presses Ctrl-C; then hold the final comparison."""
        try:
            strategy = self.request.strategy if callable(self.request.strategy) else strategies.get(self.request.strategy)
            start = partial(first_configs.start_search, strategy, self.request, self.planner, self.space, self.default, alone())
            started = in_background(start, self._attend)
            self._begin_default()
            stopped = self._explore(started)
            self._decide()
            return stopped
        except KeyboardInterrupt:
            if self.found.best is None:
                raise
            return "interrupted"

    def close(self) -> None:
        """Cancel what is queued, and end the workers' sessions."""
        with suppress(Exception):
            self.fleet.cancel(task.future for task in self.under_way.values())
            self.fleet.client.run(session.close, workers=list(self.fleet.with_device(self.info)), on_error="ignore")

    def result(self, stopped: Stopped) -> TuningResult:
        """The trials so far; raises NoValidVariantError if all failed."""
        return self.found.result(self.default, stopped, self.decision)

    def _stored(self) -> dict[tuple[str, str], Trial]:
        """The store's trials of this problem, device and driver, by configuration and kernel text."""
        if not self.request.resume:
            return {}
        known = self.store.trials(Query(problem=self.request.problem, device=self.info, driver=self.info.driver))
        goal = Goal(self.request.objective, self.info)
        return {
            (canonical(self.space.complete(trial.config)), trial.source): replace(trial, config=self.space.complete(trial.config))
            for trial in known
            if replaces_evaluation(trial, self.request, goal, alone=False)
        }

    def _begin_default(self) -> None:
        """Have every worker evaluate the default, and wait for the first result."""
        while canonical(self.default) not in self.found.trials:
            self._attend()

    def _attend(self) -> None:
        """Have new workers evaluate the default, and collect what has finished, after a short wait."""
        self._meet_workers()
        self._collect()

    def _meet_workers(self) -> None:
        """Have each new worker evaluate the default, whenever it joins.

        Raises DeviceError if there has been none for a while.
        """
        present = self.fleet.with_device(self.info)
        now = time.monotonic()
        self.seen = now if present or not self.seen else self.seen
        if now > self.seen + _GONE:
            note = f"; {len(self.found.trials)} trials are stored, and the next search goes on from them" if self.found.trials else ""
            raise DeviceError(f"no worker with {self.info.name} is left at {self.fleet.address}{note}")
        checking = {task.worker for task in self.under_way.values()}
        for address in present.keys() - self.defaults.keys() - checking:
            self._submit(f"default {address}", self.default, address)

    def _explore(self, started: StartedSearch) -> Stopped:
        """Serve the strategy."""
        search, requested, _ = started
        reported: set[str] = set()
        try:
            while not self.found.spent():
                self._meet_workers()
                for config in requested:
                    if self._enough() or self._busy() >= self._slots():
                        break
                    self._begin(config)
                if len(reported) == len(self.found.trials) and self._busy():
                    self._collect()
                news = {key: trial for key, trial in self.found.trials.items() if key not in reported}
                if not news and not self._busy():
                    return "exhausted"
                if not news and self._busy() >= self._slots():
                    continue
                reported.update(news)
                requested = search.send([trial for trial in news.values() if trial.config in self.space])
            return "budget"
        except StopIteration:
            while self._busy() and not self.found.spent():
                self._collect()
            return "exhausted"
        finally:
            search.close()

    def _begin(self, config: Config) -> None:
        """Begin to evaluate a configuration, unless it is known, under way, or rejected on paper."""
        key = canonical(config)
        if key not in self.found.trials and key not in self.under_way:
            self._submit(key, config)

    def _submit(self, key: str, config: Config, worker: str = "", attempts: int = 1, ahead: bool = True) -> None:
        """Have a configuration evaluated, compiled ``ahead`` by another worker where that helps."""
        self.number += 1
        try:
            timed = self.planner.plan(self.request.problem, config)
            variant = self.planner.variant(self.number, config, timed)
        except (CompileError, LaunchError) as error:  # the workload itself refuses to generate the variant
            self._take(Trial(self.request.problem, dict(config), self.info, "", _refusal(error), message=str(error), time=now()))
            return
        source = program.source_hash(tuple(flat_plans.sources(timed)))
        if not worker and (known := self.stored.get((key, source))) is not None:
            self.found.known += 1
            self._keep(known)
            return
        name = members.key_of(self.order, config, worker, self.number, self.started)
        binaries = []
        if ahead and device.backends()[self.info.backend].offline and self.fleet.compilers():
            texts, info = to_json(variant.sources), to_json(self.info)
            compiling = members.key_of("compile", texts, info)
            binaries = [self.fleet.submit(session.compile_texts, texts, info, key=compiling, resources={members.compiles(): 1}, priority=1)]
        allowed = (worker,) if worker else self._allowed()
        where = {"workers": list(allowed)} if allowed else {}
        future = self.fleet.submit(
            session.evaluate, self.order, to_json(config), *binaries, key=name, resources={members.tag(self.info): 1}, pure=False, **where
        )
        self.under_way[key] = _Task(config, source, future, attempts, worker, allowed)

    def _allowed(self) -> tuple[str, ...]:
        """The workers that agree, if some do not. Empty if every worker may evaluate: Dask then includes late ones."""
        present = self.fleet.with_device(self.info)
        if not self.apart & present.keys():
            return ()
        return tuple(address for address in self.defaults if address in present and address not in self.apart)

    def _collect(self) -> None:
        """Collect what has finished, after a short wait; resubmit what was under way to a fleet that has come back."""
        until = time.monotonic() + min(_WAIT, max(self.found.seconds_left(), 0.0) + 0.01)
        while not any(task.future.done() for task in self.under_way.values()) and time.monotonic() < until:
            time.sleep(0.005)
        if not self.fleet.connected:
            self.fleet.reconnect()
            lost, self.under_way = dict(self.under_way), {}
            for key, task in lost.items():
                if not task.worker:
                    self._submit(key, task.config, attempts=task.attempts)
            return
        for key, task in list(self.under_way.items()):
            if task.future.done():
                del self.under_way[key]
                self._finished(key, task)
            elif task.allowed and not self.fleet.with_device(self.info).keys() & set(task.allowed):  # all of them have gone
                del self.under_way[key]
                self.fleet.cancel([task.future])
                if not task.worker:
                    self._submit(key, task.config, attempts=task.attempts)

    def _finished(self, key: str, task: _Task) -> None:
        """Handle a task's outcome: a trial, a configuration that ends workers, or a failure to be retried."""
        distributed = members.require()
        try:
            trial = from_json(task.future.result(timeout=_RESULT_SECONDS), Trial)
        except distributed.KilledWorker as error:
            self._killed(key, task, str(error.task))
            return
        except (CancelledError, OSError, TimeoutError):  # the scheduler has gone, or the result has gone with its worker
            if not task.worker:
                self._submit(key, task.config, attempts=task.attempts)
            return
        except Exception as error:  # an exception of the worker
            message = members.described(error)
            if task.worker:
                self.apart.add(task.worker)
                self.defaults[task.worker] = self._failed(task, "crash", message)
                warn(f"a worker is left out: {message}")
                self._give_up(error)
            elif task.attempts < _ATTEMPTS:
                self._submit(key, task.config, attempts=task.attempts + 1)
            else:
                self._take(self._failed(task, "crash", message))
            return
        if task.worker:
            self._met(task.worker, trial)
        elif canonical(trial.config) not in self.found.trials:
            self._take(trial)

    def _killed(self, key: str, task: _Task, ended: str) -> None:
        """Handle a task whose workers ended: it is quarantined if it ended them, and retried if it only waited there.

        ``ended``: the name of Dask's task, which may be that of the compilation before it. Raises DeviceError if the default is why.
        """
        deaths = self.fleet.ended_by(members.key_of(to_json(task.config)))
        if task.worker:
            if canonical(self.default) not in self.found.trials and deaths > _ATTEMPTS:
                raise DeviceError(f"the default configuration ended {deaths} workers with {self.info.name}")
        elif deaths > members.DEATHS:
            self._take(self._failed(task, "crash", f"{deaths} workers ended while they evaluated it; it is quarantined"))
        elif task.attempts < _ATTEMPTS or deaths > 0:
            self._submit(key, task.config, attempts=task.attempts + 1, ahead=ended == task.future.key)
        else:
            self._take(self._failed(task, "crash", f"workers ended {task.attempts} times while it was there; it is quarantined"))

    def _give_up(self, error: Exception) -> None:
        """Raise DeviceError if no worker can evaluate even the default."""
        present = self.fleet.with_device(self.info)
        if canonical(self.default) not in self.found.trials and present and all(address in self.apart for address in present):
            raise DeviceError(f"no worker can use {self.info.name}: {members.described(error)}") from error

    def _met(self, worker: str, trial: Trial) -> None:
        """Note a worker's time for the default. The first counts as the search's trial; a worker whose time differs from most is left
        out."""
        self.defaults[worker] = trial
        if canonical(self.default) not in self.found.trials:
            self._take(replace(trial, config=dict(self.default)))
        for other in agreement.disagreeing(self.defaults) - self.apart:
            self.apart.add(other)
            ratio = self.defaults[other].median / median(trial.median for trial in self.defaults.values())
            where = self.fleet.members()[other].host if other in self.fleet.members() else other
            message = f"a worker on {where} takes {ratio:.2f} times as long as the others for the default"
            warn(f"{message}: it is left out of this search")

    def _failed(self, task: _Task, status: Status, message: str) -> Trial:
        return Trial(self.request.problem, dict(task.config), self.info, task.source, status, message=message, time=now())

    def _take(self, trial: Trial) -> None:
        self.store.add(trial)
        self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        self.found.add(trial)
        if self.listen is not None:
            self.listen(self.found.progress_after(trial))

    def _decide(self) -> None:
        """The final comparison, on one of the workers that agree."""
        valid = sorted((trial for trial in self.found.trials.values() if trial.status == "ok"), key=lambda trial: trial.comparable)
        near = [trial.config for trial in valid[: ranking.FIELD] if trial.comparable <= ranking.NEAR * valid[0].comparable]
        if not near:
            return
        configs, attempts = to_json(near), 0
        while self.decision is None and attempts < _ATTEMPTS:
            attempts += 1
            allowed = self._allowed()
            where = {"workers": list(allowed)} if allowed else {}
            name = members.key_of("final", self.order, configs, self.started, attempts)
            future = self.fleet.submit(
                session.finish, self.order, configs, key=name, resources={members.tag(self.info): 1}, pure=False, **where
            )
            while not future.done() and self.fleet.connected:
                time.sleep(0.01)
            try:
                self.decision = from_json(future.result(timeout=1), Decision)
            except Exception as error:
                if not self.fleet.connected:
                    self.fleet.reconnect()
                elif attempts == _ATTEMPTS:
                    warn(f"there was no final comparison: {members.described(error)}")
        for trial in self.decision.finalists if self.decision is not None else ():
            self.store.add(trial)
            self.found.replace(trial)

    def _busy(self) -> int:
        return sum(not task.worker for task in self.under_way.values())

    def _slots(self) -> int:
        """The number of trials to keep in progress: one for each worker that agrees, and those that are compiled ahead for it."""
        agreed = [address for address in self.fleet.with_device(self.info) if address in self.defaults and address not in self.apart]
        ahead = self.fleet.compilers() if device.backends()[self.info.backend].offline else 0
        return max(len(agreed), 1) + min(ahead, _AHEAD * len(agreed))

    def _enough(self) -> bool:
        return self.found.spent(self._busy())


def _refusal(error: Exception) -> Status:
    return "compile" if isinstance(error, CompileError) else "launch"
