"""Problems prepared on a device: selected, compiled and loaded once, run many times. The engine never reaches the tuner."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from portatile import cache, execute, flat_plans, select, store, workloads, workspaces
from portatile.device import exit_gate  # noqa: F401 - imported before _close is registered, so that its own handler runs after _close
from portatile.device.base import Device, Memory, Queue
from portatile.device.foreign_arrays import THREAD_STREAM
from portatile.device.module import Module
from portatile.errors import ArgumentError
from portatile.records import Arg, Binary, Call, Launch, Plan, Problem, Source, canonical
from portatile.runtime.one_device.certify import Certifier
from portatile.runtime.one_device.deferred import waiting
from portatile.runtime.one_device.untuned import Untuned
from portatile.select import Choice

Key = TypeVar("Key")
Kept = TypeVar("Kept")
_MAX_PREPARED = 4096  # prepared problems that are kept, each with its kernels
_PATIENCE = 10.0  # seconds that the interpreter's exit waits for a call that is inside a driver


@dataclass(frozen=True)
class LoadedPlan:
    """A plan, compiled and loaded on its device: that of one problem, or one that a routine assembles from several problems' launches."""

    executable: execute.Executable

    def run(self, queue: Queue, operands: Mapping[str, Memory], scalars: Mapping[str, float]) -> None:
        """Queue the computation; does not wait for it."""
        waiting.calls += 1
        self.executable.run(queue, operands, scalars)


@dataclass(frozen=True)
class Prepared(LoadedPlan):
    """A problem, compiled and loaded on its device. ``waits``: other configurations are timed when the problem is repeated."""

    problem: Problem
    choice: Choice
    waits: bool = False


class BoundProblem(NamedTuple):
    """A prepared problem and the names of its operands, in the order of a request."""

    engine: Engine
    prepared: LoadedPlan
    names: tuple[str, ...]

    @property
    def waits(self) -> bool:
        """Whether other configurations are timed when the problem is repeated."""
        return isinstance(self.prepared, Prepared) and self.prepared.waits


