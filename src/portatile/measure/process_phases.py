"""The phases of one run in a separate process, whose caches, ours and the drivers', are in a folder that may be empty.

Only a new process finds platforms and creates contexts as a freshly started program does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from portatile import processes, settings
from portatile.device import private_caches
from portatile.device.base import Device
from portatile.errors import DeviceError, PortatileError
from portatile.measure import runs
from portatile.measure.phases import PhasesRequest, PhaseTimes, split
from portatile.records import Config, Problem, from_json, to_json

_SECONDS = 1800
_REFUSED = 3  # the exit code if the last line is the reason of a failure


@dataclass(frozen=True)
class ProcessRun:
    """A problem on a device, with ``config`` or the best one known for it there; ``repeat`` runs of the kernel after the first.

    Compiler ``options`` are added to each source's own, in OpenCL's spelling; unless ``strict``, results may then be inaccurate.
    ``one_core``: the process is restricted to one core of the processor.
    """

    problem: Problem
    device: str
    repeat: int = 3
    config: Config | None = None
    options: tuple[str, ...] = ()
    strict: bool = True
    one_core: bool = False


def in_a_process(run: ProcessRun, caches: Path) -> PhaseTimes:
    """Time one run in a new process whose caches are under ``caches``. Raises DeviceError with the process's message if it fails."""
    own = {"PORTATILE_CACHE_DIR": str(caches / "portatile")}
    environment = processes.environment() | private_caches(caches) | own
    known = settings.drivers_folder()
    if known.is_dir():  # the features that the driver compiles were probed earlier, and are not part of a run
        shutil.copytree(known, caches / "portatile" / known.name, dirs_exist_ok=True)
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(command, input=to_json(run), capture_output=True, env=environment, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise DeviceError(f"{run.problem.workload} did not end on {run.device} within {_SECONDS} s") from None
    if done.returncode == _REFUSED:
        raise DeviceError(from_json(done.stdout.splitlines()[-1], str))
    if done.returncode:
        messages = done.stderr.decode(errors="replace").strip().splitlines()
        raise DeviceError(messages[-1] if messages else f"the process ended with {processes.exit_status(done.returncode)}")
    try:
        return from_json(done.stdout.splitlines()[-1], PhaseTimes)
    except (msgspec.DecodeError, IndexError):
        raise DeviceError("the process gave no valid answer") from None


def main() -> None:
    """The child: reads a ProcessRun from standard input, writes a PhaseTimes as the last line of standard output."""
    run = from_json(sys.stdin.buffer.read(), ProcessRun)
    if run.one_core and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before a runtime counts the cores

    def choose(device: Device) -> tuple[Problem, Config]:
        return run.problem, runs.known(run.problem, device).config if run.config is None else run.config

    try:
        done, _ = split(PhasesRequest(choose, run.device, repeat=run.repeat, options=run.options, strict=run.strict))
    except PortatileError as error:
        sys.stdout.buffer.write(b"\n" + to_json(str(error)) + b"\n")
        sys.exit(_REFUSED)
    sys.stdout.buffer.write(b"\n" + to_json(done) + b"\n")


if __name__ == "__main__":
    processes.end_with_parent()
    main()
