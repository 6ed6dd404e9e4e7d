"""This process's cores, and child processes: their environment, how they end with their parent, and how one ended."""

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
_KILLED = 2.0  # seconds in which a killed process should end


def environment() -> dict[str, str]:
    """The parent's environment, extended so that a child finds portatile even if it is not installed."""
    root = str(Path(__file__).parent.parent)
    variables = dict(os.environ)
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    return variables


def cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start(module: str, *arguments: str, log: IO[bytes], keep: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start a module as a process in its own session: it reads from its ``stdin``, prints to ``log``, and inherits the file descriptors
    ``keep``.

    Ctrl-C reaches only the parent, and the child's whole process group can be ended.
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

    A driver call may keep a killed process from ending. It is then left behind, whereas ``subprocess.run`` would wait for it.
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
    """In a child: on Linux, have the kernel end this process with its parent, even while a driver call holds the GIL."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def exit_status(code: int | None) -> str:
    """The end of a process: ``exit code 1``, ``SIGSEGV``; ``killed`` if it was not waited for."""
    if code is None:
        return "killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
