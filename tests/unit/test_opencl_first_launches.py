"""First launches alone, where PoCL before version 6 would mistake who runs a kernel: on queues that write down what they do."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import pytest

from portatile.device.opencl.first_launches import LaunchOrder, turns
from portatile.errors import DeviceError


class Event:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def wait(self) -> None:
        self.log.append(f"wait {self.name}")


class Queue:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def finish(self) -> None:
        self.log.append(f"finish {self.name}")

    def enqueue(self, what: str) -> Callable[[], Event]:
        def queued() -> Event:
            self.log.append(what)
            return Event(self.log, what)

        return queued


@pytest.mark.parametrize(
    ("compiler", "needed"),
    [
        ("Portable Computing Language OpenCL 3.0 PoCL 5.0+debian  Linux, None+Asserts / 5.0+debian", True),
        ("Portable Computing Language OpenCL 3.0 PoCL 3.0-rc2  Linux, Release / 3.0-rc2", True),
        ("Portable Computing Language OpenCL 3.0 PoCL 6.0+debian  Linux, None+Asserts / 6.0+debian", False),
        ("NVIDIA CUDA OpenCL 3.0 CUDA 13.0 / 580.1", False),
    ],
)
def test_drivers_that_need_it(compiler: str, needed: bool) -> None:
    assert (turns(compiler) is not None) == needed
    assert turns(compiler) is turns(compiler), "all queues of a driver share them"


def test_a_first_launch_runs_alone() -> None:
    log: list[str] = []
    first, second, order = Queue(log, "first"), Queue(log, "second"), LaunchOrder()
    order.enter(first)
    order.launch(first, first.enqueue("only"), first=True)
    assert log == ["only"], "one queue runs its launches in order"
    log.clear()
    order.enter(second)
    assert log == ["finish first"], "what one queue began before there were two"
    log.clear()
    order.launch(first, first.enqueue("wide"), first=True)
    assert log == ["finish second", "wide", "wait wide"]
    log.clear()
    order.launch(second, second.enqueue("again"), first=False)
    assert log == ["again"]
    order.leave(second)
    log.clear()
    order.launch(first, first.enqueue("wider"), first=True)
    assert log == ["wider"]


def test_nothing_runs_or_is_launched_while_a_binary_is_made() -> None:
    log: list[str] = []
    first, order = Queue(log, "first"), LaunchOrder()
    order.enter(first)
    launched = threading.Event()

    def launch() -> None:
        order.launch(first, first.enqueue("known"), first=False)
        launched.set()

    other = threading.Thread(target=launch)
    with order.quiet():
        assert log == ["finish first"]
        other.start()
        assert not launched.wait(0.05)
        log.append("made")
    other.join(10)
    assert log == ["finish first", "made", "known"]


def test_another_queues_failure_is_not_this_ones() -> None:
    class Failing(Queue):
        def finish(self) -> None:
            raise DeviceError("a command failed")

    log: list[str] = []
    order, failing, queue = LaunchOrder(), Failing(log, "failing"), Queue(log, "queue")
    order.enter(failing)
    order.enter(queue)
    order.launch(queue, queue.enqueue("it"), first=True)
    assert log == ["it", "wait it"]


def test_queues_that_were_dropped_are_forgotten() -> None:
    log: list[str] = []
    order, queue = LaunchOrder(), Queue(log, "queue")
    order.enter(Queue(log, "dropped"))
    gc.collect()
    order.enter(queue)
    order.launch(queue, queue.enqueue("it"), first=True)
    assert "finish dropped" not in log


def test_others_wait_until_it_has_run() -> None:
    log: list[str] = []
    order, first, second = LaunchOrder(), Queue(log, "first"), Queue(log, "second")
    order.enter(first)
    order.enter(second)
    running, finished = threading.Event(), threading.Event()

    class Long(Event):
        def wait(self) -> None:
            running.set()
            assert finished.wait(10)
            super().wait()

    alone = threading.Thread(target=order.launch, args=(first, lambda: Long(log, "long"), True))
    alone.start()
    assert running.wait(10)
    other = threading.Thread(target=order.launch, args=(second, second.enqueue("known"), False))
    other.start()
    other.join(0.05)
    assert other.is_alive()
    finished.set()
    for thread in (alone, other):
        thread.join(10)
    assert log[-2:] == ["wait long", "known"]
