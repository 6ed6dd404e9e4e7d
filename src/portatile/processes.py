"""This process's cores, and child processes: the environment that each is started with, its end with its parent, and how one ended."""

from __future__ import annotations

import ctypes
import os
import signal
import site
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_KILLED = 2.0  # seconds in which a process that was killed ends


def environment() -> dict[str, str]:
    """The parent's environment, in which a portatile that is not installed is found too."""
    root = str(Path(__file__).parent.parent)
    variables = dict(os.environ)
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    return variables


def cores() -> int:
    """The processor's cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start(module: str, *arguments: str, log: IO[bytes], keep: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """A module as a process in a session of its own: it reads what is written to its ``stdin``, prints to ``log``, inherits ``keep``.

    Ctrl-C reaches the parent only, and the whole group of the child can be ended.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        pass_fds=keep,
        start_new_session=True,
        env=environment(),
    )


def finished(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command that Ctrl-C does not reach; raises subprocess.TimeoutExpired after ``seconds``.

    A driver's call may keep a process from ending although it was killed. Then it is left behind, where ``subprocess.run`` waits.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    )
    try:
        out, err = child.communicate(timeout=seconds)
    except BaseException:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_KILLED)
        raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def end_with_parent() -> None:
    """In a child: on Linux let the kernel end this process with its parent, even while a driver's call holds the interpreter."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def exit_status(code: int | None) -> str:
    """The end of a process: ``exit code 1``, ``SIGSEGV``; ``killed`` where it was not waited for."""
    if code is None:
        return "killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
