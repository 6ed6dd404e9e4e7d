"""Interrupts at random times inside routines, by signals and by asynchronous exceptions: no crash, and no late write into an output."""

from __future__ import annotations

import random
from collections import Counter

from attack import Place, children

_EACH = 150  # of a child, which takes longer to start than a few dozen of them
_SCRIPT = """
import ctypes, random, signal, sys, threading, time
import numpy as np
from attack import calls
device, seed, count = sys.argv[1] or None, int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
armed = False
def interrupt(number, frame):
    global armed
    if armed:  # a signal that another thread has received may come long after the timer was stopped, and with the next
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
thrown = ctypes.pythonapi.PyThreadState_SetAsyncExc
here = ctypes.c_ulong(threading.get_ident())
call = calls.draw(rng, device, 400)
empty = call.outputs.views[0]
call.run(0, empty.copy())
started = time.perf_counter()
call.run(0, empty.copy())
lasts = time.perf_counter() - started
interrupted = finished = 0
for _ in range(count):
    out, after = empty.copy(), rng.uniform(0, 1.2 * lasts) + 1e-6
    asynchronous = rng.random() < 0.5
    fired = []
    timer = threading.Timer(after, lambda: (thrown(here, ctypes.py_object(KeyboardInterrupt)), fired.append(True)))
    timer.daemon = True  # and never joined: Thread.join does not survive an exception of another thread
    try:
        if asynchronous:
            timer.start()
        else:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, after)
        call.run(0, out)
        armed = False
        while asynchronous and not fired:
            time.sleep(0.0005)
        time.sleep(0)  # an exception that is pending is raised at a call, here at the latest
        finished += 1
    except KeyboardInterrupt:
        interrupted += 1
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    seen = out.copy()
    time.sleep(0.003)
    assert np.array_equal(seen, out, equal_nan=True), f"{call.name}: the output changed after the exception"
    del out, seen
out = empty.copy()
call.run(0, out)
wrong = call.wrong(0, out)
assert not wrong.any(), f"{call.name} {out.shape} {out.dtype}: {wrong.sum()} wrong after interrupts, first {np.argwhere(wrong)[0]}"
print(call.name, interrupted, finished)
"""


def attempt(rng: random.Random, place: Place) -> Counter[str]:
    """A routine in a child, interrupted some dozen times; afterwards it must still be right."""
    name, interrupted, finished = children.run(place, _SCRIPT, rng.getrandbits(32), _EACH).rsplit(maxsplit=2)
    return Counter({f"{name} interrupted": int(interrupted), "finished before": int(finished)})
