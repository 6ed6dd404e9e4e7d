"""Disks that are full: what a store cannot write it keeps in memory, and loses nothing that it took."""

from __future__ import annotations

import random

from attack import Place, children

_SCRIPT = """
import resource, signal, sys, warnings
from pathlib import Path
from portatile.store import ResultStore
from support.trials import trial
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[2])
path = Path("data/results.sqlite")
with ResultStore(path) as store:
    store.add(trial(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
warnings.simplefilter("ignore")
with ResultStore(path) as store:
    for number in range(1, 30):
        store.add(trial(number))
    assert [one.config["TILE"] for one in store.trials()] == list(range(30))
"""


def attempt(rng: random.Random, place: Place) -> str:
    """No file grows beyond some bytes while trials are added."""
    children.run(place, _SCRIPT, rng.choice((0, 1, 4096, 10_000, 40_000)))
    return "kept"
