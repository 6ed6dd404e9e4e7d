"""Compile workers as forks of one process that has imported what they need: see ``portatile.tuning.worker.forks``."""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

from portatile import processes
from portatile.device import backends
from portatile.records import DeviceInfo, to_json
from portatile.tuning.protocol import NUMBER

_GRACE = 5.0  # seconds in which the process ends whose socket is closed


class ForkedProcess:
    """A process that another process forks, with a part of the interface of ``subprocess.Popen``.

    ``status_pipe`` gives its number, then its exit status.
    """

    def __init__(self, stdin: IO[bytes], status_pipe: int) -> None:
        self.stdin: IO[bytes] | None = stdin
        self.returncode: int | None = None
        self._status_pipe, self._bytes = status_pipe, b""

    @property
    def pid(self) -> int | None:
        """Its process number; None before it is known, and if the process never started."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return NUMBER.unpack_from(self._bytes)[0] if len(self._bytes) >= NUMBER.size else None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal; raises ``subprocess.TimeoutExpired``."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            if not select.select([self._status_pipe], [], [], left)[0]:
                raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
            self._read_status()
        return self.returncode

    def _read_status(self) -> None:
        data = os.read(self._status_pipe, 2 * NUMBER.size)
        self._bytes += data
        if len(self._bytes) == 2 * NUMBER.size:
            self.returncode = os.waitstatus_to_exitcode(NUMBER.unpack_from(self._bytes, NUMBER.size)[0])
        elif not data:  # the process that forks has ended, and this one with it
            self.returncode = -signal.SIGKILL
        if self.returncode is not None:
            os.close(self._status_pipe)


class WorkerForks:
    """Forks compile workers for searches that run at the same time, until ``end`` ends them all. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: tuple[socket.socket, subprocess.Popen[bytes]] | None = None
        self._usable = sys.platform == "linux"

    def begin(self, info: DeviceInfo) -> bool:
        """Start the process that forks workers for a device, unless it runs; returns False if each worker must be a new process.

        That is the case if compiling needs a device, which a process and its forks cannot share.
        """
        with self._lock:
            if not self._usable or not backends()[info.backend].offline:
                return False
            if self._server is None:
                self._server = self._started(info)
            return True

    def start(self, log: IO[bytes], replies: int) -> ForkedProcess | None:
        """Fork a worker that writes its log and replies to these files, without waiting until it runs; None if that is impossible."""
        reading, writing = os.pipe()
        status_pipe, status_end = os.pipe()
        try:
            with self._lock:
                if self._server is None or not self._usable:
                    raise BrokenPipeError
                files = array.array("i", [reading, log.fileno(), replies, status_end])
                self._server[0].sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        except OSError:
            os.close(writing)
            os.close(status_pipe)
            return None
        finally:
            os.close(reading)
            os.close(status_end)
        return ForkedProcess(os.fdopen(writing, "wb"), status_pipe)

    def stop(self) -> None:
        """Fork no more: from now on each worker has to be a new process."""
        with self._lock:
            self._usable = False

    def end(self) -> None:
        """End the process, and with it its forks, and ``stop``."""
        self.stop()
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            with contextlib.suppress(OSError):
                server[0].shutdown(socket.SHUT_RDWR)
            server[0].close()
            try:
                server[1].wait(_GRACE)
            except subprocess.TimeoutExpired:
                server[1].kill()
                server[1].wait()

    @staticmethod
    def _started(info: DeviceInfo) -> tuple[socket.socket, Any]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, tempfile.TemporaryFile() as log:
            words = str(theirs.fileno()), to_json(info).decode()
            process = processes.start("portatile.tuning.worker.forks", *words, log=log, keep=[theirs.fileno()])
        assert process.stdin is not None
        process.stdin.close()
        return ours, process
