"""Counts of legal completions of partial configurations, by which a space is counted and sampled without listing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portatile.records import Value
from portatile.space.deadline import Steps
from portatile.space.residue import Reader
from portatile.space.rules import Rules

_TRIES = 8  # values of parameters that may be looked at for each state that there may be


class TooManyStatesError(Exception):
    """Counting takes too long."""


class Counting:
    """The numbers of legal completions of partial configurations, in the order of the parameters.

    What is left to be decided depends only on the constraints that are still open and on what these calculate from the values that
    are bound: partial configurations that agree in both have as many completions, so that one count serves them all. ``total`` is that
    of the space. Raises TooManyStatesError beyond ``states`` of them. After ``fruitless`` counts in a row without a legal configuration it
    is asked of each partial one, by bounds on its parameters, whether it can become one at all.
    """

    def __init__(self, rules: Rules, states: int, fruitless: int) -> None:
        self._rules, self._states, self._most_fruitless = rules, states, fruitless
        self._known: dict[tuple[int, int, Any], int] = {}
        self._readers: dict[tuple[int, int], Reader] = {}
        self._steps, self._fruitless = Steps(), 0
        self.total = 0 if rules.open is None else self._completions(dict(rules.facts), 0, rules.open)

    def draw(self, rng: np.random.Generator) -> dict[str, Value]:
        """A legal configuration, each with the same probability."""
        values, pending = dict(self._rules.facts), self._rules.open
        assert pending is not None
        for depth, name in enumerate(self._rules.names):
            ways = [*self._ways(values, depth, pending)]
            chances = np.array([float(count) for _, _, count in ways])
            values[name], pending, _ = ways[int(rng.choice(len(ways), p=chances / chances.sum()))]
        return {name: values[name] for name in self._rules.names}

    def listed(self) -> Iterator[dict[str, Value]]:
        """Every legal configuration, in the order of the values; no partial one is looked at that has no completion."""
        if self._rules.open is not None and self.total:
            yield from self._listed(dict(self._rules.facts), 0, self._rules.open)

    def _listed(self, values: dict[str, Value], depth: int, pending: int) -> Iterator[dict[str, Value]]:
        if depth == len(self._rules.names):
            yield {name: values[name] for name in self._rules.names}
            return
        for _, left, _ in self._ways(values, depth, pending):
            yield from self._listed(values, depth + 1, left)

    def _completions(self, values: dict[str, Value], depth: int, pending: int) -> int:
        if depth == len(self._rules.names):
            self._fruitless = 0
            return 1
        place = depth, pending
        read = self._readers.get(place)
        if read is None:
            read = self._readers[place] = self._rules.reader(depth, pending)
        key = (*place, read(values))
        if key not in self._known:
            if len(self._known) >= self._states or self._steps.taken > _TRIES * self._states:
                raise TooManyStatesError
            self._fruitless += 1
            infeasible = self._fruitless > self._most_fruitless and self._rules.infeasible(values, depth, pending)
            self._known[key] = 0 if infeasible else sum(count for _, _, count in self._ways(values, depth, pending))
        return self._known[key]

    def _ways(self, values: dict[str, Value], depth: int, pending: int) -> Iterator[tuple[Value, int, int]]:
        """The values of the next parameter, what is open after each, and its completions where there are any."""
        name = self._rules.names[depth]
        for value in self._rules.parameters[name]:
            self._steps.step()
            values[name] = value
            left = self._rules.settle(values, name, pending)
            if left is not None and (count := self._completions(values, depth + 1, left)):
                yield value, left, count
        del values[name]