class Engine:
    """The prepared problems of one device. Safe to use from several threads."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.generation = device.generation
        self.lock: Any = threading.RLock()
        self.in_flight: list[object] = []  # host arrays that the device may still use, see InFlight
        self.making = 0.0  # total seconds spent on compiling and loading so far
        self._streams: dict[object, Queue] = {}
        self._prepared: dict[str, Prepared] = {}  # by ``_key``, as is ``_legal``
        self._legal: dict[str, bool] = {}
        self._cache = cache.default()
        self._results = store.known_results()
        self._certifier = Certifier(device, self._cache, self._build, self._plan)
        self._untuned = Untuned(device, self._cache, self._build, self._plan)
        self._called: dict[str, Plan] = {}  # flat plans of the problems that other problems call, by problem key
        self._best: dict[str, Choice] = {}  # the tuned or predicted best choice, by problem key
        self._settled_as: dict[str, Choice] = {}  # the choice that is used in place of each best one, by problem key and choice
        self._assembled: dict[Hashable, LoadedPlan] = {}  # plans that routines assemble, by the routines' own keys
        self._modules: WeakValueDictionary[Source, Module] = WeakValueDictionary()  # shared by problems that differ only in sizes
        self._workspaces = workspaces.Workspaces(device)

    def queue_of(self, stream: int) -> Queue:
        """The queue on another library's stream, the same one at each call; the device's default queue for -1.

        The per-thread default stream is a different stream in each thread, so each thread gets its own queue and workspaces for it.
        """
        if stream < 0:
            return self.device.default_queue()
        key = (stream, threading.get_ident()) if stream == THREAD_STREAM else stream
        queue = self._streams.get(key)
        if queue is None:
            queue = self._streams.setdefault(key, self.device.foreign_queue(stream))
        return queue

    def prepare(
        self, problem: Problem, choice: Choice | None = None, whole: Problem | None = None, instead: Problem | None = None
    ) -> Prepared:
        """The problem with ``choice``, or with the best configuration known for it; compiled at the first call, memoised afterwards.

        With ``whole``, the problem that this one is a part of, called problems use the configurations that those of ``whole`` have.
        ``instead`` is a problem with the same operands, computed where there is not enough memory for the workspace.
        """
        key = self._key(problem, choice, whole, instead)
        prepared = self._prepared.get(key)
        if prepared is None:
            with self.lock:
                prepared = self._prepared.get(key)
                if prepared is None:
                    best = choice or self.choose(problem)
                    waits = choice is None and self._untuned.waits(problem, best)
                    prepared = self._prepared[key] = self._make(problem, best, whole, instead, waits)
        return prepared

    def prepare_again(self, problem: Problem, instead: Problem | None = None) -> Prepared:
        """As ``prepare`` for a problem that is repeated: if it ``waits``, a few configurations are timed now and the fastest is used."""
        with self.lock:
            prepared = self.prepare(problem, instead=instead)
            if prepared.waits:
                chosen = self._untuned.timed(problem, self._chosen(problem))
                if chosen.config == prepared.choice.config:
                    prepared = replace(prepared, choice=chosen, waits=False)
                else:
                    prepared = self._make(problem, chosen, None, instead, False)
                self._prepared[self._key(problem, None, None, instead)] = prepared
            return prepared

    def is_legal(self, choice: Choice, problem: Problem) -> bool:
        """Whether a choice may be used for a problem; memoised, because making a space takes longer than a launch."""
        key = self._key(problem, choice, None, None)
        legal = self._legal.get(key)
        if legal is None:
            space = workloads.get(problem.workload).space(problem, self.device.info)
            legal = _remember(self._legal, key, space.violated(choice.config) is None)
        return legal

    @staticmethod
    def _key(problem: Problem, choice: Choice | None, whole: Problem | None, instead: Problem | None) -> str:
        key = problem.key if choice is None else f"{problem.key} {canonical(choice.config)} {'' if whole is None else whole.key}"
        if instead is not None:
            key += f" or {instead.key}"
        return key

    def _make(self, problem: Problem, proposed: Choice, whole: Problem | None, instead: Problem | None, waits: bool) -> Prepared:
        """Compile and load a problem with the proposed choice, or with its default where that choice may not be used."""
        began = time.perf_counter()
        settled, plan = self._settled(problem, proposed, whole)
        if len(self._prepared) >= _MAX_PREPARED:
            self._prepared.clear()
            self._called.clear()
        other = None if instead is None else partial(self._executable, instead)
        executable = execute.Executable(self.device, plan, self._build, modules=self._modules, workspaces=self._workspaces, instead=other)
        self.making += time.perf_counter() - began
        return Prepared(executable, problem, settled, waits)

    def _executable(self, problem: Problem) -> execute.Executable:
        return self.prepare(problem).executable

    def assembled(self, key: Hashable, make: Callable[[], Plan]) -> LoadedPlan:
        """A flat plan that a routine assembles from several problems, loaded at the first call with this key and memoised afterwards."""
        assembled = self._assembled.get(key)
        if assembled is None:
            with self.lock:
                began, before = time.perf_counter(), self.making
                plan = make()
                executable = execute.Executable(self.device, plan, self._build, modules=self._modules, workspaces=self._workspaces)
                assembled = _remember(self._assembled, key, LoadedPlan(executable))
                self.making = before + time.perf_counter() - began  # includes the problems that ``make`` prepared
        return assembled

    def knows(self, key: Hashable) -> bool:
        """Whether ``assembled`` has a plan for this key."""
        return key in self._assembled

    def launches(self, problem: Problem, names: Mapping[str, str]) -> list[Launch]:
        """A problem's launches in its best known configuration, with operands and scalars renamed by ``names``."""

        def named(arg: Arg) -> Arg:
            renamed = arg.kind == "buffer" or (arg.kind == "scalar" and arg.value is None and arg.name in names)
            return replace(arg, name=names[arg.name]) if renamed else arg

        launches: list[Launch] = []
        for step in self.prepare(problem).executable.plan.steps:
            assert isinstance(step, Launch)
            launches.append(Launch(step.source, step.kernel, step.global_size, step.local_size, tuple(map(named, step.args))))
        return launches

    def choose(self, problem: Problem) -> Choice:
        """The best known configuration for a problem, and the reason."""
        return self._untuned.known(problem, self._chosen(problem))

    def settle(self, problem: Problem) -> Choice:
        """The configuration that a problem runs with in one piece, even where it is too large for that; memoised."""
        best = self.choose(problem)
        key = f"{problem.key} {canonical(best.config)}"
        settled = self._settled_as.get(key)
        if settled is None:
            try:
                settled = self._settled(problem, best)[0]
            except ArgumentError:  # the problem has no plan
                settled = best
            _remember(self._settled_as, key, settled)
        return best if settled.config == best.config else settled

    def fits(self, device: Device) -> bool:
        """Whether the engine was made for this device since the device's last release."""
        return self.device is device and self.generation == device.generation

    def free_workspaces(self) -> None:
        """Release the workspaces that are kept from call to call, because memory is scarce."""
        with self.lock:
            self._workspaces.release()

    def spare(self) -> bool:
        """``free_workspaces`` after an allocation failed; False where no workspace is kept or another thread is computing."""
        if isinstance(self.lock, _ClosedLock) or not self.lock.acquire(blocking=False):
            return False
        try:
            return self._workspaces.spare()
        finally:
            self.lock.release()

    def forget(self) -> None:
        """Drop everything memoised, so that new tuning results are used."""
        with self.lock:
            self._prepared.clear()
            self._assembled.clear()
            self._workspaces.release()
            self._called.clear()
            self._settled_as.clear()
            self._best.clear()
            self._certifier.forget()
            self._untuned.forget()
            self._results = store.known_results()

    def _chosen(self, problem: Problem) -> Choice:
        """The configuration that is tuned or predicted to be the fastest; memoised, because the look-up reads all results."""
        best = self._best.get(problem.key)
        if best is None:
            best = select.choose(workloads.get(problem.workload), problem, self.device.info, self._results(problem.workload))
            _remember(self._best, problem.key, best)
        return best

    def _settled(self, problem: Problem, choice: Choice | None = None, whole: Problem | None = None) -> tuple[Choice, Plan]:
        """``choice``, or else the best known one, where it may be used here, and its flat plan; the default where it may not."""
        proposed = choice or self.choose(problem)
        plan = self._plan(problem, proposed, whole)
        settled = self._certifier.settle(workloads.get(problem.workload), problem, proposed, plan)
        return settled, plan if settled is proposed else self._plan(problem, settled)

    def _plan(self, problem: Problem, choice: Choice, whole: Problem | None = None) -> Plan:
        """The flat plan of a problem, with the configurations of the problems that it calls settled too."""
        workload, info = workloads.get(problem.workload), self.device.info
        plan = workload.plan(problem, choice.config, info)
        calls = [step.problem for step in plan.steps if isinstance(step, Call)]
        if whole is None or not calls:
            return flat_plans.flatten(plan, self._resolve)
        models = [step.problem for step in workload.plan(whole, choice.config, info).steps if isinstance(step, Call)]
        like = {call.key: model for call, model in zip(calls, models, strict=False)}
        return flat_plans.flatten(plan, lambda called: self._resolve_like(called, like.get(called.key, called)))

    def _resolve_like(self, problem: Problem, model: Problem) -> Plan:
        """The plan of a called problem in the configuration of ``model``, where that is legal."""
        if problem.workload == model.workload and problem.key != model.key:
            choice = self._settled(model)[0]
            if choice.config in workloads.get(problem.workload).space(problem, self.device.info):
                return self._plan(problem, choice)
        return self._resolve(problem)

    def _resolve(self, problem: Problem) -> Plan:
        plan = self._called.get(problem.key)
        if plan is None:
            _, plan = self._settled(problem)
            self._called[problem.key] = plan
        return plan

    def _build(self, source: Source) -> Binary:
        return waiting.build(source, self.device, self._cache)


