"""Devices at work in threads: what a failure, a mistake and Ctrl-C leave behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from portatile.errors import DeviceError
from portatile.runtime.several_devices.device_threads import Part, together
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.splits import Share

STEPS = 128


def part(name: str, each: Callable[[], Any] = lambda: None) -> Part:
    """A device that calls ``each`` for every piece that it takes, and hands back what it does not finish."""
    share = Share(name)

    def run(pieces: Pieces) -> None:
        while (piece := pieces.take(name, STEPS)) is not None:
            try:
                each()
            except BaseException:
                pieces.give_back(*piece)
                raise
            pieces.done(name, piece[1] - piece[0], 1e-6)
            share.steps += piece[1] - piece[0]

    return Part(share, run)


def pieces(**rates: float) -> Pieces:
    return Pieces(STEPS, 1, rates)


def raising(error: BaseException) -> Callable[[], None]:
    def each() -> None:
        raise error

    return each


def left() -> list[str]:
    names = {f"portatile-{device}" for device in ("a", "b", "slow")}
    return [thread.name for thread in threading.enumerate() if thread.name in names]


def test_a_failure_without_words_is_warned_of() -> None:
    parts = part("a", raising(MemoryError())), part("b")
    with pytest.warns(RuntimeWarning, match=r"a failed \(MemoryError\); the other devices computed its part"):
        together(parts, pieces(a=1.0, b=1.0))
    assert parts[1].share.steps == STEPS


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mistake", [ZeroDivisionError("a mistake"), SystemExit("a mistake")])
def test_a_mistake_ends_all_and_is_what_is_raised(mistake: BaseException) -> None:
    """Whatever another device says afterwards. The slow one waits for the fast one, so that it has to be told."""
    told = threading.Event()

    def fails_later() -> None:
        told.wait(10)
        time.sleep(0.05)
        raise DeviceError("it fell off the bus")

    def mistaken() -> None:
        told.set()
        raise mistake

    with pytest.raises(type(mistake), match="a mistake"):
        together([part("a", mistaken), part("b", fails_later), part("slow")], pieces(a=1e6, b=1e6, slow=1e-3))
    assert not left()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("step", ["start", "join"])
def test_an_interrupt_leaves_no_thread_behind(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes, and a second one while the threads are waited for: nobody writes to the caller's arrays afterwards."""
    usual, calls, go = getattr(threading.Thread, step), iter(range(1000)), threading.Event()
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, *args: Any) -> None:
        if step == "start":
            usual(thread)
        if next(calls) == 0:
            raise KeyboardInterrupt
        if step == "join":
            usual(thread, *args)

    def again(thread: threading.Thread, *args: Any) -> None:
        if not go.is_set():
            go.set()
            raise KeyboardInterrupt
        join(thread, *args)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, step, interrupted)
        if step == "start":
            patch.setattr(threading.Thread, "join", again)
        else:
            go.set()
        with pytest.raises(KeyboardInterrupt):
            together([part("a", lambda: go.wait(10)), part("b", lambda: go.wait(10))], pieces(a=1.0, b=1.0))
    assert not left()
