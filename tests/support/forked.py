"""Workers of searches as forks of a process that has imported what they import, which takes most of a short search's time.

``start`` stands for ``processes.start``. The process that forks them opens no device and starts no thread; each fork takes the variables,
the directory and the files that a new process would be given, and ends as one does. Tests of how workers start and end use real ones.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from portatile import processes

_MESSAGE = 1 << 18
_OURS = ("PORTATILE_", "POCL_", "PYTEST_", "TMPDIR")  # variables that are read once a worker runs, not while Python starts


class Forked:
    """What callers use of ``subprocess.Popen``, of a process that another one forked: ``ended`` gives its exit status."""

    def __init__(self, pid: int, stdin: IO[bytes], ended: int) -> None:
        self.pid, self.stdin, self._ended = pid, stdin, ended
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises ``subprocess.TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
            status = os.read(self._ended, 4)
            os.close(self._ended)
            self.returncode = os.waitstatus_to_exitcode(struct.unpack("<i", status)[0]) if status else -signal.SIGKILL
        return self.returncode


def start(module: str, *arguments: str, log: IO[bytes], keep: Sequence[int] = ()) -> Any:
    """As ``processes.start``, which it calls where the variables are such as Python reads while it starts."""
    variables = processes.environment()
    if _others(variables) != _others(_server_variables()):
        return _real(module, *arguments, log=log, keep=keep)
    reading, writing = os.pipe()
    ended, ends = os.pipe()
    try:
        words = {"module": module, "arguments": arguments, "variables": variables, "folder": str(Path.cwd()), "keep": list(keep)}
        files = array.array("i", [reading, ends, log.fileno(), *keep])
        with _one_at_a_time:
            server, _ = _server()
            server.sendmsg([json.dumps(words).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            (pid,) = struct.unpack("<i", server.recv(4))
    finally:
        os.close(reading)
        os.close(ends)
    return Forked(pid, os.fdopen(writing, "wb"), ended)


_real = processes.start
_one_at_a_time = threading.Lock()


def _others(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not name.startswith(_OURS)}


@functools.cache
def _server_variables() -> dict[str, str]:
    """Those that the server is started with; they stay as they were at the first call."""
    return processes.environment()


@functools.cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that forks, started at the first call; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE)
    command = [sys.executable, "-P", str(Path(__file__)), str(theirs.fileno())]
    started = subprocess.Popen(
        command, pass_fds=[theirs.fileno()], env=_server_variables(), start_new_session=True, stdin=subprocess.DEVNULL
    )
    theirs.close()
    atexit.register(_end, ours, started)
    return ours, started


def _end(server: socket.socket, started: subprocess.Popen[bytes]) -> None:
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    started.wait()


def serve(server: socket.socket) -> None:
    """Fork whenever asked, and tell how each fork ended, until the other side closes; the forks end with this process."""
    import pyopencl.characterize  # what every worker of a search on a processor imports; no driver is opened
    import pyopencl.invoker  # noqa: F401

    from portatile.device.opencl import survey  # noqa: F401
    from portatile.dialect import options  # noqa: F401
    from portatile.tuning.worker import __main__ as worker

    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    told: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([server.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1 << 12)
            _reap(told)
        if server.fileno() in ready:
            data, ancillary, _, _ = server.recvmsg(_MESSAGE, socket.CMSG_SPACE(4 * 8))
            if not data:
                return
            files = array.array("i")
            for _, _, content in ancillary:
                files.frombytes(content)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number in (server.fileno(), woken, waking, files[1], *told.values()):
                    os.close(number)
                _become(worker.main, json.loads(data), files)
            told[pid] = files[1]
            for number in (*files[:1], *files[2:]):
                os.close(number)
            server.send(struct.pack("<i", pid))


def _reap(told: dict[int, int]) -> None:
    while told:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        os.write(told[pid], struct.pack("<i", status))
        os.close(told.pop(pid))


def _become(main: Any, words: dict[str, Any], files: Sequence[int]) -> NoReturn:
    """The fork: with its files where the caller's were, run the worker's main function and end as its module does."""
    code = 1
    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(words["variables"])
        os.chdir(words["folder"])
        reading, log, kept = files[0], files[2], files[3:]
        beyond = max([*files, *words["keep"]]) + 1
        apart = [os.dup2(number, beyond + place, False) for place, number in enumerate((reading, log, *kept))]
        for number in (reading, log, *kept):
            os.close(number)
        for number, wanted in zip(apart, (0, 2, *words["keep"]), strict=True):
            os.dup2(number, wanted)
            os.close(number)
        os.dup2(2, 1)
        main(int(words["arguments"][0]))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
