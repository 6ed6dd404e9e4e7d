"""Counts of legal completions of partial configurations, by which a space is counted and sampled without enumeration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from portatile.records import Value
from portatile.space.deadline import Steps
from portatile.space.rules import Node, Rules

_TRIES = 8  # values that may be examined for each allowed state


class TooManyStatesError(Exception):
    """Counting would take too many states."""


class Counting:
    """The numbers of legal completions of partial configurations, in the order of the parameters.

    Partial configurations have the same number of completions if the same constraints are open and compute the same from the bound values:
    one count serves them all. ``total`` is the count of the space. Raises TooManyStatesError beyond ``states`` counts. After ``fruitless``
    counts in a row without a legal configuration, bounds on the parameters decide for each partial configuration whether it can become
    legal at all.
    """

    def __init__(self, rules: Rules, states: int, fruitless: int) -> None:
        self._rules, self._states, self._most_fruitless = rules, states, fruitless
        self._counted, self._steps, self._fruitless = 0, Steps(), 0
        self.total = 0 if rules.start is None else self._completions(dict(rules.facts), rules.start)

    def draw(self, rng: np.random.Generator) -> dict[str, Value]:
        """A legal configuration, each with the same probability."""
        values, node = dict(self._rules.facts), self._rules.start
        while node is not None and not node.last:
            ways = [*self._ways(values, node)]
            chances = np.array([float(count) for _, _, count in ways])
            values[node.name], node, _ = ways[int(rng.choice(len(ways), p=chances / chances.sum()))]
        return {name: values[name] for name in self._rules.names}

    def listed(self) -> Iterator[dict[str, Value]]:
        """Every legal configuration, in the order of the values; partial ones without a completion are never visited."""
        if self._rules.start is not None and self.total:
            yield from self._listed(dict(self._rules.facts), self._rules.start)

    def _listed(self, values: dict[str, Value], node: Node) -> Iterator[dict[str, Value]]:
        if node.last:
            yield {name: values[name] for name in self._rules.names}
            return
        for _, after, _ in self._ways(values, node):
            yield from self._listed(values, after)

    def _completions(self, values: dict[str, Value], node: Node) -> int:
        if node.last:
            self._fruitless = 0
            return 1
        key = node.read(values)
        count = node.known.get(key)
        if count is None:
            if self._counted >= self._states or self._steps.taken > _TRIES * self._states:
                raise TooManyStatesError
            self._counted += 1
            self._fruitless += 1
            if self._fruitless > self._most_fruitless and self._rules.infeasible(values, node):
                count = 0
            else:
                count = sum(count for _, _, count in self._ways(values, node))
            node.known[key] = count
        return count

    def _ways(self, values: dict[str, Value], node: Node) -> Iterator[tuple[Value, Node, int]]:
        """The values of the next parameter, with the node after each and its completions, if there are any."""
        for value in node.candidates:
            self._steps.step()
            values[node.name] = value
            after = node.settle(values)
            if after is not None and (count := self._completions(values, after)):
                yield value, after, count
        del values[node.name]
