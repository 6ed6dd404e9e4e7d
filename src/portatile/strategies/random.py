"""Configurations drawn uniformly without repetition: the baseline that every other strategy has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portatile.errors import SpaceError
from portatile.records import Config, canonical
from portatile.space import ParameterSpace
from portatile.strategies import Search

AHEAD = 64
_REPEATS = 200  # after this many known draws in a row the rest of the space is listed


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search:
    """Draw until every configuration is known; the order does not depend on the outcomes."""
    drawn = _Draws(space, rng, start)
    requests: dict[str, Config] = {}
    while True:
        while len(requests) < AHEAD and (config := drawn.next()) is not None:
            requests[canonical(config)] = config
        if not requests:
            return
        finished = yield list(requests.values())
        for outcome in finished:
            requests.pop(canonical(outcome.config), None)


class _Draws:
    """Configurations that have not been drawn before."""

    def __init__(self, space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> None:
        self.space, self.rng = space, rng
        self.seen: set[str] = set()
        self.waiting: list[Config] = list(start)[::-1]
        self.listed = False

    def next(self) -> Config | None:
        while True:
            while self.waiting:
                config = self.waiting.pop()
                if self._new(config):
                    return config
            if self.listed:
                return None
            for _ in range(_REPEATS):
                try:
                    config = self.space.sample(self.rng)
                except SpaceError:
                    break
                if self._new(config):
                    return config
            self.listed = True
            rest = [config for config in self.space if canonical(config) not in self.seen]
            self.waiting = [rest[i] for i in self.rng.permutation(len(rest))]

    def _new(self, config: Config) -> bool:
        key = canonical(config)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True
