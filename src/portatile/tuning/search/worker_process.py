"""A worker process, from the parent's side: it runs in its own session, exchanges messages as frames, and always ends."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

import msgspec

from portatile import processes
from portatile.errors import ArgumentError
from portatile.records import Launch, Source
from portatile.tuning import protocol
from portatile.tuning.protocol import Frames, Open, Phase, Reply, Request
from portatile.tuning.search import external_failures
from portatile.tuning.search.worker_forks import WorkerForks

_LOG_TAIL = 2000
_TAKING_DOWN = 30.0  # seconds that a process at its end may take; how it ended is not known before
_HELD = 60.0  # seconds that a driver may keep a process that was killed
_CLOSED = -1
_WARNINGS = re.compile(r"^\d+ warnings? generated\.$", re.MULTILINE)  # how Clang ends its list of them


@dataclass(frozen=True)
class Variant:
    """One configuration as a worker receives it: what to compile, and what to check and time.

    A variant that is not ``screened`` is never rejected; one that is not ``timed`` is only checked, before others.
    """

    number: int
    sources: tuple[Source, ...]
    parts: tuple[protocol.VariantPart, ...]
    screened: bool = True
    timed: bool = True

    def ended_worker(self, phase: str, exit_status: str) -> str:
        """The message for a worker that ended in a phase of this variant; for a running variant with its largest global size."""
        if phase not in ("launch", "run"):
            return f"the worker ended during {phase} ({exit_status})"
        sizes = (step.global_size for part in self.parts for step in part.plan.steps if isinstance(step, Launch))
        hint = ": it may read or write outside its arrays" if exit_status.partition(":")[0] in ("SIGSEGV", "SIGBUS") else ""
        return f"the worker ended during {phase} ({exit_status}) of a global size of {max(sizes, key=math.prod)}{hint}"


class WorkerEnded(Exception):
    """A worker ended, or sent an invalid message."""


class WorkerProcess:
    """One worker process."""

    def __init__(self, arena: int = -1, forks: WorkerForks | None = None) -> None:
        """``arena``: the descriptor of the operands, for a timing worker; ``forks``: what may fork a compile worker."""
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self.frames = Frames()
        self.variant: Variant | None = None
        self.ready = False
        self.begun = False
        self.has_cases = False  # whether they were sent to it
        self.code: int | None = None  # how it ended by itself
        self.phase: Phase = "open"
        self.since, self.deadline = time.monotonic(), math.inf
        replies, answers = os.pipe()
        try:
            keep = [answers] + ([arena] if arena >= 0 else [])
            forked = None if forks is None else forks.start(self.log, answers)
            self.forked = forked is not None
            self.process = forked or processes.start("portatile.tuning.worker", str(answers), log=self.log, keep=keep)
        except BaseException:
            os.close(replies)
            self.log.close()
            raise
        finally:
            os.close(answers)
        self.replies = replies

    def open(self, opening: Open, limit: float) -> None:
        """Send the first message, which says what the worker is for. Until then the worker only imports modules."""
        self.send(opening)
        self.enter("open", limit)

    def send(self, message: Request) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # that the worker has ended shows when its replies end
            self.process.stdin.write(protocol.frame(message))
            self.process.stdin.flush()

    def enter(self, phase: Phase, limit: float) -> None:
        self.phase, self.since, self.deadline = phase, time.monotonic(), time.monotonic() + limit

    def give(self, variant: Variant, message: Request, limit: float) -> None:
        """Send a variant. A failure before the worker reports that it has begun is not attributed to the variant."""
        self.variant, self.begun = variant, False
        self.send(message)
        self.enter("compile", limit)

    def rest(self) -> None:
        """Mark it as idle, without a deadline."""
        self.ready, self.variant, self.deadline = True, None, math.inf

    def receive(self) -> list[Reply]:
        """The replies that have arrived; raises WorkerEnded when the pipe is closed."""
        data = os.read(self.replies, 1 << 20)
        if not data:
            raise WorkerEnded("the process ended")
        try:
            return [protocol.reply(body) for body in self.frames.feed(data)]
        except (ArgumentError, msgspec.MsgspecError) as error:
            raise WorkerEnded(f"it sent an invalid message: {error}") from None

    def end(self, grace: float) -> str:
        """Close the pipe, kill the worker and its children after ``grace`` seconds, reap it, and return how it ended.

        After an interrupt a second call does what is left.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.code = self.process.wait(grace)
        pid = self.process.pid  # None: not forked yet
        if code is None and grace > 0 and pid is not None and external_failures.ending(pid):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.code = self.process.wait(_TAKING_DOWN)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid is not None:  # one that is not forked yet ends at once: it has nothing to read
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver's call may hold it: then it is left behind
            self.process.wait(_HELD)
        replies, self.replies = self.replies, _CLOSED
        if replies != _CLOSED:
            os.close(replies)
        if self.log.closed:
            return processes.exit_status(code)
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(size - _LOG_TAIL, 0))
        tail = _WARNINGS.sub("", self.log.read().decode(errors="replace")).strip()
        self.log.close()
        return f"{processes.exit_status(code)}{': ' if tail else ''}{tail}"
