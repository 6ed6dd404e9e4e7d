"""A computation in a thread of its own, while something else goes on."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from portatile.tuning.search.background import in_background


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
