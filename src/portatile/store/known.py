"""All tuned results: the leaders of the user's store, and the results that come with the package."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path

from portatile import settings
from portatile.errors import PortatileError
from portatile.records import from_json
from portatile.store.results import ResultStore
from portatile.store.rows import device_key
from portatile.trials import Trial
from portatile.user_warnings import warn


def known_results() -> Callable[[str], Sequence[Trial]]:
    """A function that returns all tuned results of a workload: the leaders of the user's store, and the results in the package.

    Times from two machines are not comparable, even for devices of the same name. So the package's results for a problem are ignored once
    the problem was tuned here; that tuning started from them. The store is read once for each workload, by any thread. A store that cannot
    be used counts as empty, with a warning: it must not stop a computation.
    """
    memo: dict[str, Sequence[Trial]] = {}
    lock = threading.Lock()
    place = settings.load().store

    def load(workload: str) -> Sequence[Trial]:
        with lock:
            if workload not in memo:
                own = list(leaders_of(place, workload))
                tried = Counter(map(_place, own))  # a single trial is that of the default, not of a tuning
                memo[workload] = [*own, *(trial for trial in shipped(workload) if tried[_place(trial)] <= 1)]
            return memo[workload]

    return load


def _place(trial: Trial) -> tuple[str, str]:
    return trial.problem.key, device_key(trial.device)


def shipped(workload: str | None = None) -> list[Trial]:
    """The results that come with the package: every ``tuning/shipped/*.json``, each a list of trials."""
    folder = resources.files("portatile").joinpath("tuning", "shipped")
    if not folder.is_dir():
        return []
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    trials = (trial for file in files for trial in from_json(file.read_bytes(), list[Trial]))
    return [trial for trial in trials if workload in (None, trial.problem.workload)]


def leaders_of(place: Path | str, workload: str, count: int = 5) -> Iterable[Trial]:
    """A store's leaders; none, with a warning, if it cannot be used."""
    try:
        if isinstance(place, Path) and not place.is_file():
            return []
    except OSError:  # a folder without access permission
        return []
    try:
        with ResultStore.reader(place, lenient=True) as store:
            return store.for_prediction(workload, count)
    except PortatileError as error:
        warn(f"{error}; going on without it")
        return []
