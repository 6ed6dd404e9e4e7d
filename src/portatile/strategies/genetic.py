"""Genetic algorithm: children mix two of the fastest configurations and mutate slightly; each joins if it is faster than the slowest.

It is a steady-state algorithm: there are no generations to wait for, so that any number of evaluators stays busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from portatile.records import Config
from portatile.space import ParameterSpace
from portatile.strategies import Search
from portatile.strategies._encoding import Code, SearchDomain

POPULATION = 20
BATCH = 8  # children requested at a time
TOURNAMENT = 3  # a parent is the fastest of this many members
_TRIES = 60  # attempts at legal, unknown children before random configurations replace them


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config], *, population: int = POPULATION) -> Search:
    """Breed until every configuration is known."""
    domain = SearchDomain(space, rng)
    code_of, config_of = domain.encoding.code, domain.encoding.config
    known: dict[Code, float] = {}
    founders = [code_of(config) for config in start]
    founders = list(dict.fromkeys([*founders, *domain.draw(max(population - len(founders), population // 2, 1))]))
    requests = founders
    while requests:
        finished = yield [config_of(code) for code in requests]
        known |= {code_of(outcome.config): outcome.median for outcome in finished}
        requests = [code for code in requests if code not in known]
        if finished and all(code in known for code in founders):  # breed again, from better parents
            members = sorted(known, key=lambda code: known[code])[:population]
            requests = _offspring(members, known, domain, rng) or domain.fresh(BATCH, known)


def _offspring(members: Sequence[Code], known: Mapping[Code, float], domain: SearchDomain, rng: np.random.Generator) -> list[Code]:
    born: dict[Code, None] = {}
    for _ in range(_TRIES):
        code = child(members, domain, rng)
        if code not in known and domain.legal(code):
            born[code] = None
        if len(born) == BATCH:
            break
    return list(born)


def child(members: Sequence[Code], domain: SearchDomain, rng: np.random.Generator) -> Code:
    """Each parameter from one of two parents; then each changes with a probability of one in the number of parameters."""
    first, second = (members[int(rng.integers(len(members), size=TOURNAMENT).min())] for _ in range(2))
    mother = rng.random(len(first)) < 0.5
    mixed = [a if take else b for a, b, take in zip(first, second, mother, strict=True)]
    for parameter in np.flatnonzero(rng.random(len(mixed)) < 1 / len(mixed)):
        mixed[parameter] = int(rng.integers(len(domain.encoding.values[parameter])))
    return tuple(mixed)
