"""Strategies: what to try next. One file each, found by its name.

The protocol
------------
A strategy is a generator function called ``search`` in ``strategies/<name>.py``::

    def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search: ...

It **yields its wishes**: configurations of ``space``, the one it wants most first. A wish list replaces the one before it;
what the caller has begun meanwhile is not taken back. The caller takes as many from the front as it can evaluate at once, so a
strategy that wishes for several keeps several devices busy, and one that wishes for a single configuration is evaluated in turn.

It **is sent what has finished since**, in any order, perhaps nothing: objects with ``config`` and ``median`` (seconds, or another
measure that is to be least, perhaps negative; infinite for a configuration that failed), as a Trial has. Every configuration comes
back once. A wish that is being evaluated may be repeated: it is not evaluated twice. A wish that has come back must not be repeated.

It **ends** by returning, or by wishing for nothing while nothing is being evaluated.

``start`` are legal configurations to try first, in this order: the default, and what was good on a similar problem or device. The
generator has no other source of randomness than ``rng``, and it knows no clock, budget, cache or device: recorded,
distributed and live evaluation are three callers of the same generator. ``evaluate`` is the plainest one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Protocol

import numpy as np

from portatile.errors import UnknownNameError
from portatile.records import Config, canonical
from portatile.space import ParameterSpace


class Finished(Protocol):
    """What a strategy learns of one evaluation; a Trial is one."""

    @property
    def config(self) -> Config:
        """The configuration."""

    @property
    def median(self) -> float:
        """Seconds per run, or what else is to be least; infinite for a failure."""


Search = Generator[Sequence[Config], Sequence[Finished], None]
Strategy = Callable[[ParameterSpace, np.random.Generator, Sequence[Config]], Search]


def names() -> list[str]:
    """The strategies there are."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def get(name: str) -> Strategy:
    """The strategy called ``name``; raises UnknownNameError with the names there are."""
    if name not in names():
        raise UnknownNameError("strategy", name, names())
    strategy: Strategy = importlib.import_module(f"{__name__}.{name}").search
    return strategy


def evaluate(search: Search, measure: Callable[[Config], Finished]) -> Iterator[Finished]:
    """Drive a strategy with a function, one configuration at a time: for recorded spaces, tests and studies."""
    known: dict[str, Finished] = {}
    finished: list[Finished] = []
    try:
        wishes = next(search)
        while True:
            wish = next((config for config in wishes if canonical(config) not in known), None)
            if wish is None:
                return
            outcome = known[canonical(wish)] = measure(wish)
            yield outcome
            finished = [outcome]
            wishes = search.send(finished)
    except StopIteration:
        return
    finally:
        search.close()