def _remember(memo: dict[Key, Kept], key: Key, value: Kept) -> Kept:
    """Keep a value in a memo and return it; a full memo is emptied first."""
    if len(memo) >= _MAX_PREPARED:
        memo.clear()
    memo[key] = value
    return value


_engines: dict[str, Engine] = {}
_lock = threading.Lock()


def engine_of(device: Device) -> Engine:
    """The engine of a device, made once, and again after the device's release."""
    engine = _engines.get(device.info.id)
    if engine is None or not engine.fits(device):
        with _lock:
            engine = _engines.get(device.info.id)
            if engine is None or not engine.fits(device):
                engine = _engines[device.info.id] = Engine(device)
                device.spare = engine.spare
    return engine


def forget_engines() -> None:
    """Have every engine read the result store again."""
    with _lock:
        engines = list(_engines.values())
    for engine in engines:
        engine.forget()


class _ClosedLock:
    """Replaces an engine's lock when the interpreter exits: a thread that holds the former lock goes on, all others block forever."""

    def __init__(self, former: Any) -> None:
        self._former, self._closes, self._never = former, threading.get_ident(), threading.Lock()
        self._never.acquire()

    def __enter__(self) -> None:
        if not self._former._is_owned() and threading.get_ident() != self._closes:
            self._never.acquire()

    def __exit__(self, *ended: object) -> None: ...


@atexit.register
def _close() -> None:
    """At the interpreter's exit, wait for threads that are inside a driver, and keep others from entering one.

    Python terminates daemon threads when they ask for the GIL, and a driver's stack frames do not survive that: the process would abort. So
    these threads block at a lock that the exiting thread, which itself may pass, never releases.
    """
    for engine in list(_engines.values()):
        if engine.device.abandoned:
            continue
        former, engine.lock = engine.lock, _ClosedLock(engine.lock)
        former.acquire(timeout=_PATIENCE)
