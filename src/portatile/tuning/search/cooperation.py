"""Searches on devices of one kind at the same time: they try different configurations, and tell each other what is faster.

What is tried first is dealt out, each draws by a seed of its own, and a configuration that is the fastest on one device is tried on the
others. So together they find it sooner, and each still measures what it calls its winner.
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
    """What such searches share. Safe to use from several threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        self._best: list[tuple[float, Config | None]] = [(math.inf, None)] * count

    def participant(self, place: int) -> Participant:
        """The part of search ``place``."""
        return Participant(self, place)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What the first search made; the others wait for it."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def tell(self, place: int, config: Config, score: float) -> None:
        """Search ``place`` has found what is its best."""
        with self._lock:
            self._best[place] = score, config

    def better(self, place: int) -> list[Config]:
        """What other searches have found that is better than the best of search ``place``."""
        with self._lock:
            return [config for score, config in self._best if config is not None and score < self._best[place][0]]


@dataclass
class Participant:
    """One search's part in what such searches share."""

    whole: Cooperation
    place: int

    @property
    def count(self) -> int:
        """The number of searches."""
        return self.whole.count

    def rng(self, seed: int) -> np.random.Generator:
        """The generator of this search; the first one's is as without others."""
        return np.random.default_rng([seed, self.place] if self.place else seed)

    def share(self, configs: Mapping[str, Config]) -> dict[str, Config]:
        """Its share of configurations that are worth trying first: the fastest go to different searches."""
        return dict(islice(configs.items(), self.place, None, self.count))

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """As of ``Cooperation``."""
        return self.whole.once(name, make)

    def tell(self, config: Config, score: float) -> None:
        """Let the others know of the best here."""
        if self.count > 1:
            self.whole.tell(self.place, config, score)

    def news(self) -> list[Config]:
        """What others have found that is better than the best here, whether it was tried here or not."""
        return self.whole.better(self.place) if self.count > 1 else []


def alone() -> Participant:
    """The part of a search that has no others."""
    return Cooperation(1).participant(0)
