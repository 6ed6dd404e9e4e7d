"""Partial evaluation: expressions with unbound names, compiled to functions that return true, false or open.

``FORM != 'cpu' or TBR == 1`` is true as soon as FORM is 'gpu', and open while it is 'cpu'. A function is made for the names that are bound:
counting legal configurations calls it a million times.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from portatile.records import Value

PartialEvaluator = Callable[[Mapping[str, Value]], Any]
"""Returns an expression's value for the bound names, or OPEN."""

OPEN = object()
"""The result if the expression depends on unbound names."""

BUILTINS: dict[str, Any] = {"min": min, "max": max, "abs": abs, "int": int, "float": float, "round": round, "len": len, "sum": sum}
BUILTINS |= {"True": True, "False": False, "all": all, "any": any, "ceil": math.ceil, "floor": math.floor, "list": list, "range": range}

_OPEN, _VALUES = "_portatile_open", "_portatile_values"  # names of the constant above and of the argument
_SCOPED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
_PARTIAL = (ast.keyword, ast.Starred, ast.JoinedStr)  # nodes whose operands are not evaluated as expressions on their own


@lru_cache(maxsize=16384)  # every problem has a space of its own, of the same expressions
def partial_evaluator(expression: str, names: frozenset[str], unbound: frozenset[str]) -> PartialEvaluator | None:
    """A function of a mapping that binds ``names`` except ``unbound``. None for an expression that binds names itself, or has keyword
    arguments.

    Operands are evaluated from left to right, as in Python: the result is open where Python would raise NameError.
    """
    tree = ast.parse(expression.strip(), mode="eval").body
    if any(isinstance(node, (*_SCOPED, *_PARTIAL)) for node in ast.walk(tree)):
        return None
    body = _Open(names, unbound).visit(tree)
    argument = ast.arguments(posonlyargs=[], args=[ast.arg(_VALUES)], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.fix_missing_locations(ast.Expression(ast.Lambda(argument, body)))
    result: PartialEvaluator = eval(compile(function, "<constraint>", "eval"), {_OPEN: OPEN, "__builtins__": BUILTINS})
    return result


class _Open(ast.NodeTransformer):
    """A transformer of expressions: names become look-ups, and an expression is open if an operand that decides it is open."""

    def __init__(self, names: frozenset[str], unbound: frozenset[str]) -> None:
        self._names, self._unbound = names, unbound
        self._temporaries = 0

    def visit(self, node: ast.AST) -> Any:
        """The expression that replaces ``node``."""
        if isinstance(node, ast.Name):
            return self._name(node)
        if not isinstance(node, ast.expr):
            return node
        if isinstance(node, ast.BoolOp):
            return self._chain(node.op, [self.visit(value) for value in node.values])
        if isinstance(node, ast.IfExp):
            body, orelse = self.visit(node.body), self.visit(node.orelse)
            chosen = self._unless_open([self.visit(node.test)], lambda known: ast.IfExp(known[0], body, orelse))
            return _marked(chosen) if _may_be_open(body) or _may_be_open(orelse) else chosen
        if isinstance(node, ast.Compare) and len(node.ops) > 1:  # a chain ends with the first that is false
            sides = list(pairwise([node.left, *node.comparators]))
            pairs = [ast.Compare(left, [op], [right]) for op, (left, right) in zip(node.ops, sides, strict=True)]
            return self._chain(ast.And(), [self.visit(pair) for pair in pairs])
        return self._whole(node)

    def _name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names:
            return node  # the name of a function
        return _open() if node.id in self._unbound else ast.Subscript(ast.Name(_VALUES, ast.Load()), ast.Constant(node.id), ast.Load())

    def _whole(self, node: ast.expr) -> ast.expr:
        """Replace a node that needs all of its operands."""
        places: list[tuple[str, int | None]] = []
        operands: list[ast.expr] = []
        for field, value in ast.iter_fields(node):
            for index, one in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(one, ast.expr):
                    places.append((field, index))
                    operands.append(self.visit(one))

        def filled(known: list[ast.expr]) -> ast.expr:
            fields = {field: list(value) if isinstance(value, list) else value for field, value in ast.iter_fields(node)}
            for (field, index), one in zip(places, known, strict=True):
                if index is None:
                    fields[field] = one
                else:
                    fields[field][index] = one
            made: ast.expr = type(node)(**fields)  # type: ignore[arg-type]
            return made

        return self._unless_open(operands, filled)

    def _unless_open(self, operands: list[ast.expr], whole: Callable[[list[ast.expr]], ast.expr]) -> ast.expr:
        """``whole`` of the operands if none of them is open, otherwise open."""
        if any(map(_is_open, operands)):
            return _open()
        tests: list[ast.expr] = []
        known: list[ast.expr] = []
        for operand in operands:
            if _may_be_open(operand):
                test, operand = self._kept(operand)
                tests.append(test)
            known.append(operand)
        result = whole(known)
        if not tests:
            return result
        return _marked(ast.IfExp(tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests), _open(), result))

    def _chain(self, op: ast.boolop, values: list[ast.expr]) -> ast.expr:
        """``and`` and ``or``: nothing after the first open operand is evaluated."""
        first = next((place for place, value in enumerate(values) if _may_be_open(value)), None)
        if first is None:
            return ast.BoolOp(op, values)
        rest = values[first]
        if not _is_open(rest) and first + 1 < len(values):
            test, kept = self._kept(rest)
            after = self._chain(op, values[first + 1 :]) if first + 2 < len(values) else values[first + 1]
            rest = _marked(ast.IfExp(test, _open(), ast.BoolOp(op, [kept, after])))
        return _marked(ast.BoolOp(op, [*values[:first], rest])) if first else rest

    def _kept(self, operand: ast.expr) -> tuple[ast.expr, ast.expr]:
        """A test whether ``operand`` is open, which stores its value, and an expression that reads the value."""
        self._temporaries += 1
        name = f"_portatile_{self._temporaries}"
        test = ast.Compare(ast.NamedExpr(ast.Name(name, ast.Store()), operand), [ast.Is()], [_open()])
        return test, ast.Name(name, ast.Load())


def _open() -> ast.expr:
    return _marked(ast.Name(_OPEN, ast.Load()))


def _marked(node: ast.expr) -> ast.expr:
    """The node, marked as one whose value may be open."""
    node.may_be_open = True  # type: ignore[attr-defined]
    return node


def _is_open(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == _OPEN


def _may_be_open(node: ast.expr) -> bool:
    return hasattr(node, "may_be_open")
