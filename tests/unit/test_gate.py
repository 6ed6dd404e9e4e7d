"""The gate before drivers: who is in comes out before the interpreter ends, and nobody else goes in."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from portatile.device.exit_gate import Gate


def test_closing_waits_for_those_inside() -> None:
    gate, entered, left = Gate(), threading.Event(), []

    def work() -> None:
        with gate:
            entered.set()
            time.sleep(0.1)
            left.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    gate.close()
    assert left == [True]
    thread.join()
    with gate:  # who closed it may go on
        left.append(True)


def test_nobody_goes_in_afterwards() -> None:
    gate, inside = Gate(), threading.Event()
    gate.close()

    def work() -> None:
        with gate:
            inside.set()

    threading.Thread(target=work, daemon=True).start()
    assert not inside.wait(0.05)


def test_a_thread_that_ended_inside_is_not_waited_for() -> None:
    gate = Gate()
    thread = threading.Thread(target=gate.__enter__)
    thread.start()
    thread.join()
    gate.close(patience=60)


def test_a_forked_child_waits_for_nobody() -> None:
    script = """
import os, threading, time
from portatile.device.exit_gate import inside
def work():
    with inside:
        time.sleep(3)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    inside.close(patience=60)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
os._exit(0)
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr


ORDER = """
import atexit
order, register = [], atexit.register
atexit.register = lambda function, *rest: order.append(getattr(function, "__qualname__", "")) or register(function, *rest)
import portatile.device.backend, portatile.runtime.one_device.deferred, portatile.runtime.one_device.engine
print(*order)
"""


def test_what_waits_for_other_threads_ends_before_the_gate_closes() -> None:
    """Functions run in the reverse order. A thread that stands at the gate, and holds a lock, would be waited for without end."""
    completed = subprocess.run([sys.executable, "-c", ORDER], capture_output=True, text=True, check=True)
    order = completed.stdout.split()
    assert order.index("Gate.close") < order.index("Deferred.flush"), order
