"""Strategies: what to try next. One file each, found by its name.

The protocol
------------
A strategy is a generator function called ``search`` in ``strategies/<name>.py``::

    def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search: ...

It **yields requests**: a list of configurations of ``space``, the most wanted first. Each list replaces the one before, but evaluations
that the caller has begun are not cancelled. The caller takes as many from the front as it can evaluate at once. So a strategy that requests
several configurations keeps several devices busy, and one that requests a single one has it evaluated alone.

It **is sent what has finished since then**, in any order, perhaps nothing: objects with ``config`` and ``median``, as a Trial has. The
median is in seconds or another measure to minimise, which may be negative; it is infinite for a configuration that failed. Every
configuration comes back once. A request that is being evaluated may be repeated; one that has come back must not be.

It **ends** by returning, or by requesting nothing while nothing is being evaluated.

``start`` are legal configurations to try first, in this order: the default, and those that were good on a similar problem or device. All
randomness comes from ``rng``. Options of a strategy are keyword-only parameters of ``search``, numbers with defaults. The generator
knows no clock, budget, cache or device: recorded, distributed and live evaluation are three callers of the same generator.
``evaluate`` is the simplest driver. ``with_suggestions`` tries what others found beside a strategy's requests.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np

from portatile.errors import ArgumentError, UnknownNameError
from portatile.records import Config, canonical
from portatile.space import ParameterSpace


class Finished(Protocol):
    """The result of one evaluation as strategies see it; a Trial is one."""

    @property
    def config(self) -> Config:
        """The configuration."""

    @property
    def median(self) -> float:
        """Seconds per run, or another measure to minimise; infinite for a failure."""


_TRIED = 2  # suggestions that are always tried

Search = Generator[Sequence[Config], Sequence[Finished], None]
Strategy = Callable[[ParameterSpace, np.random.Generator, Sequence[Config]], Search]


def names() -> list[str]:
    """The names of all strategies."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def check(name: str) -> None:
    """Raise UnknownNameError, which lists the known names, if there is no strategy called ``name``."""
    if name not in names():
        raise UnknownNameError("strategy", name, names())


def get(name: str, options: Mapping[str, float] = MappingProxyType({})) -> Strategy:
    """The strategy called ``name``, with ``options`` in place of its defaults.

    Raises UnknownNameError for an unknown strategy or option, and lists the known ones; ArgumentError for an option's invalid value.
    """
    check(name)
    strategy: Strategy = importlib.import_module(f"{__name__}.{name}").search
    if not options:
        return strategy
    known = {
        parameter.name: parameter.default
        for parameter in inspect.signature(strategy).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for option, value in options.items():
        if option not in known:
            raise UnknownNameError(f"option of the strategy {name}", option, known)
        integral = isinstance(known[option], int)
        if isinstance(value, bool) or not isinstance(value, int if integral else (int, float)) or not 0 < value < math.inf:
            raise ArgumentError(f"{option}={value!r} of the strategy {name} must be a positive {'whole ' if integral else ''}number")
    return partial(strategy, **options)


def evaluate(search: Search, measure: Callable[[Config], Finished]) -> Iterator[Finished]:
    """Drive a strategy with a function, one configuration at a time: for recorded spaces, tests and studies."""
    known: dict[str, Finished] = {}
    finished: list[Finished] = []
    try:
        requests = next(search)
        while True:
            request = next((config for config in requests if canonical(config) not in known), None)
            if request is None:
                return
            outcome = known[canonical(request)] = measure(request)
            yield outcome
            finished = [outcome]
            requests = search.send(finished)
    except StopIteration:
        return
    finally:
        search.close()


def with_suggestions(search: Search, suggested: Sequence[Config]) -> Search:
    """Drive a search whose first requests alternate with configurations that others suggest, the most promising first; all are legal.

    Two suggestions are tried, and each later one only while a suggestion is the fastest of all evaluated configurations. The search is sent
    the result of a suggestion only if it requests that configuration itself; otherwise a model would search for the best near the
    suggestions, which lie close together. So unsuitable suggestions cost their own evaluations and nothing more.
    """
    waiting, own_turn, unreported = {canonical(config): config for config in suggested}, False, dict[str, Finished]()
    names, best, leads = frozenset(waiting), math.inf, False
    try:
        requests = next(search)
        while True:
            while asked := [unreported.pop(key) for config in requests if (key := canonical(config)) in unreported]:
                requests = search.send(asked)
            pays = leads or len(names) - len(waiting) < _TRIED
            first = list(waiting.values())[:1] if pays and not own_turn else []
            finished: Sequence[Finished] = yield [*first, *requests]
            wanted, reported = {canonical(config) for config in requests}, list[Finished]()
            for outcome in finished:
                key = canonical(outcome.config)
                own_turn = key in names
                waiting.pop(key, None)
                if outcome.median < best:
                    best, leads = outcome.median, own_turn
                if own_turn and key not in wanted:
                    unreported[key] = outcome
                else:
                    reported.append(outcome)
            requests = search.send(reported)
    except StopIteration:
        return
    finally:
        search.close()
