"""The progress of a search that nobody asked for: a line on a terminal and in notebooks, nothing elsewhere, and never two at once."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from portatile import notebooks, processes
from portatile.errors import ArgumentError
from portatile.records import Problem
from portatile.trials import Trial
from portatile.tuning.search import watching
from portatile.tuning.search.progress_line import ProgressLine
from portatile.tuning.search.request import Progress
from portatile.tuning.search.status_line import StatusLine
from support.devices import CPU

PROBLEM = Problem("gemm", {"m": 100, "n": 100, "k": 100}, "float32", {"trans_a": "N", "trans_b": "N"}, {})
BEST = Trial(PROBLEM, {"A": 1}, CPU, "hash", "ok", (1e-3,) * 3, error=0.25)
PROGRESS = Progress(PROBLEM, CPU, BEST, BEST, 7, 0, 1.5, 23.0, {}, 2.0)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal; called in a test, before which pytest replaces the streams."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_terminal_shows_a_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with watching.shown(None) as listener:
        assert isinstance(listener, ProgressLine)
        listener(PROGRESS)
    text = stream.getvalue()
    assert "best 2 Gflop/s  7 tried (2.0/s)" in text
    assert "23 s left" in text or "22 s left" in text
    assert text.rstrip().endswith("\x1b[2K"), "the line is erased"


def test_one_search_at_a_time_has_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    with watching.shown(None) as first:
        with watching.shown(None) as second:
            assert second is None
        with watching.shown(print) as asked:
            assert asked is print
        assert first is not None
    with pytest.raises(ZeroDivisionError), watching.shown(None):
        raise ZeroDivisionError
    with watching.shown(None) as later:
        assert later is not None, "the line is free again"


def test_without_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with watching.shown(None) as listener:
            assert listener is None
        with watching.shown(print) as listener:
            assert listener is print


def test_a_listener_can_be_called() -> None:
    with pytest.raises(ArgumentError, match="listen=True is called with every trial"), watching.shown(True):  # type: ignore[arg-type]
        pass


def test_a_notebook_names_each_of_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(notebooks, "inside", lambda: True)
    monkeypatch.setattr(notebooks, "NotebookProgress", lambda: lambda content: shown.append(str(content)))
    with watching.shown(None) as listener:
        assert listener is not None
        listener(PROGRESS)
    with watching.shown(None, several=True) as listener:
        assert listener is not None
        listener(PROGRESS)
        listener(replace(PROGRESS, device=replace(CPU, id="other:0"), best=None))
    assert shown[0] == str(PROGRESS)
    assert shown[2].startswith(f"{CPU.id}: best 2 Gflop/s")
    assert "; other:0: nothing valid yet" in shown[2]


def test_seconds_are_left_to_who_counts_them_down() -> None:
    assert "left" not in StatusLine().after(PROGRESS)
    assert "23 s left" in StatusLine().sentence(PROGRESS)


_SEARCH = """
import sys
from portatile.tuning.search import watching
with watching.shown(None) as listener:
    print(listener is None, "rich" in sys.modules)
"""


def test_no_library_is_imported_for_a_line_that_is_not_shown() -> None:
    done = subprocess.run([sys.executable, "-c", _SEARCH], capture_output=True, text=True, check=True, env=processes.environment())
    assert (done.stdout.split(), done.stderr) == (["True", "False"], "")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_a_real_terminal_has_a_line() -> None:
    ours, theirs = os.openpty()
    environment = {**processes.environment(), "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", _SEARCH], stdout=subprocess.PIPE, stderr=theirs, text=True, check=True, env=environment)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.stdout.split() == ["False", "True"]
    assert "opening the device" in shown
