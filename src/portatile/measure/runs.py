"""One configuration of one problem, checked and then timed in this process, where the caller owns the device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from portatile import cache, flat_plans, program, select, store, verify, workloads
from portatile.device.base import Device, Memory, Queue
from portatile.device.clock import back_to_back
from portatile.errors import DeviceError
from portatile.execute import Executable
from portatile.records import Binary, Config, Plan, Problem, Source
from portatile.select import Choice
from portatile.workload import Expected, Inputs, Workload

BURST = 0.005
"""Seconds of a burst of consecutive runs: long compared with the clock's resolution and a launch, and short enough that on a busy machine
some bursts are undisturbed.
"""

_MOST_RUNS = 4096
_KEPT = 1 << 30  # bytes of operands and references that are kept for the next device


@dataclass(frozen=True)
class Timed:
    """``samples`` are seconds per run, each the mean of a burst; ``error`` is the largest in units of its bound."""

    problem: Problem
    config: Config
    samples: tuple[float, ...]
    error: float

    @property
    def best(self) -> float:
        """Seconds of the fastest sample."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """Seconds of the median sample."""
        return float(np.median(self.samples))


@dataclass(frozen=True)
class MeasurementLength:
    """The length of a measurement: at least ``samples`` bursts of ``burst`` seconds, and more until ``seconds`` have passed.

    After ``most`` seconds, ``enough`` samples suffice: runs that take seconds each scatter little.
    """

    samples: int = 5
    seconds: float = 0.2
    burst: float = BURST
    most: float = math.inf
    enough: int = 3


def known(problem: Problem, device: Device) -> Choice:
    """The best configuration known for a problem on the device: tuned, from a near problem, or the default."""
    results = store.known_results()
    return select.choose(workloads.get(problem.workload), problem, device.info, results(problem.workload))


def loaded(device: Device, problem: Problem, config: Config, options: tuple[str, ...] = ()) -> Executable:
    """The problem's launches on the device; problems that they call use the best configuration known for them.

    Compiler ``options`` are added to each source's own, in OpenCL's spelling (``-cl-fast-relaxed-math``).
    """
    plan = workloads.get(problem.workload).plan(problem, config, device.info)
    return loaded_plan(device, flat_plans.flatten(plan, select.resolver(device.info, store.known_results())), options)


def loaded_plan(device: Device, plan: Plan, options: tuple[str, ...] = ()) -> Executable:
    """The launches of a flat plan on the device; ``options`` as for ``loaded``.

    If the driver would compile again to make a binary, none is made for the cache: measured kernels run only in this process.
    """
    binaries = cache.default()

    def build(source: Source) -> Binary:
        return program.build(replace(source, options=(*source.options, *options)), device.target, binaries, lambda binary, keep: None)

    return Executable(device, plan, build)


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


def bursts(queue: Queue, clock: Queue, run: Callable[[], object], length: MeasurementLength) -> tuple[float, ...]:
    """Seconds of each ``run``, which queues work on a queue without profiling, as in normal use; ``clock`` is the profiling queue.

    Each sample is the mean of a burst of consecutive runs. Raises DeviceError if the clock does not advance.
    """
    first = back_to_back(queue, clock, run, 1)
    runs = min(max(math.ceil(length.burst / max(first, 1e-7)), 1), _MOST_RUNS)
    started = time.perf_counter()
    samples: list[float] = []
    while len(samples) < length.samples or time.perf_counter() - started < length.seconds:
        if len(samples) >= length.enough and time.perf_counter() - started > length.most:
            break
        samples.append(back_to_back(queue, clock, run, runs))
    if min(samples) <= 0:
        raise DeviceError(f"by the clock of {queue.device.info.id}, {runs} runs took no time: it cannot be used")
    return tuple(samples)


def timed_on_host(run: Callable[[], object], length: MeasurementLength) -> list[float]:
    """Seconds of each run of a computation on the host, as many as ``length`` asks for."""
    samples: list[float] = []
    ends = time.perf_counter() + length.seconds
    while len(samples) < length.samples or time.perf_counter() < ends:
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return samples


@dataclass(frozen=True)
class MeasurementOptions:
    """The manner of a measurement: compiler ``options``, the ``seed`` of the operands; ``strict``: a result outside its error bound is an
    error.

    Options that reduce accuracy need ``strict=False``: the error is then reported, and may be above 1.
    """

    length: MeasurementLength = field(default_factory=MeasurementLength)
    options: tuple[str, ...] = ()
    seed: int = 0
    strict: bool = True


@dataclass(frozen=True)
class PreparedRun:
    """A problem's operands on a device, and the expected outputs. Made by ``prepared``."""

    device: Device
    problem: Problem
    inputs: Inputs
    expected: Mapping[str, Expected]
    memory: Mapping[str, Memory]
    queue: Queue
    clock: Queue

    def timed(self, config: Config, way: MeasurementOptions | None = None) -> Timed:
        """Check a configuration, then time consecutive runs on an in-order queue.

        Raises DeviceError if a result is outside its error bound, before anything is timed, and if the clock does not advance.
        """
        way, problem = way or MeasurementOptions(), self.problem
        with loaded(self.device, problem, config, way.options) as executable:
            error = self.check(executable, workloads.get(problem.workload).bound(problem, config), way.strict, str(dict(config)))
            return Timed(problem, dict(config), self.samples(executable, way.length), error)

    def check(self, executable: Executable, bound: float, strict: bool = True, label: str = "") -> float:
        """Run once on fresh outputs; returns the largest error in units of its bound. Above 1 raises DeviceError if ``strict``."""
        for name in self.expected:  # an earlier result must not be mistaken for this one
            if self.inputs.operands[name].size:
                self.queue.upload(self.memory[name], self.inputs.operands[name])
        executable.run(self.queue, self.memory, self.inputs.scalars)
        self.queue.finish()
        verdicts = []
        for name, expected in self.expected.items():
            output = np.empty_like(self.inputs.operands[name])
            if output.size:
                self.queue.download(output, self.memory[name])
            verdicts.append(verify.compare(output, expected, bound, name))
        verdict = verify.worst(verdicts)
        if strict and not verdict.ok:
            raise DeviceError(f"{self.problem.workload} computes wrongly on {self.device.info.id} with {label}: {verdict.message}")
        return verdict.error

    def samples(self, executable: Executable, length: MeasurementLength) -> tuple[float, ...]:
        """Seconds per run; see ``bursts``."""
        return bursts(self.queue, self.clock, lambda: executable.run(self.queue, self.memory, self.inputs.scalars), length)


