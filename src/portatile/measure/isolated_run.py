"""A kernel's run in a separate process, between canaries and with a time limit, so that no kernel harms the caller.

``python -m portatile.measure.isolated_run FD`` is that process: FD is its end of a pipe to the parent, over which both send pickles.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import cache, device, processes, program
from portatile.device.base import Argument, Device, Memory, Queue
from portatile.device.module import LoadedKernel
from portatile.errors import CompileError, LaunchError, PortatileError, UsageError
from portatile.guarded_memory import MARGIN, GuardedMemory
from portatile.images import ImageForm, Sampler
from portatile.records import DeviceInfo, Entry, Parameter, Size3, Source
from portatile.user_warnings import in_a_line

Array = NDArray[Any]
_REACH = 8 * MARGIN  # bytes on either side of a buffer in which writes are certainly detected, as for a search's finalists
_COMPILE_SECONDS = 600.0  # seconds until the first launch


@dataclass(frozen=True)
class KernelArgument:
    """One argument: ``array`` for buffers and images, ``value`` for scalars, samplers and, as a number of bytes, for local memory.

    ``form`` is the form of an image.
    """

    parameter: Parameter
    array: Array | None = None
    value: np.generic | int | Sampler = 0
    form: ImageForm | None = None

    def seen(self, array: Array) -> Array:
        """``array`` without the fourth component of three-component vectors, which is padding in memory."""
        return array[..., :3] if array.ndim and re.search(r"[a-z]3\*?$", self.parameter.type) and array.shape[-1] == 4 else array


@dataclass(frozen=True)
class KernelRun:
    """A kernel with its arguments and sizes; ``repeat`` timed runs follow the first one and start from its outputs."""

    source: Source
    entry: Entry
    arguments: list[KernelArgument]
    global_size: Size3
    local_size: Size3
    repeat: int

    @property
    def called(self) -> str:
        """The kernel in the form of a call."""
        return self.entry.signature

    @property
    def launched(self) -> str:
        """The kernel and the sizes of its launch."""
        return f"{self.called} with global size {self.global_size} and local size {self.local_size}"


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run: every buffer and image after the first run, and the seconds of each timed run."""

    device: DeviceInfo
    arrays: dict[str, Array]
    seconds: list[float]


def run(task: KernelRun, selector: str | None, timeout: float) -> RunOutcome:
    """Run ``task`` on the selected device in a child process, which has ``timeout`` seconds from its first launch on.

    Raises LaunchError for a kernel that writes outside of its buffers, does not end in time or crashes the process, and the child's
    exceptions: CompileError, ArgumentError, DeviceNotFoundError.
    """
    ours, theirs = Pipe()
    with ours:
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches only the parent, and processes that the child started end with it
                env=processes.environment(),
            )
        try:
            with suppress(BrokenPipeError):  # if the child has ended, its missing answer will show it
                ours.send((task, selector))
            late = CompileError(f"{task.called}: compiling took more than {_COMPILE_SECONDS:g} s")
            crashed = f"{task.called}: the process that compiled it", "this may be any kernel of the file; OpenCL C has no recursion"
            _answer(ours, child, _COMPILE_SECONDS, late, crashed)
            late_run = LaunchError(f"{task.launched} did not end within {timeout:g} s; {_hint_on_hang(task)}--timeout allows it more")
            crashed = f"{task.launched}: the process that ran it", "does the kernel reach far outside of its arrays?"
            answer = _answer(ours, child, timeout, late_run, crashed)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    assert isinstance(answer, RunOutcome)
    return answer


def _hint_on_hang(task: KernelRun) -> str:
    """A possible reason why a kernel does not end, for a message."""
    waits = "barrier" in task.source.text and math.prod(task.local_size) > 1
    return "does every work-item of a group reach each barrier? " if waits else ""


