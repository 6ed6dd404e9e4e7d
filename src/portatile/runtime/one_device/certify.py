"""Checks before first use: a configuration that was verified with another driver or kernel text is verified again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import msgspec
import numpy as np

from portatile import program, verify
from portatile.cache import Cache
from portatile.device.base import Device, Memory
from portatile.errors import CompileError, DeviceError, LaunchError, PortatileError
from portatile.execute import Executable
from portatile.flat_plans import sources
from portatile.formatting import spelled
from portatile.guarded_memory import GuardedMemory
from portatile.records import Binary, Plan, Problem, Source, canonical, digest, from_json, to_json
from portatile.select import Choice
from portatile.store import device_key
from portatile.trials import Certificate, Check, Trial, now
from portatile.user_warnings import warn
from portatile.verify import Verdict
from portatile.workload import Expected, Inputs, Workload

_FORMAT = "certificate 2"
_ALL = 1e8  # operations; of smaller problems every result is compared, of larger ones a sample
_LARGEST = 1e10  # operations of the largest problem that is used for a check


class Certifier:
    """Certifies configurations on one device. ``cache`` keeps the certificates, ``build`` compiles, and ``plan`` gives the flat plan of a
    choice.

    A check takes some ten milliseconds more than compiling the kernels. It runs once for each configuration, driver and kernel text. Where
    the device could not run it (perhaps other programs held its memory), it is tried again once in each process. Subclasses override
    ``subjects`` and ``expected`` to say which problems a configuration is checked on.
    """

    advice = "Tune again with `portatile tune {name}`."
    """What the warning advises about a configuration that fails."""

    def __init__(self, device: Device, cache: Cache, build: Callable[[Source], Binary], plan: Callable[[Problem, Choice], Plan]) -> None:
        self._device, self._cache, self._build, self._plan = device, cache, build, plan
        self._known: dict[str, Certificate] = {}

    def forget(self) -> None:
        """Forget all answers: the cache is read again, and configurations that the device could not run are tried again."""
        self._known.clear()

    def settle(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> Choice:
        """``choice`` (with the flat plan ``plan``) where it may be used; otherwise the workload's default, with a warning.

        A choice may be used if it was tuned with the present driver, compiler and kernel text, or if it now computes a small problem
        correctly whose sizes no tile divides: the result within its bound, all canaries intact, inputs unchanged.
        """
        trial = choice.trial
        if trial is None or self._is_verified(trial, problem, choice, plan):
            return choice
        proof = self._certificate(workload, problem, choice, plan)
        if not proof.failure:
            return choice
        info = self._device.info
        config = spelled(choice.config)
        warn(
            f"the configuration of {workload.name} that was tuned {self._difference(trial)} on {info.name}"
            f" ({proof.failure.splitlines()[0]}); the default is used. {self.advice.format(name=workload.name)} It was {config}"
        )
        explanation = f"the default of {workload.name}, because the tuned configuration fails with the present driver and kernel text"
        return Choice(workload.default(problem, info), "default", explanation)

    def subjects(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> list[tuple[Problem, Plan]]:
        """The problems that a configuration is checked on, with their flat plans; at least one. Here it is one small problem with awkward
        sizes.

        Raises LaunchError where there is none.
        """
        return [self._small_problem(workload, problem, choice, plan)]

    def expected(self, workload: Workload, problem: Problem, inputs: Inputs, rng: np.random.Generator) -> dict[str, Expected]:
        """The expected values of each output, sampled for a large problem. Raises LaunchError where they cannot be computed now."""
        return workload.reference(problem, inputs, rng if workload.flops(problem) > _ALL else None)

    def _difference(self, trial: Trial) -> str:
        """How the present driver, compiler or kernel text differs from that of the tuning, in words for the warning."""
        then, info = trial.device, self._device.info
        for what, old, new in (("driver", then.driver, info.driver), ("compiler", then.compiler, info.compiler)):
            if old != new:
                return f"with {what} {old} fails with {new}"
        return "with another kernel text fails with this one" if trial.fully_checked else "without all of its checks fails one"

    def _is_verified(self, trial: Trial, problem: Problem, choice: Choice, plan: Plan) -> bool:
        """Whether the trial was verified with the present driver, compiler and kernel text."""
        info = self._device.info
        if (trial.device.driver, trial.device.compiler) != (info.driver, info.compiler) or device_key(trial.device) != device_key(info):
            return False
        if not trial.fully_checked:
            return False
        if trial.problem.key != problem.key:
            try:
                plan = self._plan(trial.problem, choice)
            except (PortatileError, KeyError):  # the problem belongs to another version of the workload
                return False
        return trial.source == _source(plan)

    def _certificate(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> Certificate:
        """The certificate of a configuration, made now if there is none; looked up by its problem, then by the problem it is checked on."""
        key = self._key(problem, choice, _source(plan))
        certificate = self._cached(key)
        if certificate is None:
            try:
                subjects = self.subjects(workload, problem, choice, plan)
            except LaunchError as error:
                info = self._device.info
                certificate = self._known[key] = Certificate(info.driver, info.compiler, "", (), str(error), now(), passing=True)
                return certificate
            small, trying = subjects[0]
            source = _source(trying)
            checked = self._key(small, choice, source)
            certificate = self._cached(checked) or self._examine(workload, subjects, choice, source)
            for name in (checked, key):
                self._known[name] = certificate
                if not certificate.passing:
                    self._cache.put(name, to_json(certificate))
        return certificate

    def _small_problem(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> tuple[Problem, Plan]:
        """A problem to check the configuration on, and its plan: small, legal for the configuration, and preferably with the kernels of
        ``plan``.

        Kernels that ``plan`` uses are built anyway, and are the ones that will run. So the candidates are, in this order: the largest small
        problem with these kernels, the problem made as small as these kernels allow, the largest small problem, the problem made as small
        as stays legal.
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

    def _cached(self, key: str) -> Certificate | None:
        if key not in self._known:
            raw = self._cache.get(key)
            try:
                certificate = None if raw is None else from_json(raw, Certificate)
            except msgspec.MsgspecError:
                certificate = None  # written by another version
            if certificate is None:
                return None
            self._known[key] = certificate
        return self._known[key]

    def _examine(self, workload: Workload, subjects: list[tuple[Problem, Plan]], choice: Choice, source: str) -> Certificate:
        info, failure, passing = self._device.info, "", False
        checks: list[Check] = []
        try:
            for subject, plan in subjects:
                bound = workload.bound(subject, choice.config)
                verdict, compared = self._run(workload, subject, plan, bound)
                if not verdict.ok:
                    failure = verdict.message
                    break
                if compared:
                    checks.append(Check(subject.sizes, verdict.error, bound))
        except CompileError as error:
            failure = str(error)
        except (LaunchError, DeviceError) as error:
            failure, passing = str(error), True
        return Certificate(info.driver, info.compiler, source, tuple(checks), failure, now(), passing)

    def _run(self, workload: Workload, problem: Problem, plan: Plan, bound: float) -> tuple[Verdict, bool]:
        """Compute the problem on poisoned, guarded memory and compare; also returns whether there was anything to compare with."""
        rng = np.random.default_rng(0)
        inputs = workload.inputs(problem, rng)
        expected = self.expected(workload, problem, inputs, rng)
        roles = {operand.name: operand.role for operand in workload.operands_of(problem.options)}
        forms = {operand.name: operand.form for operand in workload.operands_of(problem.options) if operand.form is not None}
        memory: dict[str, Memory] = {}
        guards: dict[str, GuardedMemory] = {}
        verdicts: list[Verdict] = []
        with self._device.queue() as queue, Executable(self._device, plan, self._build, guard=True) as executable, ExitStack() as stack:
            for name, array in inputs.operands.items():
                if name in forms:
                    memory[name] = stack.enter_context(self._device.image_of(forms[name]))
                else:
                    guards[name] = stack.enter_context(GuardedMemory(self._device, queue, array.nbytes))
                    memory[name] = guards[name].memory
                queue.upload(memory[name], np.ascontiguousarray(array))
            executable.run(queue, memory, inputs.scalars)
            for name, array in inputs.operands.items():
                after = np.empty(array.shape, array.dtype)
                queue.download(after, memory[name])
                if name in guards and (wrote := guards[name].out_of_bounds(queue, name, array.itemsize)) is not None:
                    verdicts.append(Verdict(False, float("inf"), wrote))
                if name in expected:
                    verdicts.append(verify.compare(after, expected[name], bound, name))
                elif roles.get(name, "in") == "in":
                    verdicts.append(verify.unchanged(name, array, after))
            verdicts.append(executable.check_temporaries(queue))
        return verify.worst(verdicts), bool(expected)


def _smaller(workload: Workload, problem: Problem, odd: int, fits: Callable[[Problem], bool]) -> Problem:
    """The problem with each size halved as often as ``fits`` allows; ``odd`` makes sizes odd."""
    smallest = problem
    for name in problem.sizes:
        while smallest.sizes[name] > 1:
            half = {**smallest.sizes, name: (smallest.sizes[name] // 2) | odd}
            smaller = workload.problem(half, problem.dtype, problem.options)
            if half == smallest.sizes or not fits(smaller):
                break
            smallest = smaller
    return smallest


def _source(plan: Plan) -> str:
    return program.source_hash(tuple(sources(plan)))
