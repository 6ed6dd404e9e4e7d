"""The phases of one run by the host's clock, from the search for a platform to the result on the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import cache, device, flat_plans, program, select, store, verify, workloads
from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.execute import Executable
from portatile.records import Binary, Config, DeviceInfo, Plan, Problem, Source
from portatile.workload import Inputs

ENOUGH = 2.0  # seconds of further runs after which none follows: their scatter is small by then
PHASES = ("platform", "context", "queue", "build", "extract", "allocate", "transfer in", "kernel", "transfer out")


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds of each of ``PHASES`` and, with ``repeat``, of further runs of the kernel; ``error`` is in units of its bound.

    ``platform`` is the search for devices, which a process does once; ``build`` compiles, or takes binaries from the cache; ``extract``
    loads them and extracts their kernels.
    """

    problem: Problem
    config: Config
    device: DeviceInfo
    seconds: Mapping[str, float]
    again: tuple[float, ...]
    error: float

    @property
    def total(self) -> float:
        """Seconds of all phases."""
        return sum(self.seconds.values())


@dataclass(frozen=True)
class PhasesRequest:
    """The run to measure: ``choose`` returns problem and configuration once the device is known.

    ``cold`` compiles without the cache of binaries; ``repeat`` adds this many runs of the kernel, each timed separately, or fewer once
    these took ``ENOUGH`` seconds together. Compiler ``options`` are added to each source's own. Unless ``strict``, a result outside its
    error bound is reported rather than refused.
    """

    choose: Callable[[Device], tuple[Problem, Config]]
    selector: str | None = None
    cold: bool = False
    repeat: int = 3
    seed: int = 0
    options: tuple[str, ...] = ()
    strict: bool = True


def split(request: PhasesRequest) -> tuple[PhaseTimes, dict[str, NDArray[Any]]]:
    """Run once, phase by phase, check the result, and return the phases and the operands' memory after the run.

    Raises DeviceError if the result is outside its error bound.
    """
    seconds = dict.fromkeys(PHASES, 0.0)
    with _timed_phase(seconds, "platform"):
        opened = device.get(request.selector)
    with _timed_phase(seconds, "context"):
        opened.allocate(1).release()
    with _timed_phase(seconds, "queue"):
        queue = opened.queue(profiling=False)
        queue.finish()
    with queue:
        problem, config = request.choose(opened)
        workload = workloads.get(problem.workload)
        rng = np.random.default_rng(request.seed)
        inputs = workload.usual_inputs(problem, rng)
        plan = flat_plans.flatten(workload.plan(problem, config, opened.info), select.resolver(opened.info, store.known_results()))
        executable = _built(request, opened, plan, seconds)
        roles = {operand.name: operand.role for operand in workload.operands_of(problem.options)}
        after, again = _run(executable, queue, inputs, roles, request.repeat, seconds)
        bound = workload.bound(problem, config)
        expected = workload.reference(problem, inputs, rng)
        verdict = verify.worst([verify.compare(after[name], values, bound, name) for name, values in expected.items()])
        if request.strict and not verdict.ok:
            raise DeviceError(f"{problem.workload} computes wrongly on {opened.info.id} with {dict(config)}: {verdict.message}")
    return PhaseTimes(problem, dict(config), opened.info, seconds, again, verdict.error), {**inputs.operands, **after}


def _built(request: PhasesRequest, opened: Device, plan: Plan, seconds: dict[str, float]) -> Executable:
    """Compile the plan's texts, or take them from the cache, and load them."""
    binaries = None if request.cold else cache.default()

    def build(source: Source) -> Binary:
        with _timed_phase(seconds, "build"):
            return program.build(replace(source, options=(*source.options, *request.options)), opened.target, binaries)

    with _timed_phase(seconds, "extract"):
        executable = Executable(opened, plan, build)
    seconds["extract"] -= seconds["build"]
    return executable


def _run(
    executable: Executable, queue: Queue, inputs: Inputs, roles: Mapping[str, str], repeat: int, seconds: dict[str, float]
) -> tuple[dict[str, NDArray[Any]], tuple[float, ...]]:
    """Transfers and the kernel once, then up to ``repeat`` more runs; returns the operands after the first run, and the seconds of the
    others.

    The executable and its operands' memory are released.
    """
    memory: dict[str, Memory] = {}
    try:
        with _timed_phase(seconds, "allocate"):
            for name, array in inputs.operands.items():
                memory[name] = executable.device.allocate(max(array.nbytes, array.itemsize))
            queue.finish()
        with _timed_phase(seconds, "transfer in"):
            for name, array in inputs.operands.items():
                if array.size and roles[name] != "out":
                    queue.upload(memory[name], array)
            queue.finish()
        with _timed_phase(seconds, "kernel"):
            executable.run(queue, memory, inputs.scalars)
            queue.finish()
        after = {name: np.empty_like(array) for name, array in inputs.operands.items() if roles[name] != "in"}
        with _timed_phase(seconds, "transfer out"):
            for name, array in after.items():
                if array.size:
                    queue.download(array, memory[name])
        again: list[float] = []
        while len(again) < repeat and sum(again) < ENOUGH:
            again.append(_again(executable, queue, memory, inputs.scalars))
        return after, tuple(again)
    finally:
        executable.release()
        for block in memory.values():
            block.release()


@contextmanager
def _timed_phase(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[phase] += time.perf_counter() - start


def _again(executable: Executable, queue: Queue, memory: Mapping[str, Memory], scalars: Mapping[str, float]) -> float:
    start = time.perf_counter()
    executable.run(queue, memory, scalars)
    queue.finish()
    return time.perf_counter() - start
