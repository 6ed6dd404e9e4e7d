"""Interrupts at random times inside routines, and the end of the interpreter: no crash, and nothing is written late."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from portatile.device.base import Device
from support.seeds import new_seed
from support.unoptimised import environment

pytestmark = pytest.mark.lengthy
_PROGRAM = """
import random, signal, sys, time
import numpy as np
import portatile
from portatile.wavelets import magicfilter3d

name, seconds, draw = sys.argv[1], float(sys.argv[2]), random.Random(int(sys.argv[3]))
rng = np.random.default_rng(1)
lower = np.tril(rng.random((500, 500))) + 500 * np.eye(500)
b, atoms = rng.random((500, 300)), rng.random((300, 4), dtype=np.float32)
cube = rng.random((40, 40, 40))
calls = [
    lambda out: portatile.trsm(lower, b, out=out, device=name),
    lambda out: portatile.matmul(lower, b, out=out, device=name),
    lambda out: portatile.syrk(b, device=name),
    lambda out: portatile.coulomb_potential(atoms, (60, 60), 0.1, device=name),
    lambda out: magicfilter3d(cube, device=name),
]
for call in calls:
    call(np.empty_like(b))
armed = False
def interrupt(number, frame):
    global armed
    if armed:  # a signal that another thread has received may come long after the timer was stopped, and with the next
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
begun, interrupted, late = time.monotonic(), 0, 0
while (passed := time.monotonic() - begun) < seconds or (interrupted <= 10 and passed < 15 * seconds):
    out = np.zeros_like(b)  # a new one for each call, so that one which is freed too soon is somebody else's
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, 8e-3))
        draw.choice(calls)(out)
        armed = False
    except KeyboardInterrupt:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
        before = out.copy()
        time.sleep(0.002)
        late += not np.array_equal(before, out)
    signal.setitimer(signal.ITIMER_REAL, 0)
assert np.allclose(portatile.matmul(lower, b, device=name), lower @ b)
print(interrupted, late)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_interrupts_at_random_times(device: Device, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, device.info.id, "1", str(new_seed("interrupts"))]
    places = {**environment(tmp_path), "MALLOC_MMAP_THRESHOLD_": "1000000"}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=600, env=places)
    assert completed.returncode == 0, completed.stderr[-2000:]
    interrupted, late = map(int, completed.stdout.split())
    assert interrupted > 10, "nothing was interrupted: the test tells nothing"
    assert late == 0


_DAEMONS = """
import sys, threading, time
import numpy as np
import portatile
a = np.random.default_rng(1).random((300, 300))
portatile.matmul(a, a, device=sys.argv[1])
there = portatile.Buffer.from_numpy(a, sys.argv[1])
queue = there.device.default_queue()
calls = {
    "routine": lambda: portatile.matmul(a, a, device=sys.argv[1]),
    "numpy": there.numpy,
    "from_numpy": lambda: portatile.Buffer.from_numpy(a, sys.argv[1]),
    "empty": lambda: portatile.Buffer.empty((30, 30), "float64", sys.argv[1]),
    "finish": lambda: (portatile.matmul(there, there), queue.finish()),
    "event": lambda: (portatile.matmul(there, there), queue.marker().wait()),
}
def work():
    while True:
        calls[sys.argv[2]]()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.thinned(4)
@pytest.mark.parametrize("doing", ["routine", "numpy", "from_numpy", "empty", "finish", "event"])
def test_the_interpreter_ends_while_daemon_threads_compute(device: Device, doing: str, tmp_path: Path) -> None:
    words, places = [sys.executable, "-c", _DAEMONS, device.info.id, doing], environment(tmp_path)
    completed = subprocess.run(words, capture_output=True, text=True, timeout=600, env=places)
    assert (completed.returncode, completed.stderr) == (0, "")
