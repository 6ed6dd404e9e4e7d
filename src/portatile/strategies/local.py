"""Hill climbing with restarts: take the first better neighbour; at a local optimum start again, near the best or far from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portatile.records import Config, canonical
from portatile.space import ParameterSpace
from portatile.strategies import Search

SCOUTS = 5  # random configurations before the first climb
_REPEATS = 200


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search:
    """Climb from the best of ``start`` and a few random configurations, then from others, until the space is used up."""
    known: dict[str, float] = {}
    configs: dict[str, Config] = {}

    def note(finished) -> None:
        for outcome in finished:
            key = canonical(outcome.config)
            known[key] = outcome.median
            configs[key] = outcome.config

    def fresh(n: int) -> list[Config]:
        found = {}
        for _ in range(_REPEATS):
            if len(found) >= n:
                break
            c = space.sample(rng)
            k = canonical(c)
            if k not in known:
                found[k] = c
        if not found:
            rest = [c for c in space if canonical(c) not in known]
            if not rest:
                return []
            return [rest[int(rng.integers(len(rest)))]]
        return list(found.values())

    wishes = {canonical(c): c for c in [*start, *fresh(SCOUTS)]}
    while wishes:
        note((yield list(wishes.values())))
        for k in list(wishes):
            if k in known:
                del wishes[k]
    here = min(known, key=known.get)
    while True:
        # climb
        while True:
            moves = [c for c in space.neighbours(configs[here]) if canonical(c) not in known]
            moves = [moves[i] for i in rng.permutation(len(moves))]
            better = None
            wishes = {canonical(c): c for c in moves}
            while wishes and better is None:
                finished = yield list(wishes.values())
                note(finished)
                for o in finished:
                    k = canonical(o.config)
                    wishes.pop(k, None)
                    if o.median < known[here] and (better is None or o.median < known[better]):
                        better = k
            if better is None:
                break
            here = better
        new = fresh(1)
        if not new:
            return
        wishes = {canonical(c): c for c in new}
        while wishes:
            note((yield list(wishes.values())))
            for k in list(wishes):
                if k in known:
                    del wishes[k]
        here = canonical(new[0])
