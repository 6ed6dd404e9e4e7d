"""Searches on devices of one kind at the same time: they try different configurations, and tell each other what is faster.

The configurations to try first are divided among them, and each draws with a seed of its own. The fastest configuration of one device is
also tried on the others. So together they find it sooner, and each still measures its own winner.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from portatile.records import Config


class Cooperation:
    """The state that ``count`` such searches share. Participants hold the ``lock`` while they use it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lock = threading.RLock()
        self.made: dict[str, Any] = {}  # results of `once`, by name
        self.best: list[tuple[float, Config | None]] = [(math.inf, None)] * count  # time and configuration, for each search

    def participant(self, place: int) -> Participant:
        """The participant of search ``place``."""
        return Participant(self, place)


@dataclass(frozen=True)
class Participant:
    """One search's view of the state that such searches share. Safe to use from several threads."""

    shared: Cooperation
    place: int

    @property
    def count(self) -> int:
        """The number of searches."""
        return self.shared.count

    def rng(self, seed: int) -> np.random.Generator:
        """The random generator of this search; the first search has the one that it would have alone."""
        return np.random.default_rng([seed, self.place] if self.place else seed)

    def share(self, configs: Mapping[str, Config]) -> dict[str, Config]:
        """This search's share of the configurations to try first, which are in order of speed: neighbours go to different searches."""
        return dict(islice(configs.items(), self.place, None, self.count))

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of ``make``, which the first search calls; the others wait for it."""
        with self.shared.lock:
            if name not in self.shared.made:
                self.shared.made[name] = make()
            return self.shared.made[name]

    def report(self, config: Config, score: float) -> None:
        """Tell the others the best configuration here."""
        with self.shared.lock:
            self.shared.best[self.place] = score, config

    def better_configs(self) -> list[Config]:
        """The best configurations of other searches that beat the best here, whether they were tried here or not."""
        with self.shared.lock:
            return [config for score, config in self.shared.best if config is not None and score < self.shared.best[self.place][0]]


def alone() -> Participant:
    """The participant for a search that runs by itself."""
    return Cooperation(1).participant(0)
