"""Nothing is used on the word of another driver or another kernel text: such a configuration is checked once more before its first use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import numpy as np

from portatile import program, verify
from portatile.cache import Cache
from portatile.device.base import Device, Memory
from portatile.errors import CompileError, DeviceError, LaunchError, PortatileError
from portatile.execute import Executable, sources
from portatile.records import Binary, Plan, Problem, Source, canonical, digest, from_json, spelled, to_json
from portatile.select import Choice
from portatile.store import device_key
from portatile.trials import Certificate, Check, Trial
from portatile.verify import GUARD_BYTES, Verdict
from portatile.workload import Workload

_FORMAT = "certificate 2"
_ALL = 1e8  # operations of a problem of which every result is compared; of a larger one some are
_LARGEST = 1e10  # operations of a problem that is still a small one


class Certifier:
    """Looks after one device. ``cache`` remembers what was checked; ``build`` compiles; ``plan`` gives the flat plan of a configuration.

    What it runs takes as long as building the kernels and tens of milliseconds beside that, once for each configuration, driver
    and kernel text; where the device refused to run it, which may pass (memory that others had), once more in each process.
    """

    def __init__(self, device: Device, cache: Cache, build: Callable[[Source], Binary], plan: Callable[[Problem, Choice], Plan]) -> None:
        self._device, self._cache, self._build, self._plan = device, cache, build, plan
        self._known: dict[str, Certificate] = {}

    def forget(self) -> None:
        """Look at the cache again, and try again what the device refused to run."""
        self._known.clear()

    def settle(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> Choice:
        """``choice``, of which ``plan`` is the flat plan, where it may be used; else the workload's default, with a warning.

        It may where it was tuned with the driver, compiler and kernel text of now, or where it computes a small problem that nothing
        divides correctly: result within its bound, all canaries alive, inputs untouched.
        """
        trial = choice.trial
        if trial is None or self._holds(trial, problem, choice, plan):
            return choice
        proof = self._proof(workload, problem, choice, plan)
        if not proof.failure:
            return choice
        info = self._device.info
        config = spelled(choice.config)
        warnings.warn(
            f"the configuration of {workload.name} that was tuned with driver {trial.device.driver} fails with {info.driver} on {info.name}"
            f" ({proof.failure.splitlines()[0]}); the default is used. Tune again with `portatile tune {workload.name}`. It was {config}",
            RuntimeWarning,
            stacklevel=2,
        )
        explanation = f"the default of {workload.name}, for what was tuned fails with this driver"
        return Choice(workload.default(problem, info), "default", explanation)

    def _holds(self, trial: Trial, problem: Problem, choice: Choice, plan: Plan) -> bool:
        """Whether the trial was verified with what is here now."""
        info = self._device.info
        if (trial.device.driver, trial.device.compiler) != (info.driver, info.compiler) or device_key(trial.device) != device_key(info):
            return False
        if not trial.proven:
            return False
        if trial.problem.key != problem.key:
            try:
                plan = self._plan(trial.problem, choice)
            except (PortatileError, KeyError):  # a problem of another version of the workload
                return False
        return trial.source == _source(plan)

    def _proof(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> Certificate:
        """The certificate of a configuration, made now if there is none; found by the problem, then by what it is checked on."""
        key = self._key(problem, choice, _source(plan))
        found = self._remembered(key)
        if found is None:
            small, trying = self._subject(workload, problem, choice, plan)
            source = _source(trying)
            checked = self._key(small, choice, source)
            found = self._remembered(checked) or self._examine(workload, small, choice, trying, source)
            for name in (checked, key):
                self._known[name] = found
                if not found.passing:
                    self._cache.put(name, to_json(found))
        return found

    def _subject(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> tuple[Problem, Plan]:
        """What to check the configuration on, and its plan: small, legal for it, and rather with the very kernels of ``plan``.

        They are what will run, and are built anyway. So the first of: the largest small problem with these kernels, the problem made as
        small as they allow, the largest small problem, the problem made as small as stays legal.
        """

        def legal(small: Problem) -> bool:
            return choice.config in workload.space(small, self._device.info)

        def same(small: Problem) -> bool:
            return legal(small) and set(sources(plan)).issuperset(sources(self._plan(small, choice)))

        awkward = sorted(filter(legal, workload.awkward(problem)), key=workload.flops, reverse=True)
        small = next(filter(same, awkward), None)
        if small is None:
            small = _smaller(workload, problem, 0, same)
            if workload.flops(small) > _LARGEST:
                small = awkward[0] if awkward else _smaller(workload, problem, 1, legal)
        return small, self._plan(small, choice)

    def _key(self, problem: Problem, choice: Choice, source: str) -> str:
        info = self._device.info
        return digest(_FORMAT, device_key(info), info.driver, info.compiler, problem.key, canonical(choice.config), source)

    def _remembered(self, key: str) -> Certificate | None:
        if key not in self._known:
            raw = self._cache.get(key)
            try:
                found = None if raw is None else from_json(raw, Certificate)
            except msgspec.MsgspecError:
                found = None  # written by another version
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]

    def _examine(self, workload: Workload, subject: Problem, choice: Choice, plan: Plan, source: str) -> Certificate:
        info, failure, passing = self._device.info, "", False
        checks: tuple[Check, ...] = ()
        bound = workload.bound(subject, choice.config)
        try:
            verdict = self._run(workload, subject, plan, bound)
            checks = (Check(subject.sizes, verdict.error, bound),) if verdict.ok else ()
            failure = "" if verdict.ok else verdict.message
        except CompileError as error:
            failure = str(error)
        except (LaunchError, DeviceError) as error:
            failure, passing = str(error), True
        return Certificate(info.driver, info.compiler, source, checks, failure, _now(), passing)

    def _run(self, workload: Workload, problem: Problem, plan: Plan, bound: float) -> Verdict:
        """Compute the problem on random operands, guarded and poisoned, and compare."""
        rng = np.random.default_rng(0)
        inputs = workload.inputs(problem, rng)
        expected = workload.reference(problem, inputs, rng if workload.flops(problem) > _ALL else None)
        memory: dict[str, Memory] = {}
        verdicts: list[Verdict] = []
        with self._device.queue() as queue, Executable(self._device, plan, self._build, guard=True) as executable:
            try:
                for name, array in inputs.operands.items():
                    raw = verify.guarded(array)
                    memory[name] = self._device.allocate(raw.nbytes)
                    queue.upload(memory[name], raw)
                executable.run(queue, memory, inputs.scalars)
                for name, array in inputs.operands.items():
                    raw = np.empty(memory[name].nbytes, np.uint8)
                    queue.download(raw, memory[name])
                    verdicts.append(verify.guard_verdict(name, raw[-GUARD_BYTES:]))
                    after = raw[: array.nbytes].view(array.dtype)
                    if name in expected:
                        verdicts.append(verify.compare(after, expected[name], bound, name))
                    else:
                        verdicts.append(verify.unchanged(name, array, after))
                verdicts.append(executable.check_temporaries(queue))
            finally:
                for block in memory.values():
                    block.release()
        return verify.worst(verdicts)


def _smaller(workload: Workload, problem: Problem, odd: int, fits: Callable[[Problem], bool]) -> Problem:
    """The problem with each size halved as often as it fits; ``odd`` makes sizes odd."""
    found = problem
    for name in problem.sizes:
        while found.sizes[name] > 1:
            half = {**found.sizes, name: (found.sizes[name] // 2) | odd}
            smaller = workload.problem(half, problem.dtype, problem.options)
            if half == found.sizes or not fits(smaller):
                break
            found = smaller
    return found


def _source(plan: Plan) -> str:
    return program.source_hash(tuple(sources(plan)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
