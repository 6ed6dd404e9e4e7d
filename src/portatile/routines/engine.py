"""Problems made ready on a device: select, build and load once, run many times. It cannot reach the tuner."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from portatile import cache, execute, program, select, store, workloads
from portatile.device.base import Device, Memory, Queue
from portatile.records import Binary, Plan, Problem, Source, canonical
from portatile.routines.certify import Certifier
from portatile.select import Choice

_MAX_PREPARED = 4096  # problems, each with its kernels and workspace


@dataclass(frozen=True)
class Prepared:
    """A problem that is compiled and loaded on its device."""

    problem: Problem
    choice: Choice
    executable: execute.Executable

    def run(self, queue: Queue, operands: Mapping[str, Memory], scalars: Mapping[str, float]) -> None:
        """Queue the computation; does not wait."""
        self.executable.run(queue, operands, scalars)


class Engine:
    """What is prepared on one device. Safe to use from several threads."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self._prepared: dict[str, Prepared] = {}
        self._cache = cache.default()
        self._results = store.known_results()
        self._certifier = Certifier(device, self._cache, self._build, self._plan)
        self._called: dict[str, Plan] = {}

    def prepare(self, problem: Problem, choice: Choice | None = None) -> Prepared:
        """The problem with ``choice``, else with the best configuration known for it; compiled at the first call, memoised after it."""
        key = problem.key if choice is None else f"{problem.key} {canonical(choice.config)}"
        prepared = self._prepared.get(key)
        if prepared is None:
            with self.lock:
                prepared = self._prepared.get(key)
                if prepared is None:
                    settled, plan = self._settled(problem, choice)
                    executable = execute.Executable(self.device, plan, self._build)
                    if len(self._prepared) >= _MAX_PREPARED:
                        self._prepared.clear()
                    prepared = self._prepared[key] = Prepared(problem, settled, executable)
        return prepared

    def choose(self, problem: Problem) -> Choice:
        """The configuration for a problem, and why."""
        return select.choose(workloads.get(problem.workload), problem, self.device.info, self._results(problem.workload))

    def forget(self) -> None:
        """Drop what is memoised, so that results tuned since are used."""
        with self.lock:
            self._prepared.clear()
            self._called.clear()
            self._results = store.known_results()

    def _settled(self, problem: Problem, choice: Choice | None = None) -> tuple[Choice, Plan]:
        """``choice``, else the best known, where it may be used here, and its flat plan; the default where it may not."""
        wanted = choice or self.choose(problem)
        plan = self._plan(problem, wanted)
        settled = self._certifier.settle(workloads.get(problem.workload), problem, wanted, plan)
        return settled, plan if settled is wanted else self._plan(problem, settled)

    def _plan(self, problem: Problem, choice: Choice) -> Plan:
        """The flat plan of a problem; what it calls is settled too."""
        return execute.flatten(workloads.get(problem.workload).plan(problem, choice.config, self.device.info), self._resolve)

    def _resolve(self, problem: Problem) -> Plan:
        plan = self._called.get(problem.key)
        if plan is None:
            _, plan = self._settled(problem)
            self._called[problem.key] = plan
        return plan

    def _build(self, source: Source) -> Binary:
        return program.build(source, self.device.target, self._cache)


_engines: dict[str, Engine] = {}
_lock = threading.Lock()


def engine(device: Device) -> Engine:
    """The engine of a device, made once."""
    found = _engines.get(device.info.id)
    if found is None or found.device is not device:
        with _lock:
            found = _engines.get(device.info.id)
            if found is None or found.device is not device:
                found = _engines[device.info.id] = Engine(device)
    return found


def forget() -> None:
    """Make every engine look at the result store again."""
    with _lock:
        known = list(_engines.values())
    for home in known:
        home.forget()
