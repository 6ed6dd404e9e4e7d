"""A process that imports the modules of compile workers once, and forks to become each of them.

``python -m portatile.tuning.worker.forks FD INFO`` serves the socket FD until its other end is closed, which ends the workers too. Many
processes that import at once wait for each other, and for files. Nothing here opens a device.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from portatile import device as devices
from portatile.records import DeviceInfo, Source, from_json
from portatile.tuning.protocol import NUMBER
from portatile.tuning.worker import __main__ as worker

FILES = 4
"""Files that come with a request for a worker: its standard input, its log, its replies, and the pipe for its number and exit status."""
_EMPTY = Source("empty.cl", "kernel void nothing(global float *x) { x[0] = 0; }")


def serve(server: socket.socket) -> None:
    """Fork a worker for each set of files that arrives; report its process number and, when it has ended, its exit status."""
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    status_pipes: dict[int, int] = {}  # pipes for the exit status of each fork
    while True:
        ready, _, _ = select.select([server.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1 << 12)
            _reap(status_pipes)
        if server.fileno() not in ready:
            continue
        data, ancillary, _, _ = server.recvmsg(1, socket.CMSG_SPACE(FILES * array.array("i").itemsize))
        if not data:
            _end(status_pipes)
            return
        files = array.array("i")
        for _, _, content in ancillary:
            files.frombytes(content)
        pid = _forked()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (server.fileno(), woken, waking, files[-1], *status_pipes.values()):
                os.close(number)
            _become(*files[:-1])
        for number in files[:-1]:
            os.close(number)
        if pid < 0:
            os.close(files[-1])
            continue
        status_pipes[pid] = files[-1]
        _report(files[-1], pid)


def _forked() -> int:
    """What ``os.fork`` gives, or -1 where there may be no more processes."""
    try:
        return os.fork()
    except OSError:
        traceback.print_exc()
        return -1


def _end(status_pipes: dict[int, int]) -> None:
    """Kill the forks that are left, and report their exit status."""
    for pid, ends in status_pipes.items():
        os.kill(pid, signal.SIGKILL)
        _report(ends, os.waitpid(pid, 0)[1])


def _reap(status_pipes: dict[int, int]) -> None:
    while status_pipes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        ends = status_pipes.pop(pid)
        _report(ends, status)
        os.close(ends)


def _report(where: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent no longer reads it
        os.write(where, NUMBER.pack(number))


def _become(requests: int, log: int, replies: int) -> NoReturn:
    """The fork: run a worker, and end as its module does."""
    try:
        os.setsid()
        for number, wanted in ((requests, 0), (log, 1), (log, 2)):
            os.dup2(number, wanted)
        os.close(requests)
        os.close(log)
        worker.main(replies)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main(arguments: Sequence[str]) -> None:
    """Serve, with what compiling for a device takes imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    with contextlib.suppress(Exception):  # a worker that needs it says what is wrong
        devices.target(from_json(arguments[1].encode(), DeviceInfo)).lower(_EMPTY)
    serve(socket.socket(fileno=int(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
