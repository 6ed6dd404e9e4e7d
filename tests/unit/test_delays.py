"""Notices of what takes seconds: to whoever listens, else on a terminal, once for each text, and none of work that is soon done."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

import pytest

from portatile import delays


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "_told", set())


def waited(seen: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_long_work_is_told_once_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with delays.noticed("compiling", after=0.0):
        waited(terminal.getvalue)
    with delays.noticed("compiling", after=0.0), delays.noticed("measuring", after=0.0):
        waited(lambda: "measuring" in terminal.getvalue())
    assert terminal.getvalue() == "portatile: compiling\nportatile: measuring\n"


def test_nothing_is_written_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    delays.notice("compiling")
    assert capsys.readouterr() == ("", "")


def test_listeners_are_told_in_place_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, told = Terminal(), list[str]()
    monkeypatch.setattr(sys, "stderr", terminal)
    with delays.listening(told.append):
        delays.notice("measuring")
        with delays.noticed("compiling", after=60.0):
            pass
        with delays.noticed("checking", after=0.0):
            waited(lambda: "checking" in told)
    assert told == ["measuring", "checking"]
    assert not terminal.getvalue()
