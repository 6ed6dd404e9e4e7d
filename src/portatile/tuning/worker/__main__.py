"""The worker process: it opens a device, or only its compiler, and answers the parent's frames until the pipe closes.

``python -m portatile.tuning.worker FD`` reads frames from standard input and writes them to descriptor FD. Standard output goes to
the log file, as standard error does, because drivers and kernels print.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from portatile import device as devices
from portatile import processes, program, settings
from portatile.cache import Cache
from portatile.device.base import Device
from portatile.errors import CompileError, DeviceError, PortatileError
from portatile.records import Binary, DeviceInfo, Source
from portatile.tuning import protocol
from portatile.tuning.final import rounds
from portatile.tuning.protocol import (
    Build,
    Built,
    Cases,
    CasesLoaded,
    DeviceOpened,
    DeviceRefused,
    Evaluate,
    Evaluated,
    FinalistsTimed,
    Frames,
    Open,
    Phase,
    PhaseEntered,
    Race,
    Reply,
    Request,
)
from portatile.tuning.shared_arrays import SharedArraysView
from portatile.tuning.worker.bench import Bench


def main(reply_descriptor: int) -> None:
    """Serve until the parent closes the pipe or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    processes.end_with_parent()
    inbox: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_read, args=(inbox,), daemon=True).start()

    def send(message: Reply) -> None:
        data = protocol.frame(message)
        while data:
            data = data[os.write(reply_descriptor, data) :]

    first = inbox.get()
    assert isinstance(first, Open)
    try:
        session: _Timing | _Compiling = _Compiling(first, first.compiles, send) if first.compiles else _Timing(first, send)
        send(DeviceOpened(session.info))
        while True:
            answer = session.answer(inbox.get())
            send(answer)
            if isinstance(answer, Evaluated | FinalistsTimed) and answer.broken:
                return
    except PortatileError as error:
        send(DeviceRefused(type(error).__name__, str(error)))


class _Timing:
    """A timing worker, which owns the device."""

    def __init__(self, opening: Open, send: Callable[[Reply], None]) -> None:
        self.device: Device = devices.get(opening.selector)
        self.info = self.device.info
        if not devices.backends()[self.info.backend].offline:
            self.device.default_queue()  # drivers compile for their first context; compile workers then find that in the driver's cache
        self.arena = opening.arena
        self.cache = Cache(Path(opening.cache), opening.cache_limit)
        self.send = send
        self.bench: Bench | None = None
        self.draft = False

    def answer(self, message: Request) -> Reply:
        match message:
            case Cases(cases, draft):
                self.draft = draft
                self.bench = Bench(self.device, cases, SharedArraysView(self.arena), self._build, self._announce)
                return CasesLoaded()
            case Evaluate():
                assert self.bench is not None
                return self.bench.evaluate(message)
            case Race():
                assert self.bench is not None
                return rounds.hold(self.bench, message)
        raise AssertionError(message)

    def _announce(self, phase: Phase, expected: float) -> None:
        self.send(PhaseEntered(phase, expected))

    def _build(self, source: Source) -> Binary:
        target = self.device.target
        target.draft = self.draft and self.cache.get(program.key(source, target)) is None
        return program.build(source, target, None if target.draft else self.cache)


class _Compiling:
    """A compile worker, which fills the cache; it opens no device where the back end's compiler needs none."""

    def __init__(self, opening: Open, info: DeviceInfo, send: Callable[[Reply], None]) -> None:
        self.info = info
        self.send = send
        self.cache = Cache(Path(opening.cache), opening.cache_limit)
        self.target = devices.target(info)
        os.nice(10)  # the timing worker's launches come first

    def answer(self, message: Request) -> Reply:
        assert isinstance(message, Build)
        self.send(PhaseEntered("compile"))
        started = time.perf_counter()
        if message.single:
            settings.for_single_items()
        try:
            for source in message.sources:
                self.target.settle(program.build(source, self.target, self.cache))
        except (CompileError, DeviceError) as error:
            return Built(message.number, {"compile": time.perf_counter() - started}, True, str(error))
        return Built(message.number, {"compile": time.perf_counter() - started})


def _read(inbox: SimpleQueue[Request]) -> None:
    """Read frames from standard input; when the pipe closes, end the process, whatever its other threads do."""
    frames = Frames()
    while data := os.read(0, 1 << 20):
        for body in frames.feed(data):
            inbox.put(protocol.request(body))
    os._exit(0)


if __name__ == "__main__":
    os.dup2(2, 1)
    main(int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a driver's own exit handlers may wait for ever
