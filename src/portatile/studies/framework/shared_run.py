"""A problem on host arrays, computed by several devices, in one process or in several that begin each run together.

Every process is new: it prepares its operands, computes once, which compiles and checks, and then once for each line that it is sent.
Several processes take a share each of the size along which the problem may be cut.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from portatile import device as devices
from portatile import processes, verify, workloads
from portatile.arguments.matrices import MAX_ALIGNMENT, Matrix
from portatile.device.page_locked import locked
from portatile.errors import ArgumentError, DeviceError, PortatileError
from portatile.records import Problem, from_json, to_json
from portatile.runtime.one_device.engine import Engine, Prepared, engine_of
from portatile.runtime.perform import start
from portatile.runtime.several_devices import at_once, several, splits
from portatile.runtime.several_devices.expected import Forecast
from portatile.workload import Inputs
from portatile.workloads.operands import view

_MANY = 4  # devices of which every subset is run; of more, each alone and growing sets
_ENOUGH, _FEWEST = 4.0, 3  # seconds of runs after the first, from which on there are no more than so many
_RECENT, _LONGER = 4, 3  # a fastest run among the last so many may not be the fastest yet: then there are up to so many times as many
_REFUSED = 3  # the exit code where the last line is the reason


@dataclass(frozen=True)
class SharedRun:
    """``problem`` by ``devices``, ``repeat`` times after the first: less often where a run takes seconds, more often while runs become
    faster, in which devices find their shares and memory is locked.

    ``one_core``: by one core of the processor alone. ``together``: by all of them, also where one alone is expected to be sooner.
    """

    problem: Problem
    devices: tuple[str, ...]
    repeat: int = 3
    processes: int = 1
    one_core: bool = False
    seed: int = 0
    together: bool = False


@dataclass(frozen=True)
class _Answer:
    """The answer of a process about a run, from when until when by the clock of all processes.

    ``error`` in units of the bound, of its first.
    """

    began: float
    ended: float
    reached: float
    shares: Mapping[str, float]
    error: float
    note: str


@dataclass(frozen=True)
class SharedTimes:
    """Seconds of each run from its beginning to the end of the last process, without the first.

    ``reached``: the work done over what the devices could have done meanwhile, of the fastest run; ``shares`` each device's part of it.
    ``error``: of the first run, in units of its bound. ``note``: why fewer devices than were named took part in the fastest.
    """

    seconds: tuple[float, ...]
    reached: float
    shares: Mapping[str, float]
    error: float
    note: str = ""


def subsets(devices: Sequence[str]) -> list[tuple[str, ...]]:
    """Each device alone, then every set of several; of many devices only growing sets, in the order given."""
    alone = [(device,) for device in devices]
    if len(devices) <= _MANY:
        return alone + [chosen for size in range(2, len(devices) + 1) for chosen in combinations(devices, size)]
    return alone + [tuple(devices[:size]) for size in range(2, len(devices) + 1)]


def part_of(problem: Problem, count: int, which: int) -> Problem:
    """Share ``which`` of ``count`` of a problem, cut where it may be. Raises ArgumentError where it cannot be cut."""
    device = devices.get().info
    workload = workloads.get(problem.workload)
    cuts = [cut for cut in workload.cuts(problem, workload.default(problem, device)) if not cut.sums and problem.sizes[cut.size] >= count]
    if not cuts:
        raise ArgumentError(f"{problem.workload} of this shape cannot be cut into {count} parts")
    size = problem.sizes[cuts[0].size]
    low, high = which * size // count, (which + 1) * size // count
    return workload.problem({**problem.sizes, cuts[0].size: high - low}, problem.dtype, problem.options)


def timed(run: SharedRun, timeout: float = 1800.0) -> SharedTimes:
    """Time the runs. Raises DeviceError with what a process said that failed, ArgumentError where the problem cannot be cut."""
    whole = run.problem
    parts = [whole if run.processes == 1 else part_of(whole, run.processes, which) for which in range(run.processes)]
    children = [_child(replace(run, problem=part, seed=run.seed + which)) for which, part in enumerate(parts)]
    until = time.monotonic() + timeout
    try:
        first = [_answer(child, until) for child in children]
        rounds: list[tuple[float, list[_Answer]]] = []
        began = time.monotonic()
        while len(rounds) < run.repeat or (not run.one_core and _settling([seconds for seconds, _ in rounds], run.repeat)):
            if len(rounds) >= _FEWEST and time.monotonic() - began > _ENOUGH:
                break
            for child in children:
                assert child.stdin is not None
                child.stdin.write(b"go\n")
                child.stdin.flush()
            answers = [_answer(child, until) for child in children]
            seconds = max(answer.ended for answer in answers) - min(answer.began for answer in answers)
            rounds.append((seconds, answers))
        best = min(rounds, key=lambda round_of: round_of[0])[1]
        total: dict[str, float] = {}
        for answer in best:
            for name, share in answer.shares.items():
                total[name] = total.get(name, 0.0) + share / len(best)
        reached = sum(answer.reached for answer in best) / len(best)
        notes = "; ".join(dict.fromkeys(answer.note for answer in best if answer.note))
        return SharedTimes(tuple(seconds for seconds, _ in rounds), reached, total, max(answer.error for answer in first), notes)
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _settling(seconds: Sequence[float], repeat: int) -> bool:
    """Whether the fastest of the runs so far is so recent that later ones may be faster still."""
    return len(seconds) < _LONGER * repeat and min(seconds) in seconds[-_RECENT:]


def _child(run: SharedRun) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=processes.environment(),
    )
    assert child.stdin is not None
    child.stdin.write(to_json(run) + b"\n")
    child.stdin.flush()
    return child


def _answer(child: subprocess.Popen[bytes], until: float) -> _Answer:
    """The next answer of a process; raises DeviceError where it ends without one."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if line.startswith(b"{"):
        return from_json(line, _Answer)
    code = child.wait(max(until - time.monotonic(), 1.0))
    raise DeviceError(from_json(line, str) if code == _REFUSED else f"the process ended with {processes.exit_status(code)}")


class _Work:
    """A problem's operands in this process, and the devices that compute it."""

    def __init__(self, run: SharedRun) -> None:
        workload = workloads.get(run.problem.workload)
        self._rng = np.random.default_rng(run.seed)
        self._inputs: Inputs = workload.usual_inputs(run.problem, self._rng)
        self._workload, self._problem = workload, run.problem
        self._devices, self._together = devices.several(run.devices), run.together
        self._shares = len(self._devices) > 1
        self._written = [operand.name for operand in workload.operands_of(run.problem.options) if operand.role != "in"]
        read = workload.reads(run.problem, self._inputs.scalars)
        self._before = {name: self._inputs.operands[name].copy() for name in self._written if name in read}
        self._memory = {name: array if name in self._written else np.array(array) for name, array in self._inputs.operands.items()}
        self._matrices = {name: self._matrix(name).read_if(name in read) for name in self._memory}
        layout = {name: stored.layout for name, stored in self._matrices.items()}
        self._laid_out = workload.problem(run.problem.sizes, run.problem.dtype, run.problem.options, layout)
        self._key = self._laid_out.key

    def _matrix(self, name: str) -> Matrix:
        array: Any = view(self._memory[name], self._problem.layout[name], self._workload.shapes(self._problem)[name])
        pointer = array.__array_interface__["data"][0]
        alignment = min(pointer & -pointer, MAX_ALIGNMENT) or MAX_ALIGNMENT
        rows, columns = array.shape[-2:]
        if array.ndim == 2:
            return Matrix(array, False, rows, columns, columns, 0, alignment)
        return Matrix(array, False, rows, columns, columns, 0, alignment, array.shape[0], rows * columns)

    def compute(self, checked: bool) -> _Answer:
        """Run once, from the operands' first values, which they have again afterwards."""
        result = self._matrices[self._written[-1]].array

        def begin(engine: Engine, prepared: Prepared, operands: Mapping[str, Matrix], scalars: Mapping[str, float]) -> None:
            start(engine, prepared, operands, scalars, result)

        began = time.monotonic()
        arrays = [stored.array for stored in self._matrices.values()]
        key = self._key, locked.hold_all(arrays)  # as of a call of a routine, which reuses the parts of an earlier one
        if not (self._shares and at_once.again(key, arrays, self._inputs.scalars)):
            share_forecast = several.share_forecast(self._devices, self._laid_out, self._matrices)._replace(key=key)
            if self._together:
                share_forecast = share_forecast._replace(prediction=Forecast(None, {}, forced=True))
            several.perform(share_forecast, self._matrices, self._inputs.scalars, begin)
        ended = time.monotonic()
        split = splits.latest()
        assert split is not None
        steps = max(sum(share.steps for share in split.shares), 1)
        shares = {share.device: share.steps / steps for share in split.shares}
        error = self._error() if checked else 0.0
        for name, values in self._before.items():
            self._memory[name][...] = values
        return _Answer(began, ended, split.efficiency, shares, error, split.note)

    def _error(self) -> float:
        """The largest error of the result in units of its bound; raises DeviceError where it is wrong."""
        configs = [engine_of(device).choose(self._laid_out).config for device in self._devices]
        bound = max(self._workload.bound(self._problem, config) for config in configs)
        fresh = Inputs({**self._memory, **self._before}, self._inputs.scalars)
        expected = self._workload.reference(self._problem, fresh, self._rng)
        verdict = verify.worst([verify.compare(self._memory[name], values, bound, name) for name, values in expected.items()])
        if not verdict.ok:
            names = ", ".join(device.info.id for device in self._devices)
            raise DeviceError(f"{self._problem.workload} is wrong on {names}: {verdict.message}")
        return verdict.error


def main() -> None:
    """The child: reads a SharedRun, answers once when it has computed and checked it, then once for every line."""
    processes.end_with_parent()
    run = from_json(sys.stdin.buffer.readline(), SharedRun)
    if run.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before a runtime counts the cores
    try:
        work = _Work(run)
        _say(work.compute(checked=True))
        for _ in sys.stdin.buffer:
            _say(work.compute(checked=False))
    except PortatileError as error:
        _say(str(error))
        sys.exit(_REFUSED)


def _say(what: object) -> None:
    sys.stdout.buffer.write(to_json(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
