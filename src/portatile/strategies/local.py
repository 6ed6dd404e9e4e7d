"""Hill climbing with restarts: scout, climb from the best to the first better neighbour, and restart elsewhere at a summit.

Neighbours differ in one parameter. Which of them to try first is guessed from what is known nearby: the mean of the
logarithms of the times, weighted by ``exp(-differing parameters / REACH)``. A restart is the most promising of some
configurations that are near the best or anywhere, by chance.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from portatile.records import Config
from portatile.space import ParameterSpace
from portatile.strategies import Finished, Search
from portatile.strategies._encoding import Code, SearchDomain
from portatile.strategies._scale import floor

SCOUTS = 10  # random configurations before the first climb
REACH = 0.4  # differing parameters over which the weight of an observation falls by e
POOL = 20  # configurations that a restart is chosen from
NEAR = 0.5  # probability that they are near the best
FAILURE = 0.5  # a failure counts as exp(this) times as slow as the slowest

Walk = Generator[Sequence[Config], Sequence[Finished], None]


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config], *, scouts: int = SCOUTS, near: float = NEAR) -> Search:
    """Climb until every configuration is known."""
    climber = _Climber(space, rng, near)
    opening = [climber.domain.encoding.code(config) for config in start]
    yield from climber.visit([*opening, *climber.domain.fresh(scouts, opening)])
    summit = climber.best()
    while True:
        yield from climber.climb(summit)
        restart = climber.restart()
        if restart is None:
            return
        yield from climber.visit([restart])
        summit = restart


class _Climber:
    """The observations of a search, and where to go on from them."""

    def __init__(self, space: ParameterSpace, rng: np.random.Generator, near: float) -> None:
        self.rng, self.near = rng, near
        self.domain = SearchDomain(space, rng)
        self.places: dict[Code, int] = {}  # of what is known, in the order in which it finished
        self._codes = np.empty((256, len(space.parameters)), dtype=np.int32)
        self._times: list[float] = []

    def visit(self, codes: Iterable[Code]) -> Walk:
        """Request all of ``codes``."""
        left = [code for code in dict.fromkeys(codes) if code not in self.places]
        while left:
            self._learn((yield self._requests(left)))
            left = [code for code in left if code not in self.places]

    def climb(self, here: Code) -> Walk:
        """Go to a better neighbour while there is one."""
        better: Code | None = here
        while better is not None:
            here, better = better, None
            moves = self._promising([code for code in self.domain.around(here) if code not in self.places])
            while moves and better is None:
                news = self._learn((yield self._requests(moves)))
                moves = [code for code in moves if code not in self.places]
                better = min((code for code in news if self._time(code) < self._time(here)), key=self._time, default=None)

    def restart(self) -> Code | None:
        """The configuration to climb from next; None when everything is known."""
        pool = self._near(self.best()) if self.rng.random() < self.near else []
        pool = pool or self.domain.fresh(POOL, self.places)
        return self._promising(pool)[0] if pool else None

    def best(self) -> Code:
        """The fastest known, the first of several."""
        return min(self.places, key=self._time)

    def _near(self, code: Code) -> list[Code]:
        """Unknown legal codes that differ from ``code`` in two or three parameters."""
        near: dict[Code, None] = {}
        values = self.domain.encoding.values
        free = [parameter for parameter, choices in enumerate(values) if len(choices) > 1]
        for _ in range(5 * POOL):
            other = list(code)
            for parameter in self.rng.permutation(free)[: int(self.rng.integers(2, 4))].tolist():
                other[parameter] = int(self.rng.integers(len(values[parameter])))
            candidate = tuple(other)
            if candidate not in self.places and candidate not in near and self.domain.legal(candidate):
                near[candidate] = None
            if len(near) == POOL:
                break
        return list(near)

    def _promising(self, codes: list[Code]) -> list[Code]:
        """``codes`` by expected time, the shortest first; equals in random order."""
        if not codes:
            return []
        shuffled = [codes[place] for place in self.rng.permutation(len(codes)).tolist()]
        known = self._codes[: len(self._times)]
        distances = (np.array(shuffled, dtype=np.int32)[:, None, :] != known[None, :, :]).sum(axis=2)
        weights = np.exp((distances.min(axis=1, keepdims=True) - distances) / REACH)
        expected = weights @ self._filled() / weights.sum(axis=1)
        return [shuffled[place] for place in np.argsort(expected, kind="stable").tolist()]

    def _filled(self) -> NDArray[np.float64]:
        """The logarithms of the times, with a number in the place of failures."""
        times = np.array(self._times)
        valid = np.isfinite(times)
        if not valid.any():
            return np.zeros(len(times))
        some = times[valid]
        base = floor(some.tolist())
        logs = np.log(np.where(valid, times, some.max()) - base)
        return np.where(valid, logs, logs.max() + FAILURE)

    def _time(self, code: Code) -> float:
        return self._times[self.places[code]]

    def _requests(self, codes: Iterable[Code]) -> list[Config]:
        return [self.domain.encoding.config(code) for code in codes]

    def _learn(self, finished: Sequence[Finished]) -> list[Code]:
        news = []
        for outcome in finished:
            code = self.domain.encoding.code(outcome.config)
            if code in self.places:
                continue
            if len(self._times) == len(self._codes):
                self._codes = np.concatenate([self._codes, np.empty_like(self._codes)])
            self._codes[len(self._times)] = code
            self.places[code] = len(self._times)
            self._times.append(outcome.median)
            news.append(code)
        return news
