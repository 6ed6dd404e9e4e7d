"""Gaussian process: model the logarithm of the time and the probability of failure, and try where the expected improvement is largest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from portatile.records import Config
from portatile.space import ParameterSpace
from portatile.strategies import Finished, Search
from portatile.strategies._encoding import Code, SearchDomain
from portatile.strategies._scale import floor
from portatile.strategies._surrogate import Surrogate

Array = NDArray[np.float64]

OPENING = 6  # configurations spread over the space before the first model
BATCH = 16  # requests at a time: enough for as many evaluators
FREE = 4  # one in so many requests (the first) may lie anywhere; see ``near``
POOL = 2000  # candidates that the models judge at first
FIRST_DRAWS, DRAWS = 256, 16  # candidates drawn if the space is not listed: at the first fit, and at each later one
CLIMBS, TOP = 2, 4  # then, CLIMBS times, the neighbours of the TOP best candidates are added
MEMORY = 300  # observations that a model uses
LEARN_FROM = 120  # observations that its hyper-parameters are fitted to
STEPS = 8  # steps of that fit
GROWTH = 1.08  # the models are fitted again when the number of observations has grown by this factor


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config], *, opening: int = OPENING) -> Search:
    """Spread a few configurations over the space, then follow the model; ends when every configuration is known."""
    return Explorer(space, rng, opening).search(start)


class Explorer:
    """The state of one search: the observations, and the models fitted to them.

    A variant of the strategy may override ``targets``, ``candidates`` and ``near``.
    """

    def __init__(self, space: ParameterSpace, rng: np.random.Generator, opening: int = OPENING) -> None:
        self.rng, self.opening = rng, opening
        self.domain = SearchDomain(space, rng)
        self.encoding = self.domain.encoding
        self.known: dict[Code, float] = {}
        self.time = Surrogate(self.encoding.dimensions)
        self.validity = Surrogate(self.encoding.dimensions)
        self._order: list[Code] = []  # the observations that the models use
        self._pool: list[Code] = []
        self.pool = np.zeros((0, len(self.encoding.names)), dtype=np.int64)  # the same as an array, [candidates, parameters]
        self._place: dict[Code, int] = {}
        self._fails = False
        self._drawn: list[Code] = []
        self._open = np.zeros(0, dtype=bool)  # candidates not known yet
        self._next_fit = 0

    def search(self, start: Sequence[Config]) -> Search:
        """Yield lists of requests, receive finished evaluations."""
        opening = list(dict.fromkeys(self.encoding.code(config) for config in start))
        # the spare ones keep evaluators busy until the opening has finished
        spread = self.domain.spread(self.opening + BATCH, opening)
        opening, spare = opening + spread[: self.opening], spread[self.opening :]
        while True:
            opening = [code for code in opening if code not in self.known]
            requests = [*opening, *(code for code in spare if code not in self.known)] if opening else self._requests()
            if not requests:
                return
            finished = yield [self.encoding.config(code) for code in requests]
            self._learn(finished)

    def targets(self, logarithms: Array) -> Array:
        """The values to which the model of the time is fitted: logarithms of times in seconds, or of another measure above its floor."""
        return logarithms

    def candidates(self) -> list[Code]:
        """The configurations that the models judge beside the neighbours of the best: anywhere in the space.

        They are random draws if the space is listed; otherwise those drawn so far and a few new ones, because drawing is expensive.
        """
        if self.domain.listed is not None:
            return self.domain.draw(POOL, self.known)
        self._drawn = [*self.domain.draw(DRAWS if self._drawn else FIRST_DRAWS, self.known), *self._drawn][:POOL]
        return self._drawn

    def near(self) -> NDArray[np.bool_]:
        """A mask of the candidates, [candidates], from which most requests are taken; here all of them."""
        return np.ones(len(self.pool), dtype=bool)

    def _learn(self, finished: Sequence[Finished]) -> None:
        for outcome in finished:
            code = self.encoding.code(outcome.config)
            if code not in self.known:
                self.known[code] = outcome.median
                if self._pool:
                    self._extend(code)

    def _requests(self) -> list[Code]:
        if sum(map(math.isfinite, self.known.values())) < 2:
            return self.domain.spread(BATCH, self.known) or self.domain.fresh(BATCH, self.known)
        if len(self.known) >= self._next_fit or not self._open.any():
            self._fit()
        if not self._pool:
            return self.domain.fresh(BATCH, self.known)
        worth, near = self._worth(), self.near()
        chosen: list[Code] = []
        for turn in range(min(BATCH, int(self._open.sum()))):
            worth[~self._open] = -1.0
            here = np.where(near, worth, -1.0) if turn % FREE else worth
            place = int(np.argmax(here if here.max() >= 0 else worth))
            chosen.append(self._pool[place])
            worth *= np.sqrt(1.0 - self.time.prior_correlation(place) ** 2)  # the uncertainty that remains after this one is evaluated
            worth[place] = -1.0
        return chosen

    def _fit(self) -> None:
        """Fit both models to the observations, and draw new candidates."""
        self._next_fit = max(len(self.known) + 2, int(len(self.known) * GROWTH))
        self._order = self._training_set()
        self._pool, self._place, self._open = [], {}, np.zeros(0, dtype=bool)
        self.pool = self.pool[:0]
        best = self._order[:TOP]
        self._gather([*self.candidates(), *(code for known in best for code in self.domain.around(known))])
        if not self._pool:
            return
        points, candidates = self.encoding.points(self._order), self.encoding.points(self._pool)
        valid = self._valid()
        self._train(self.time, points[valid], self._targets(), candidates)
        self._fails = not valid.all()
        if self._fails:
            self._train(self.validity, points, valid - valid.mean(), candidates)
        for _ in range(CLIMBS):
            promising = [self._pool[place] for place in np.argsort(-self._worth())[:TOP]]
            fresh = self._gather(code for candidate in promising for code in self.domain.around(candidate))
            if fresh:
                for model in (self.time, self.validity)[: 1 + self._fails]:
                    model.widen(self.encoding.points(fresh))

    def _gather(self, codes: Iterable[Code]) -> list[Code]:
        """Add codes that are neither known nor candidates yet; return those that were added."""
        fresh = [code for code in dict.fromkeys(codes) if code not in self.known and code not in self._place]
        self._place |= {code: place for place, code in enumerate(fresh, len(self._pool))}
        self._pool += fresh
        self.pool = np.vstack([self.pool, np.array(fresh, dtype=np.int64).reshape(len(fresh), -1)]) if fresh else self.pool
        self._open = np.append(self._open, np.ones(len(fresh), dtype=bool))
        return fresh

    def _train(self, model: Surrogate, points: Array, values: Array, candidates: Array) -> None:
        some = np.sort(self.rng.permutation(len(values))[:LEARN_FROM])
        model.fit(points[some], values[some] - values[some].mean(), STEPS)
        model.condition(points, candidates)

    def _extend(self, code: Code) -> None:
        """Add one observation to the models."""
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
        targets = self._targets()
        mean, doubt = self.time.predict(targets - targets.mean())
        worth = expected_improvement(targets.min() - targets.mean() - mean, doubt)
        if self._fails:
            valid = self._valid()
            score, spread = self.validity.predict(valid - valid.mean())
            worth *= normal_cdf((score + valid.mean() - 0.5) / np.maximum(spread, 0.05))
        return worth

    def _targets(self) -> Array:
        values = [self.known[code] for code in self._order if math.isfinite(self.known[code])]
        return self.targets(np.log(np.array(values) - floor(values)))

    def _valid(self) -> NDArray[np.bool_]:
        return np.array([math.isfinite(self.known[code]) for code in self._order])

    def _training_set(self) -> list[Code]:
        """The observations that the models use: all, or the best ones and a random part of the rest."""
        codes = sorted(self.known, key=lambda code: self.known[code])
        if len(codes) <= MEMORY:
            return codes
        rest = self.rng.permutation(len(codes) - MEMORY // 2)[: MEMORY // 2] + MEMORY // 2
        return codes[: MEMORY // 2] + [codes[i] for i in rest]


def normal_cdf(z: Array) -> Array:
    """The standard normal distribution function."""
    return np.array([math.erfc(x) for x in (-z / math.sqrt(2.0)).tolist()]) / 2


def expected_improvement(gain: Array, deviation: Array) -> Array:
    """E[max(N(gain, deviation^2), 0)], positive down to a gain of -35 deviations."""
    z = np.maximum(gain / np.maximum(deviation, 1e-300), -35.0)  # the deviation is 0 if all values are equal
    improvement: Array = deviation * (z * normal_cdf(z) + np.exp(-(z**2) / 2) / math.sqrt(2.0 * math.pi))
    return improvement
