"""The constraints of a space, decided one after another as its parameters are bound in order."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from portatile.records import Value
from portatile.space.bounds import Interval, possible
from portatile.space.constraint import BUILTINS, Constraint
from portatile.space.residue import Reader, parts, reader

_TRACES_CHECKED = 16  # random combinations on which a callable and the expression that was made of it must agree
_ASKED, _WORTH = 200, 0.2  # questions whether a partial configuration is infeasible, and the share of them that must be answered


class Rules:
    """Parameters in the order in which they are bound, facts, and the constraints over both; a bit for each constraint."""

    def __init__(self, parameters: Mapping[str, tuple[Value, ...]], facts: Mapping[str, Value], constraints: Sequence[Constraint]) -> None:
        self.parameters, self.facts, self.constraints = parameters, facts, constraints
        self.names = tuple(parameters)
        self._asked = self._told = 0
        self._begun: dict[tuple[Value, type, int], int | None] = {}
        self._parts: dict[tuple[int, int], tuple[str, ...]] = {}

    @cached_property
    def open(self) -> int | None:
        """The constraints that the facts do not settle, a bit for each; None where the facts violate one."""
        values, left = dict(self.facts), 0
        for place, rule in enumerate(self.constraints):
            settled = rule.settle(values)
            if settled is None:
                left |= 1 << place
            elif not settled:
                return None
        return left

    def settle(self, values: dict[str, Value], name: str, pending: int) -> int | None:
        """The constraints that are left of ``pending`` now that ``name`` is bound; None where one is violated.

        What the first parameter settles, which is much in a space of several forms, is remembered.
        """
        if name != self.names[0]:
            return self._settle(values, name, pending)
        begun = values[name], type(values[name]), pending
        if begun not in self._begun:
            self._begun[begun] = self._settle(values, name, pending)
        return self._begun[begun]

    def _settle(self, values: dict[str, Value], name: str, pending: int) -> int | None:
        for bit, rule in self._bits[name]:
            if pending & bit and (settled := rule.settle(values)) is not None:
                if not settled:
                    return None
                pending ^= bit
        return pending

    def reader(self, depth: int, pending: int) -> Reader:
        """A function that reads the values of parameters before ``depth`` on which the ``pending`` constraints depend."""
        bound = set(self.names[:depth])
        open_now = [place for place in range(len(self.constraints)) if pending >> place & 1]
        expressions: dict[str, None] = {}
        for place in open_now:
            if (depth, place) not in self._parts:
                rule = self.constraints[place]
                self._parts[depth, place] = parts(self._trees[place], rule.reads, bound, self._whole)
            expressions |= dict.fromkeys(self._parts[depth, place])
        names = dict.fromkeys(name for place in open_now for name in self.constraints[place].reads if name in bound)
        return reader(tuple(expressions), tuple(names), BUILTINS)

    def infeasible(self, values: Mapping[str, Value], depth: int, pending: int) -> bool:
        """Whether a pending constraint fails whatever numbers the parameters from ``depth`` on take between their extremes.

        This costs more than settling constraints does. In a space where it seldom tells anything it is given up.
        """
        if self._asked >= _ASKED and self._told < _WORTH * self._asked:
            return False
        known: dict[str, Interval] = dict(self._ranges)
        for name in self.names[:depth]:
            value = values[name]
            if isinstance(value, int | float):
                known[name] = float(value), float(value)
            else:
                known.pop(name, None)
        violated = any(pending >> place & 1 and not possible(tree, known) for place, tree in self._trees.items() if tree is not None)
        self._asked, self._told = self._asked + 1, self._told + violated
        return violated

    @cached_property
    def _bits(self) -> dict[str, tuple[tuple[int, Constraint], ...]]:
        """The constraints that may settle when a parameter is bound, in the order of the parameters, each with its bit."""
        order = {name: place for place, name in enumerate(self.names)}
        rules = [(1 << place, rule, rule.turns(order)) for place, rule in enumerate(self.constraints)]
        return {name: tuple((bit, rule) for bit, rule, turns in rules if name in turns) for name in self.names}

    @cached_property
    def _trees(self) -> dict[int, ast.expr | None]:
        return {place: rule.tree if self._agrees(rule) else None for place, rule in enumerate(self.constraints)}

    def _agrees(self, rule: Constraint) -> bool:
        """Whether the expression made of a callable gives what it gives: one that asks for types may branch otherwise."""
        if rule.code is not None or rule.tree is None:
            return True
        rng = np.random.default_rng(0)
        code = compile(ast.unparse(rule.tree), "<constraint>", "eval")
        scope = {"__builtins__": dict(BUILTINS)}
        for _ in range(_TRACES_CHECKED):
            drawn = {name: values[int(rng.integers(len(values)))] for name, values in self.parameters.items()}
            values = {**self.facts, **drawn}
            try:
                if bool(eval(code, scope, values)) != rule.check(values):
                    return False
            except Exception:  # a division by zero, or a value that the constraint cannot take
                return False
        return True

    @cached_property
    def _whole(self) -> frozenset[str]:
        """Names whose values are integers."""
        named = {**{name: (value,) for name, value in self.facts.items()}, **self.parameters}
        return frozenset(name for name, values in named.items() if all(isinstance(value, int) for value in values))

    @cached_property
    def _ranges(self) -> dict[str, Interval]:
        named = {**{name: (value,) for name, value in self.facts.items()}, **self.parameters}
        ranges: dict[str, Interval] = {}
        for name, values in named.items():
            numbers = [float(value) for value in values if isinstance(value, int | float)]
            if len(numbers) == len(values):
                ranges[name] = min(numbers), max(numbers)
        return ranges
