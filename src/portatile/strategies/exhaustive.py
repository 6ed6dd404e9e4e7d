"""Every configuration of the space, in its own order, after the configurations to start with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from portatile.records import Config, canonical
from portatile.space import ParameterSpace
from portatile.strategies import Search

AHEAD = 64  # requests at a time: enough for any number of compile workers, few enough for a space too large to list


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search:
    """List the space lazily; ``rng`` is not used."""
    coming = _distinct(space, start)
    requests = {canonical(config): config for config in islice(coming, AHEAD)}
    while requests:
        finished = yield list(requests.values())
        for outcome in finished:
            requests.pop(canonical(outcome.config), None)
        for config in islice(coming, AHEAD - len(requests)):
            requests[canonical(config)] = config


def _distinct(space: ParameterSpace, start: Sequence[Config]) -> Iterator[Config]:
    first = {canonical(config): config for config in start}
    yield from first.values()
    yield from (config for config in space if canonical(config) not in first)
