"""One configuration of one problem on one device: poisoned, guarded, run, compared. What the device tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from portatile import program, verify, workloads
from portatile.device.base import Device
from portatile.device.module import Module
from portatile.execute import Executable
from portatile.flat_plans import flatten
from portatile.guarded_memory import GuardedMemory
from portatile.records import Binary, Config, Plan, Problem, Source
from portatile.verify import Verdict
from portatile.workload import Inputs, Workload
from portatile.workloads import operands
from support.seeds import sometimes

Alter = Callable[[Inputs], Inputs]


def unread(workload: Workload, problem: Problem, rng: np.random.Generator, alpha: float, beta: float) -> Alter:
    """Inputs of a product with these factors: random, but NaN in what a factor of 0 says is not read."""

    def alter(inputs: Inputs) -> Inputs:
        memory = {}
        for name, given in inputs.operands.items():
            ignored = beta == 0 if name == "c" else alpha == 0
            random = operands.random(rng, problem.layout[name], workload.shapes(problem)[name], problem.dtype)
            memory[name] = np.full_like(given, np.nan) if ignored else random
        return Inputs(memory, {"alpha": alpha, "beta": beta})

    return alter


def maybe(device: Device, share: float = 1 / 4) -> None:
    """Skip most of many alike tests, others for each run seed, on a device where compiling takes long; see ``sometimes``."""
    if device.target.defers:
        sometimes(share, beside_a_gpu=True)


_MOST_DEVICES, _MOST_MODULES = 4, 64
_MODULES: dict[tuple[Device, int], dict[Source, Module]] = {}
"""What is loaded on a device since its last release: built and loaded once for all problems that run it."""


def modules(device: Device) -> dict[Source, Module]:
    """What is loaded on a device, which an Executable adds to; few enough that a long session does not keep every kernel it saw."""
    result = _MODULES.setdefault((device, device.generation), {})
    if len(_MODULES) > _MOST_DEVICES:
        _unload(next(iter(_MODULES)))
    if len(result) > _MOST_MODULES:
        _unload((device, device.generation))
        result = _MODULES.setdefault((device, device.generation), {})
    return result


def forget() -> None:
    """Unload everything."""
    for key in list(_MODULES):
        _unload(key)


def _unload(key: tuple[Device, int]) -> None:
    device, generation = key
    for module in _MODULES.pop(key).values():
        if generation == device.generation:  # what is older went with the device's release
            module.release()


def draft(device: Device, source: Source) -> Binary:
    """Compiled to be loaded here, once: PoCL makes a binary by compiling every kernel once more, for work-groups of any size."""
    device.target.draft = True
    try:
        return program.build(source, device.target, None)
    finally:
        device.target.draft = False


def default_plan(device: Device) -> Callable[[Problem], Plan]:
    """What a Call is resolved to: the default of the workload that it names."""

    def resolve(problem: Problem) -> Plan:
        callee = workloads.get(problem.workload)
        return callee.plan(problem, callee.default(problem, device.info), device.info)

    return resolve


def run(device: Device, workload: Workload, problem: Problem, config: Config, inputs: Inputs) -> tuple[dict[str, np.ndarray], Verdict]:
    """The operands' memory after a run, and whether all canaries, also those around temporaries, are alive."""
    plan = flatten(workload.plan(problem, config, device.info), default_plan(device))
    after: dict[str, np.ndarray] = {}
    verdicts = []
    build = partial(draft, device)
    with device.queue() as queue, Executable(device, plan, build, guard=True, modules=modules(device)) as executable:
        guards = {name: GuardedMemory(device, queue, array.nbytes) for name, array in inputs.operands.items()}
        for name, array in inputs.operands.items():
            queue.upload(guards[name].memory, np.ascontiguousarray(array))
        executable.run(queue, {name: guard.memory for name, guard in guards.items()}, inputs.scalars)
        for name, array in inputs.operands.items():
            after[name] = np.empty(array.shape, array.dtype)
            queue.download(after[name], guards[name].memory)
            wrote = guards[name].out_of_bounds(queue, name, array.itemsize)
            verdicts.append(Verdict(True) if wrote is None else Verdict(False, float("inf"), wrote))
            guards[name].release()
        verdicts.append(executable.check_temporaries(queue))
    return after, verify.worst(verdicts)


def check(
    device: Device, workload: Workload, problem: Problem, config: Config, rng: np.random.Generator, alter: Alter | None = None
) -> Verdict:
    """Whether the configuration computes the problem on random inputs, changed by ``alter`` where it is given.

    Outputs within the bound everywhere, padding and inputs bit for bit what they were, all canaries alive.
    """
    inputs = workload.inputs(problem, rng)
    if alter is not None:
        inputs = alter(inputs)
    expected = workload.reference(problem, inputs)
    after, canaries = run(device, workload, problem, config, inputs)
    verdicts = [canaries]
    for name, array in inputs.operands.items():
        if name in expected:
            verdicts.append(verify.compare(after[name], expected[name], workload.bound(problem, config), name))
        else:
            verdicts.append(verify.unchanged(name, array, after[name]))
    return verify.worst(verdicts)
