"""The failure of a worker and its message: it ended by itself, its deadline passed, or it was ended from outside."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from portatile.trials import Status
from portatile.tuning.protocol import Phase
from portatile.tuning.search import external_failures
from portatile.tuning.search.worker_process import Variant, WorkerProcess


@dataclass(frozen=True)
class WorkerFailure:
    """The failure of a worker that has ended.

    ``exit_status``: how its process ended, with the last lines of its log. ``spent``: seconds of the phase in which it failed.
    ``stopped``: its deadline passed while somebody had stopped it. ``killed``: a signal that no kernel raises ended it.
    """

    status: Status
    reason: str
    phase: Phase
    spent: float
    exit_status: str
    stopped: bool
    killed: bool

    @classmethod
    def end(cls, worker: WorkerProcess, status: Status, reason: str) -> WorkerFailure:
        """End a worker that failed with ``status`` and find out how. One that timed out is killed at once."""
        hung, spent = status == "timeout", time.monotonic() - worker.since
        stopped = hung and external_failures.stopped(worker.process.pid)
        exit_status = worker.end(grace=0 if hung else 1)
        worker.deadline = math.inf
        return cls(
            status, reason, worker.phase, spent, exit_status, stopped, not hung and external_failures.killed(worker.code, exit_status)
        )

    @property
    def hung(self) -> bool:
        """Whether its deadline passed."""
        return self.status == "timeout"

    @property
    def from_outside(self) -> bool:
        """Whether neither portatile nor a kernel caused it."""
        return self.stopped or self.killed

    @property
    def race_message(self) -> str:
        """The message where the worker held the final comparison."""
        return self.reason if self.hung else f"the worker ended during {self.phase} ({self.exit_status})"

    def message(self, variant: Variant) -> str:
        """The message of the trial of the variant that the worker had."""
        text = self.reason if self.hung else variant.ended_worker(self.phase, self.exit_status)
        if self.stopped:
            return f"{text}; it was stopped"
        return f"{text}; a signal from outside ended it, as of an out-of-memory killer" if self.killed else text
