"""Products timed through a GPU's OpenCL: checked, then queued behind a long copy, so that no launch waits for the host."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import in_torch
from portatile import cache, device, execute, flat_plans, program, verify, workloads
from portatile.device.base import Device, Memory
from portatile.device.clock import back_to_back
from portatile.dtypes import product
from portatile.records import DeviceInfo, Launch, Plan, Problem, Source
from portatile.workload import Inputs

LONG = 4 << 30
"""Bytes of the copy, a millisecond at least."""

REST = 0.08
"""Seconds in which the clock comes back after a run without rests."""
LARGE = 1e-2
"""Operations / 10^12 from which the power limit may bind."""
_MOST = 100  # launches that are queued meanwhile
_DRAWN = 1 << 22  # random numbers, which come again in large operands
_BURSTS = 7


def opened(kind: str = "gpu") -> Device | None:
    """The first OpenCL device of a kind, preferably one that CUDA sees too; None if there is none."""
    every = device.devices()
    through_cuda = {one.info.physical_id for one in every if one.info.backend == "cuda"}
    found = [one for one in every if (one.info.backend, one.info.kind) == ("opencl", kind)]
    return min(found, key=lambda one: one.info.physical_id not in through_cuda, default=None)


def plan(problem: Problem, info: DeviceInfo) -> Plan:
    """The launches of the default of a problem."""
    workload = workloads.get(problem.workload)
    return flat_plans.flatten(workload.plan(problem, workload.default(problem, info), info), lambda called: plan(called, info))


def compiled(problems: Iterable[Problem], info: DeviceInfo, kind: str = "gpu") -> list[str]:
    """Compile the kernels of the problems' defaults into the cache, in some processes; returns messages for those that do not build."""
    texts = list({step.source for one in problems for step in plan(one, info).steps if isinstance(step, Launch)})
    count = max(1, min(12, (os.cpu_count() or 2) // 2))
    with ProcessPoolExecutor(count, mp_context=mp.get_context("spawn")) as pool:
        return [said for each in pool.map(_compile, [texts[first::count] for first in range(count)], [kind] * count) for said in each]


def launches(flops: float) -> int:
    """Runs of so many operations in a burst."""
    return int(max(2, min(_MOST, 4e-3 / max(flops / 5e14, 5e-6))))


def _compile(texts: list[Source], kind: str) -> list[str]:
    found, said = opened(kind), []
    assert found is not None
    for text in texts:
        try:
            found.target.settle(program.build(text, found.target, cache.default()))
        except Exception as error:  # what does not build is a result
            said.append(f"{text.file}: {str(error)[:300]} {str(getattr(error, 'log', ''))[:300]}")
    return said


def serve(end: Any, sustained: float, kind: str = "gpu") -> None:
    """The child process: it answers a job with its Tflop/s in bursts and sustained, or with a failure."""
    found = opened(kind)
    assert found is not None
    products = Products(found)
    in_torch.served(end, lambda job: products.rates(job.problem(), sustained))


class Products:
    """Products by default on one device."""

    def __init__(self, opened: Device) -> None:
        self.device, self.queue, self.clock = opened, opened.default_queue(), opened.queue(profiling=True)
        self.long = [opened.allocate(LONG if opened.info.kind == "gpu" else 1 << 20) for _ in range(2)]

    def rates(self, problem: Problem, sustained: float) -> tuple[float, float]:
        """Tera-operations per second of the problem's default, in bursts and during ``sustained`` seconds without rests (0: none). Raises
        ValueError if its result is wrong.
        """
        workload, inputs = workloads.get(problem.workload), _inputs(problem)

        def check(got: Any) -> None:
            expected = workload.reference(problem, inputs, np.random.default_rng(1))["c"]
            verdict = verify.compare(got, expected, workload.bound(problem, workload.default(problem, self.device.info)), "c")
            if not verdict.ok:
                raise ValueError(verdict.message)

        flops = workload.flops(problem) / 1e12
        burst, long = self.seconds(problem, inputs, check, sustained if flops >= LARGE else 0.0)
        return flops / burst, flops / long if long else 0.0

    def seconds(self, problem: Problem, inputs: Inputs, check: Callable[[Any], None], sustained: float = 0.0) -> tuple[float, float]:
        """Device seconds of a run of the problem's default, whose C ``check`` sees first: of bursts, and of runs for ``sustained`` seconds
        without a rest, 0 if these are 0.
        """
        memory: dict[str, Memory] = {}
        for name, array in inputs.operands.items():
            memory[name] = self.device.allocate(array.nbytes)
            self.queue.upload(memory[name], array)
        time.sleep(REST if sustained else 0.0)
        executable = execute.Executable(
            self.device, plan(problem, self.device.info), lambda text: program.build(text, self.device.target, cache.default())
        )

        def run() -> None:
            executable.run(self.queue, memory, inputs.scalars)

        try:
            run()
            got = np.empty_like(inputs.operands["c"])
            self.queue.download(got, memory["c"])
            check(got)
            burst = self._seconds(run, workloads.get(problem.workload).flops(problem))
            for length in (sustained / 2, sustained) if sustained else ():
                last = back_to_back(self.queue, self.clock, run, max(1, int(length / burst)))
            return burst, last if sustained else 0.0
        finally:
            executable.release()
            for held in memory.values():
                held.release()

    def _seconds(self, run: Any, flops: float) -> float:
        """Median device seconds of one run, of bursts after a rest."""
        count = launches(flops)
        samples = []
        for _ in range(_BURSTS):
            self.queue.finish()
            time.sleep(0.002)
            self.queue.copy(self.long[0], self.long[1], self.long[0].nbytes)
            copied = self.queue.marker()
            self.queue.flush()
            self.clock.wait_for(copied)
            samples.append(back_to_back(self.queue, self.clock, run, count))
        return float(np.median(samples[1:]))


def _inputs(problem: Problem) -> Inputs:
    """Random operands, a C of NaN or of any integers, and factors of 1 and 0."""
    workload, types = workloads.get(problem.workload), product(problem.dtype)
    rng = np.random.default_rng(2)
    operands = {}
    for name, shape in workload.shapes(problem).items():
        element = types.result if name == "c" else types.operand
        layout = problem.layout[name]
        count = layout.offset + sum((size - 1) * stride for size, stride in zip(shape, layout.strides, strict=True)) + 1
        if name == "c" and element.unit:
            operands[name] = np.full(count, np.nan, element.numpy)
            continue
        drawn = rng.integers(-100, 100, _DRAWN) if not element.unit else rng.standard_normal(_DRAWN)
        operands[name] = np.resize(drawn.astype(element.numpy), count)
    return Inputs(operands, {"alpha": 1.0, "beta": 0.0})
