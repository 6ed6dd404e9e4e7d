"""Gaussian process: model the logarithm of the time and the chance of failure, and try where improvement is most expected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from portatile.records import Config
from portatile.space import ParameterSpace
from portatile.strategies import Finished, Search
from portatile.strategies._encoding import Code, Terrain
from portatile.strategies._surrogate import Surrogate

Array = NDArray[np.float64]

OPENING = 8  # configurations spread over the space before the first model
WISHES = 8  # at a time
POOL = 2000  # candidates the models are asked about
MEMORY = 400  # observations a model rests on
LEARN_FROM = 200  # observations its hyper-parameters are fitted to
STEPS = 15  # of that fit
GROWTH = 1.15  # fit again when there are this many times the observations of the last fit


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search:
    """Spread a few configurations over the space, then follow the model; ends when nothing is left."""
    return Explorer(space, rng).search(start)


class Explorer:
    """The state of one search: what is known, and what the models make of it."""

    def __init__(self, space: ParameterSpace, rng: np.random.Generator) -> None:
        self.rng = rng
        self.terrain = Terrain(space, rng)
        self.encoding = self.terrain.encoding
        self.known: dict[Code, float] = {}
        self.time = Surrogate(self.encoding.dimensions)
        self.validity = Surrogate(self.encoding.dimensions)
        self._order: list[Code] = []  # what the models rest on
        self._pool: list[Code] = []
        self._place: dict[Code, int] = {}
        self._fails = False
        self._open = np.zeros(0, dtype=bool)  # candidates not known yet
        self._next_fit = 0

    def search(self, start: Sequence[Config]) -> Search:
        """The generator of wishes."""
        opening = list(dict.fromkeys(self.encoding.code(config) for config in start))
        opening += self.terrain.spread(OPENING, opening)
        while True:
            opening = [code for code in opening if code not in self.known]
            wishes = opening or self._wishes()
            if not wishes:
                return
            finished = yield [self.encoding.config(code) for code in wishes]
            self._learn(finished)

    def _learn(self, finished: Sequence[Finished]) -> None:
        for outcome in finished:
            code = self.encoding.code(outcome.config)
            if code not in self.known:
                self.known[code] = outcome.median if outcome.median > 0 else math.inf
                if self._pool:
                    self._extend(code)

    def _wishes(self) -> list[Code]:
        if sum(map(math.isfinite, self.known.values())) < 2:
            return self.terrain.spread(WISHES, self.known) or self.terrain.fresh(WISHES, self.known)
        if len(self.known) >= self._next_fit or not self._open.any():
            self._fit()
        if not self._pool:
            return self.terrain.fresh(WISHES, self.known)
        worth = self._worth()
        chosen: list[Code] = []
        for _ in range(min(WISHES, int(self._open.sum()))):
            worth[~self._open] = -1.0
            place = int(np.argmax(worth))
            chosen.append(self._pool[place])
            worth *= 1.0 - self.time.likeness(place) ** 2
            worth[place] = -1.0
        return chosen

    def _fit(self) -> None:
        """Fit both models to what is known, and gather candidates anew."""
        self._next_fit = max(len(self.known) + 2, int(len(self.known) * GROWTH))
        self._order = self._memorable()
        self._pool = self._candidates()
        self._place = {code: place for place, code in enumerate(self._pool)}
        self._open = np.ones(len(self._pool), dtype=bool)
        if not self._pool:
            return
        points, candidates = self.encoding.points(self._order), self.encoding.points(self._pool)
        valid = self._valid()
        self._train(self.time, points[valid], self._times(), candidates)
        self._fails = not valid.all()
        if self._fails:
            self._train(self.validity, points, valid - valid.mean(), candidates)

    def _train(self, model: Surrogate, points: Array, values: Array, candidates: Array) -> None:
        some = np.sort(self.rng.permutation(len(values))[:LEARN_FROM])
        model.fit(points[some], values[some] - values[some].mean(), STEPS)
        model.condition(points, candidates)

    def _extend(self, code: Code) -> None:
        """Tell the models of one more observation."""
        if code in self._place:
            self._open[self._place[code]] = False
        self._order.append(code)
        point = self.encoding.points([code])[0]
        valid = math.isfinite(self.known[code])
        if valid:
            self.time.extend(point)
        if self._fails:
            self.validity.extend(point)
        elif not valid:
            self._next_fit = 0

    def _worth(self) -> Array:
        """The expected improvement of the logarithm of the time, times the probability of a valid result."""
        times = self._times()
        mean, deviation = self.time.predict(times - times.mean())
        worth = expected_improvement(times.min() - times.mean() - mean, deviation)
        if self._fails:
            valid = self._valid()
            score, doubt = self.validity.predict(valid - valid.mean())
            worth *= normal_cdf((score + valid.mean() - 0.5) / np.maximum(doubt, 0.05))
        return worth

    def _times(self) -> Array:
        return np.log([self.known[code] for code in self._order if math.isfinite(self.known[code])])

    def _valid(self) -> NDArray[np.bool_]:
        return np.array([math.isfinite(self.known[code]) for code in self._order])

    def _memorable(self) -> list[Code]:
        """What the models shall rest on: everything, or the best and a random part of the rest."""
        codes = sorted(self.known, key=lambda code: self.known[code])
        if len(codes) <= MEMORY:
            return codes
        rest = self.rng.permutation(len(codes) - MEMORY // 2)[: MEMORY // 2] + MEMORY // 2
        return codes[: MEMORY // 2] + [codes[i] for i in rest]

    def _candidates(self) -> list[Code]:
        """Unknown codes: all when they are few, else random ones and the surroundings of the best."""
        found = dict.fromkeys(self.terrain.draw(POOL, self.known))
        best = sorted(self.known, key=lambda code: self.known[code])[:3]
        found |= dict.fromkeys(other for code in best for other in self.terrain.around(code) if other not in self.known)
        return list(found)


def normal_cdf(z: Array) -> Array:
    """The standard normal distribution function."""
    return np.array([math.erfc(x) for x in (-z / math.sqrt(2.0)).tolist()]) / 2


def expected_improvement(gain: Array, deviation: Array) -> Array:
    """E[max(N(gain, deviation^2), 0)], positive down to a gain of -35 deviations."""
    z = np.maximum(gain / deviation, -35.0)
    improvement: Array = deviation * (z * normal_cdf(z) + np.exp(-(z**2) / 2) / math.sqrt(2.0 * math.pi))
    return improvement
