"""How long threads keep Python's lock while others wait for it."""

from __future__ import annotations

import sys
import threading

import pytest

from portatile.thread_turns import short_turns


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


def test_the_shortest_turns_that_are_asked_for_count() -> None:
    usual = sys.getswitchinterval()
    with short_turns(1e-3):
        with short_turns(1e-4):
            assert sys.getswitchinterval() == pytest.approx(1e-4)
        assert sys.getswitchinterval() == pytest.approx(1e-3)
        with short_turns(10.0):
            assert sys.getswitchinterval() == pytest.approx(1e-3)
    with short_turns(10.0):
        assert sys.getswitchinterval() == usual, "never longer than usual"
    assert sys.getswitchinterval() == usual