@contextmanager
def prepared(device: Device, problem: Problem, seed: int = 0) -> Iterator[PreparedRun]:
    """Random operands on the device, for any number of configurations."""
    host = _on_the_host(problem, seed)
    with device.queue() as queue, device.queue(profiling=True) as clock, placed(device, queue, host.inputs) as memory:
        yield PreparedRun(device, problem, host.inputs, host.expected, memory, queue, clock)


@dataclass(frozen=True)
class _HostSide:
    """Random operands of a problem and its expected outputs, which are never modified."""

    workload: Workload
    problem: Problem
    seed: int
    inputs: Inputs
    expected: Mapping[str, Expected]


_last: list[_HostSide] = []  # at most one: most studies take one problem from device to device


def _on_the_host(problem: Problem, seed: int) -> _HostSide:
    """Operands and reference, made once for consecutive devices; large ones are not kept."""
    workload = workloads.get(problem.workload)
    for last in _last:
        if last.workload is workload and (last.problem, last.seed) == (problem, seed):
            return last
    _last.clear()
    rng = np.random.default_rng(seed)
    inputs = workload.usual_inputs(problem, rng)
    made = _HostSide(workload, problem, seed, inputs, workload.reference(problem, inputs, rng))
    size = sum(array.nbytes for array in inputs.operands.values())
    size += sum(expected.values.nbytes + expected.scale.nbytes for expected in made.expected.values())
    if size <= _KEPT:
        _last.append(made)
    return made


def timed(device: Device, problem: Problem, config: Config | None = None, way: MeasurementOptions | None = None) -> Timed:
    """Check a configuration (default: the best known) on random operands, then time it; see ``PreparedRun.timed``."""
    way = way or MeasurementOptions()
    with prepared(device, problem, way.seed) as ready:
        return ready.timed(known(problem, device).config if config is None else config, way)
