"""A computation in a thread of its own, while something else goes on."""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar

import pytest

from portatile.tuning.search.background import in_background, short_turns


def test_something_goes_on_until_the_result_is_there() -> None:
    enough, calls = threading.Event(), []

    def meanwhile() -> None:
        calls.append(threading.current_thread())
        if len(calls) == 3:
            enough.set()

    assert in_background(lambda: enough.wait(10), meanwhile)
    assert set(calls) == {threading.main_thread()}
    assert len(calls) >= 3


def test_it_runs_in_the_context_of_its_caller() -> None:
    asked: ContextVar[int] = ContextVar("asked", default=0)
    asked.set(7)
    assert in_background(asked.get, lambda: None) == 7


def test_what_either_raises_is_raised() -> None:
    def fails() -> None:
        raise ValueError("the computation")

    def interrupts() -> None:
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="the computation"):
        in_background(fails, lambda: None)
    with pytest.raises(KeyboardInterrupt):
        in_background(lambda: threading.Event().wait(1), interrupts)


def test_turns_are_short_until_the_last_has_left() -> None:
    usual = sys.getswitchinterval()
    with short_turns():
        short = sys.getswitchinterval()
        with pytest.raises(KeyError), short_turns():
            raise KeyError
        assert sys.getswitchinterval() == short < usual
        entered, leave = threading.Event(), threading.Event()

        def stay() -> None:
            with short_turns():
                entered.set()
                leave.wait(10)

        thread = threading.Thread(target=stay)
        thread.start()
        entered.wait(10)
    assert sys.getswitchinterval() == short
    leave.set()
    thread.join()
    assert sys.getswitchinterval() == usual
