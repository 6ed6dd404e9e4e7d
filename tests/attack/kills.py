"""SIGKILL for a tuning parent or its workers at random times: no announced trial is lost, nothing is left running."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import suppress

import psutil

from attack import AttackError, Place, children
from portatile.store import ResultStore

_SCRIPT = """
import sys
from pathlib import Path
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search.tuner import TuningRequest, tune
from support.faulty import Faulty
workload = Faulty(("none",), tuple(range(8, 24)))
problem = workload.problem({"n": 1003})
request = TuningRequest(problem, sys.argv[1] or None, Budget(seconds=30), "random", workload=workload, timing=Timing(3, 0.0005, 0.05))
with ResultStore(Path(sys.argv[2])) as store:
    tune(request, store, lambda progress: print("trial", flush=True))
print("end", flush=True)
"""


def attempt(rng: random.Random, place: Place) -> str:
    """Kill the parent after a few trials, or only its workers, and look at the store and at the processes."""
    path, parent = place.folder / "results.sqlite", rng.random() < 0.6
    command = [sys.executable, "-c", _SCRIPT, place.device or "", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=children.environment(place))
    assert process.stdout is not None
    announced = 0
    for _ in range(rng.randint(1, 5)):
        announced += process.stdout.readline().startswith("trial")
    time.sleep(rng.uniform(0, 0.2))
    workers = psutil.Process(process.pid).children(recursive=True)
    for victim in [process] if parent else rng.sample(workers, min(len(workers), 1)):
        with suppress(psutil.NoSuchProcess):  # a linker may have ended by itself
            victim.kill()
    output = process.stdout.read()  # all that readline has left: communicate() would not see what it has read ahead
    process.wait(children.PATIENCE)
    announced += output.count("trial")
    if not parent and "end" not in output:
        raise AttackError("the search did not survive a killed worker")
    _, left = psutil.wait_procs(workers, 120)
    if left:
        raise AttackError(f"{len(left)} workers go on")
    with ResultStore.reader(path) as store:
        result = store.trials()
    if parent and len(result) < announced:
        raise AttackError(f"{announced} trials were announced, {len(result)} are stored")
    if any(trial.status != "ok" and "outside" not in trial.message for trial in result):
        raise AttackError(f"a kill is blamed on a variant: {next(trial.message for trial in result if trial.status != 'ok')}")
    return "parent" if parent else "worker"