def _answer(pipe: Connection, child: subprocess.Popen[bytes], seconds: float, late: PortatileError, crashed: tuple[str, str]) -> object:
    """The child's next message. Raises the message if it is an error, ``late`` after ``seconds``, and LaunchError if the child ends without
    a message; ``crashed`` has its text: what ended, and a possible reason.
    """
    if not pipe.poll(seconds if math.isfinite(seconds) else None):
        raise late
    try:
        message = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise LaunchError(f"{crashed[0]} ended by {processes.exit_status(child.wait())}; {crashed[1]}") from None
    if isinstance(message, PortatileError):
        raise message
    return message


def measured(task: KernelRun, target: Device, begin: Callable[[], None] = lambda: None) -> RunOutcome:
    """Upload, run once, download, then time further runs, in this process; canaries are checked after both.

    ``begin`` is called before the first launch. Raises LaunchError for a kernel that writes outside of its buffers.
    """
    binary = program.build(task.source, target.target, cache.default())
    with target.load(binary) as module, target.queue(profiling=True) as queue, ExitStack() as stack:
        kernel = module.kernel(task.entry.name)
        guards: dict[str, tuple[GuardedMemory, int]] = {}
        arguments: list[Argument] = []
        for argument in task.arguments:
            name, array = argument.parameter.name, argument.array
            if array is None:
                arguments.append(argument.value)
                continue
            if argument.form is not None:
                memory: Memory = stack.enter_context(target.image_of(argument.form))
            else:
                guard = stack.enter_context(GuardedMemory(target, queue, array.nbytes, _REACH))
                guards[name], memory = (guard, array.itemsize), guard.memory
            queue.upload(memory, array)
            arguments.append(memory)
        queue.finish()
        begin()
        _first_launch(task, target, queue, kernel, arguments)
        queue.finish()
        _check(task, queue, guards)
        arrays = {}
        for argument, passed in zip(task.arguments, arguments, strict=True):
            if argument.array is not None:
                arrays[argument.parameter.name] = after = np.empty_like(argument.array)
                queue.download(after, passed)  # type: ignore[arg-type]
        seconds = []
        for _ in range(task.repeat):
            started = time.perf_counter()
            event = queue.launch(kernel, task.global_size, task.local_size, arguments)
            queue.finish()
            elapsed = time.perf_counter() - started
            profiled = event.duration if event is not None else None
            seconds.append(elapsed if profiled is None else profiled)
        _check(task, queue, guards)
    return RunOutcome(target.info, arrays, seconds)


def _first_launch(task: KernelRun, target: Device, queue: Queue, kernel: LoadedKernel, arguments: list[Argument]) -> None:
    try:
        queue.launch(kernel, task.global_size, task.local_size, arguments)
    except LaunchError as error:
        if any(n % m for n, m in zip(task.global_size, task.local_size, strict=True)):
            raise UsageError(f"--global {task.global_size} is not a multiple of --local {task.local_size}") from error
        if math.prod(task.local_size) > target.info.max_work_group_size:
            raise UsageError(f"--local: {error}") from error
        raise
    except PortatileError as error:
        raise type(error)(f"{task.called} on {target.info.id}: {error}") from error


def _check(task: KernelRun, queue: Queue, guards: dict[str, tuple[GuardedMemory, int]]) -> None:
    """Raise LaunchError if a canary changed."""
    complaints = [complaint for name, (guard, size) in guards.items() if (complaint := guard.out_of_bounds(queue, name, size))]
    if complaints:
        raise LaunchError(f"{task.called} {'; '.join(complaints)}")


def _main(descriptor: int) -> None:
    processes.end_with_parent()  # otherwise an endless kernel would outlive the parent
    warnings.formatwarning = in_a_line
    with Connection(descriptor) as pipe:
        task, selector = pipe.recv()
        try:
            answer: object = measured(task, device.get(selector), lambda: pipe.send(None))  # the time limit begins
        except PortatileError as error:
            answer = error
        pipe.send(answer)
    ctypes.CDLL(None).fflush(None)  # what the kernel printed
    os._exit(0)  # an invalid write of the kernel may have damaged what an orderly exit needs


if __name__ == "__main__":
    # the module under the name that the parent's pickles use for the records
    from portatile.measure.isolated_run import _main as main

    main(int(sys.argv[1]))
