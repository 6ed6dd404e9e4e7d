"""Failures from outside: signals that no kernel raises, processes that are stopped, and a clock that goes on meanwhile."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.tuning.search import external_failures
from portatile.tuning.search.supervisor import Setup, Supervisor


def test_signals_from_outside_are_told_from_faults() -> None:
    assert external_failures.killed(-signal.SIGKILL)
    assert external_failures.killed(-signal.SIGTERM)
    assert external_failures.killed(-signal.SIGABRT, "error: unable to execute command: Killed\nerror: linker command failed due to signal")
    assert not external_failures.killed(-signal.SIGABRT, "error: unable to execute command: Segmentation fault (core dumped)")
    assert not any(
        external_failures.killed(code) for code in (None, 0, 1, 9, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it")
def test_a_stopped_process_is_seen() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not external_failures.stopped(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert external_failures.stopped(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert not external_failures.stopped(2**22 + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it")
def test_a_process_at_its_end_is_seen() -> None:
    """Killed, but not yet waited for, as while its driver frees what it had."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not external_failures.ending(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert external_failures.ending(process.pid)
    finally:
        process.communicate()
    assert not external_failures.ending(process.pid)


@pytest.mark.parametrize("late", [True, False])
def test_a_deadline_that_passed_while_the_parent_stood_still_is_moved(late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test's own, which goes on while the parent waits; where it is not late the worker is ended."""
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: 0.0)
    monkeypatch.setattr(external_failures, "time", clock)
    monkeypatch.setattr(sys.modules[Supervisor.__module__], "time", clock)
    supervisor = Supervisor(Setup(None, tmp_path, 1 << 20, -1))
    child: Any = SimpleNamespace(deadline=now[0] + 5, since=now[0], phase="run", ready=True, variant=1)
    ended: list[str] = []
    monkeypatch.setattr(supervisor, "_timer", child)
    monkeypatch.setattr(supervisor, "_replace_failed", lambda child, status, reason: ended.append(status))

    class Sleeper(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[Any]:
            now[0] += (timeout or 0) + (2 if late else 0.01)
            return []

    monkeypatch.setattr(supervisor, "_selector", Sleeper())
    supervisor._step(now[0] + 10)
    assert ended == ([] if late else ["timeout"])
    assert not late or child.deadline > now[0]
    monkeypatch.setattr(supervisor, "_timer", None)
    supervisor.close()
