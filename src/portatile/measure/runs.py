"""One configuration of one problem, checked and then timed in this process, where the caller owns the device."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from portatile import cache, execute, program, select, store, verify, workloads
from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.execute import Executable
from portatile.records import Binary, Config, Problem, Source
from portatile.select import Choice
from portatile.workload import Inputs

BURST = 0.005
"""Seconds of back-to-back runs between two readings of the clock: long beside its resolution and a launch, and short enough that on
a busy machine some are not disturbed."""

_MOST_RUNS = 4096


@dataclass(frozen=True)
class Timed:
    """``samples`` are seconds per run, each the mean of a burst; ``error`` is the largest in units of its bound."""

    problem: Problem
    config: Config
    samples: tuple[float, ...]
    error: float

    @property
    def best(self) -> float:
        """Seconds of the fastest."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """Seconds of the middle one."""
        return float(np.median(self.samples))


@dataclass(frozen=True)
class Length:
    """How long to measure: at least ``samples`` bursts of ``burst`` seconds, and more until ``seconds`` are over."""

    samples: int = 5
    seconds: float = 0.2
    burst: float = BURST


def known(problem: Problem, device: Device) -> Choice:
    """The best configuration known for a problem on the device: tuned, carried over, or the default."""
    results = store.known_results()
    return select.choose(workloads.get(problem.workload), problem, device.info, results(problem.workload))


def loaded(device: Device, problem: Problem, config: Config, options: tuple[str, ...] = ()) -> Executable:
    """The problem's launches on the device; problems that they call take the best configuration known for them.

    ``options`` for the compiler are added to each source's own, as OpenCL spells them (``-cl-fast-relaxed-math``).
    """
    binaries = cache.default()
    plan = workloads.get(problem.workload).plan(problem, config, device.info)
    flat = execute.flatten(plan, select.resolver(device.info, store.known_results()))

    def build(source: Source) -> Binary:
        return program.build(replace(source, options=(*source.options, *options)), device.target, binaries)

    return Executable(device, flat, build)


@contextmanager
def placed(device: Device, queue: Queue, inputs: Inputs) -> Iterator[Mapping[str, Memory]]:
    """The operands in device memory, uploaded."""
    memory: dict[str, Memory] = {}
    try:
        for name, array in inputs.operands.items():
            memory[name] = device.allocate(max(array.nbytes, array.itemsize))
            if array.size:
                queue.upload(memory[name], array)
        yield memory
    finally:
        for block in memory.values():
            block.release()


@dataclass(frozen=True)
class Way:
    """How to measure: with compiler ``options``, on operands of ``seed``; ``strict``: a result outside its error bound is an error.

    Options that give accuracy up need ``strict=False``: the error is then reported, and may be above 1.
    """

    length: Length = field(default_factory=Length)
    options: tuple[str, ...] = ()
    seed: int = 0
    strict: bool = True


def timed(device: Device, problem: Problem, config: Config | None = None, way: Way | None = None) -> Timed:
    """Check a configuration (default: the best known) on random operands, then time it back to back on an in-order queue.

    Raises DeviceError where a result is outside its error bound, before anything is timed, and where the clock stands still.
    """
    way = way or Way()
    workload = workloads.get(problem.workload)
    config = known(problem, device).config if config is None else config
    rng = np.random.default_rng(way.seed)
    inputs = workload.usual_inputs(problem, rng)
    with (
        loaded(device, problem, config, way.options) as executable,
        device.queue(profiling=True) as queue,
        placed(device, queue, inputs) as memory,
    ):
        executable.run(queue, memory, inputs.scalars)
        queue.finish()
        verdicts = []
        for name, expected in workload.reference(problem, inputs, rng).items():
            got = np.empty_like(inputs.operands[name])
            if got.size:
                queue.download(got, memory[name])
            verdicts.append(verify.compare(got, expected, workload.bound(problem, config), name))
        verdict = verify.worst(verdicts)
        if way.strict and not verdict.ok:
            raise DeviceError(f"{problem.workload} computes wrongly on {device.info.id} with {dict(config)}: {verdict.message}")
        return Timed(problem, dict(config), _samples(executable, queue, memory, inputs, way.length), verdict.error)


def _samples(executable: Executable, queue: Queue, memory: Mapping[str, Memory], inputs: Inputs, length: Length) -> tuple[float, ...]:
    def burst(runs: int) -> float:
        start = queue.marker()
        for _ in range(runs):
            executable.run(queue, memory, inputs.scalars)
        end = queue.marker()
        end.wait()
        return end.seconds_since(start) / runs

    first = burst(1)
    runs = min(max(math.ceil(length.burst / max(first, 1e-7)), 1), _MOST_RUNS)
    ends = time.perf_counter() + length.seconds
    samples: list[float] = []
    while len(samples) < length.samples or time.perf_counter() < ends:
        samples.append(burst(runs))
    if min(samples) <= 0:
        raise DeviceError(f"the clock of {queue.device.info.id} says that {runs} runs took no time: its readings cannot be used")
    return tuple(samples)
