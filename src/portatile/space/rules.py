"""The constraints of a space, decided one by one as its parameters are bound in order."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from portatile.records import Value
from portatile.space.bounds import Interval, possible
from portatile.space.constraint import Constraint
from portatile.space.partial_evaluation import BUILTINS, OPEN, PartialEvaluator
from portatile.space.subexpressions import Reader, parts, reader

_TRACES_CHECKED = 16  # random combinations on which a callable and the expression traced from it must agree
_FIRST_CHECKS, _WORTH = 60, 0.2  # after so many checks of partial configurations, this share of them must have been successful
_WORTH_COMPILING = 50  # uses of a node after which its constraints are compiled for the names that are bound there


class Node:
    """A node of the decision diagram: the first ``depth`` parameters are bound, and the constraints in the bit set ``pending`` are open.

    Partial configurations with the same open constraints share a node. ``settle`` returns the node to which binding the next parameter,
    ``name``, leads. ``read`` returns what the open constraints depend on among the bound values, and ``known`` the number of legal
    completions for each such result.
    """

    def __init__(self, rules: Rules, depth: int, pending: int) -> None:
        self.depth, self.pending, self._rules = depth, pending, rules
        self.last = depth == len(rules.names)
        self.name = "" if self.last else rules.names[depth]
        self.candidates = () if self.last else rules.parameters[self.name]
        self.known: dict[Any, int] = {}
        self._after: dict[int, Node] = {}
        self._turns = () if self.last else rules.turns(depth, pending)
        self._evaluators: list[PartialEvaluator] = [rule.settle for _, rule in self._turns]
        self._uses = 0
        self._begun: dict[tuple[Value, type], Node | None] = {}

    @cached_property
    def read(self) -> Reader:
        """A function of the bound values."""
        return self._rules.reader(self.depth, self.pending)

    def settle(self, values: dict[str, Value]) -> Node | None:
        """The node after this one, once ``name`` is bound; None if a constraint is violated.

        The results for the first parameter are remembered: it settles much in a space of several forms.
        """
        if self.depth:
            return self._settle(values)
        value = values[self.name]
        begun = value, type(value)
        if begun not in self._begun:
            self._begun[begun] = self._settle(values)
        return self._begun[begun]

    def _settle(self, values: dict[str, Value]) -> Node | None:
        self._uses += 1
        if self._uses == _WORTH_COMPILING:
            bound = {*self._rules.facts, *self._rules.names[: self.depth + 1]}
            self._evaluators = [rule.partial_evaluator(bound) for _, rule in self._turns]
        settled, bit = 0, 1
        try:
            for evaluate in self._evaluators:
                truth = evaluate(values)
                if truth is not OPEN:
                    if not truth:
                        return None
                    settled |= bit
                bit <<= 1
        except Exception:  # check decides what the exception means
            truths = [rule.settle(values) for _, rule in self._turns]
            if not all(truths):
                return None
            settled = sum(1 << turn for turn, truth in enumerate(truths) if truth is not OPEN)
        after = self._after.get(settled)
        if after is None:
            left = self.pending ^ sum(bit for turn, (bit, _) in enumerate(self._turns) if settled >> turn & 1)
            after = self._after[settled] = self._rules.node(self.depth + 1, left)
        return after


class Rules:
    """Parameters in the order of binding, facts, and the constraints over both, each with a bit."""

    def __init__(self, parameters: Mapping[str, tuple[Value, ...]], facts: Mapping[str, Value], constraints: Sequence[Constraint]) -> None:
        self.parameters, self.facts, self.constraints = parameters, facts, constraints
        self.names = tuple(parameters)
        self._checks = self._rejections = 0
        self._parts: dict[tuple[int, int], tuple[str, ...]] = {}
        self._nodes: dict[tuple[int, int], Node] = {}

    @cached_property
    def start(self) -> Node | None:
        """The node with no parameter bound and the constraints that the facts leave open; None if the facts violate one."""
        values, pending = dict(self.facts), 0
        for number, rule in enumerate(self.constraints):
            settled = rule.settle(values)
            if settled is OPEN:
                pending |= 1 << number
            elif not settled:
                return None
        return self.node(0, pending)

    def node(self, depth: int, pending: int) -> Node:
        """The node where ``depth`` parameters are bound and the constraints in the bit set ``pending`` are open."""
        if (depth, pending) not in self._nodes:
            self._nodes[depth, pending] = Node(self, depth, pending)
        return self._nodes[depth, pending]

    def turns(self, depth: int, pending: int) -> tuple[tuple[int, Constraint], ...]:
        """The ``pending`` constraints that may be decided when the parameter at ``depth`` is bound, with their bits."""
        return tuple((bit, rule) for bit, rule in self._bits[self.names[depth]] if pending & bit)

    def reader(self, depth: int, pending: int) -> Reader:
        """A function that reads the values of the parameters before ``depth`` on which the ``pending`` constraints depend."""
        bound = set(self.names[:depth])
        open_now = [number for number in range(len(self.constraints)) if pending >> number & 1]
        expressions: dict[str, None] = {}
        for number in open_now:
            if (depth, number) not in self._parts:
                reads = self.constraints[number].reads
                known = frozenset(bound.intersection(reads)), frozenset(self._whole.intersection(reads))
                self._parts[depth, number] = parts(self._trees[number], reads, *known)
            expressions |= dict.fromkeys(self._parts[depth, number])
        names = dict.fromkeys(name for number in open_now for name in self.constraints[number].reads if name in bound)
        return reader(tuple(expressions), tuple(names))

    def infeasible(self, values: Mapping[str, Value], node: Node) -> bool:
        """Whether a constraint that is open there fails whatever numbers the parameters that follow take between their extremes.

        This costs more than settling constraints does, so it is given up in a space where it seldom finds anything.
        """
        if self._checks >= _FIRST_CHECKS and self._rejections < _WORTH * self._checks:
            return False
        known: dict[str, Interval] = dict(self._ranges)
        for name in self.names[: node.depth]:
            value = values[name]
            if isinstance(value, int | float):
                known[name] = float(value), float(value)
            else:
                known.pop(name, None)
        trees = (tree for number, tree in self._trees.items() if tree is not None and node.pending >> number & 1)
        violated = any(not possible(tree, known) for tree in trees)
        self._checks, self._rejections = self._checks + 1, self._rejections + violated
        return violated

    @cached_property
    def _bits(self) -> dict[str, tuple[tuple[int, Constraint], ...]]:
        """The constraints that may be decided when a parameter is bound, in the order of the parameters, each with its bit."""
        order = {name: node for node, name in enumerate(self.names)}
        rules = [(1 << node, rule, rule.turns(order)) for node, rule in enumerate(self.constraints)]
        return {name: tuple((bit, rule) for bit, rule, turns in rules if name in turns) for name in self.names}

    @cached_property
    def _trees(self) -> dict[int, ast.expr | None]:
        return {node: rule.tree if self._agrees(rule) else None for node, rule in enumerate(self.constraints)}

    def _agrees(self, rule: Constraint) -> bool:
        """Whether the expression traced from a callable agrees with it on random combinations; a callable that tests types may behave
        otherwise.
        """
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
