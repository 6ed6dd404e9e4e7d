"""Simulated annealing: a walk over neighbours that accepts a slower one with a probability that falls as the walk cools.

S. Kirkpatrick, C. D. Gelatt and M. P. Vecchi, "Optimization by Simulated Annealing", Science 220 (1983). The energy is the
logarithm of the time, so that the acceptance depends on ratios, not on the length of the problem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from portatile.records import Config
from portatile.space import ParameterSpace
from portatile.strategies import Search
from portatile.strategies._encoding import Code, SearchDomain
from portatile.strategies._scale import floor

OPENING = 10  # random configurations; the walk starts at the best
BATCH = 8  # neighbours requested at a time
HOT, COLD = 0.2, 0.01  # temperatures: a configuration e^0.2, e^0.01 times slower is accepted with probability 1/e
COOLING = 0.9  # at each step
PATIENCE = 20  # steps without a new best after which the walk returns to the best and is heated again


def search(
    space: ParameterSpace,
    rng: np.random.Generator,
    start: Sequence[Config],
    *,
    opening: int = OPENING,
    hot: float = HOT,
    cold: float = COLD,
    cooling: float = COOLING,
    patience: int = PATIENCE,
) -> Search:
    """Walk until every configuration is known. When a neighbourhood is used up, jump to a random configuration."""
    domain = SearchDomain(space, rng)
    code_of, config_of = domain.encoding.code, domain.encoding.config
    known: dict[Code, float] = {}
    first = list(dict.fromkeys([*map(code_of, start), *domain.draw(opening)]))
    here: Code | None = None
    temperature, idle = hot, 0
    requests = first
    while requests:
        finished = yield [config_of(code) for code in requests]
        for outcome in finished:
            code = code_of(outcome.config)
            if code in known:
                continue
            best = min(known.values(), default=math.inf)
            known[code] = outcome.median
            if code in first:
                continue
            temperature = max(temperature * cooling, cold)
            base = floor([value for value in known.values() if math.isfinite(value)])
            idle = 0 if outcome.median < best else idle + 1
            if here is None or _accepts(known[here], outcome.median, base, temperature, rng):
                here = code
        requests = [code for code in first if code not in known]
        if requests:
            continue
        if here is None or idle >= patience:
            here, temperature, idle = min(known, key=lambda code: known[code]), hot, 0
        fresh = [code for code in domain.around(here) if code not in known]
        if fresh:
            requests = [fresh[i] for i in rng.permutation(len(fresh))[:BATCH]]
        else:
            here = None
            requests = domain.fresh(BATCH, known)


def _accepts(old: float, new: float, base: float, temperature: float, rng: np.random.Generator) -> bool:
    """The Metropolis rule on ratios above ``base``: accept what is not slower; accept a failure only after a failure."""
    if new <= old:
        return True
    return math.isfinite(new) and bool(rng.random() < math.exp(-math.log((new - base) / (old - base)) / temperature))
