"""Traces a callable constraint to an expression, by one call with symbols in place of values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any


def traced(rule: Callable[..., Any], names: Iterable[str]) -> ast.expr | None:
    """The expression that ``rule`` returns, or None if it does more than calculate (branches, calls, look-ups)."""
    try:
        symbolic = rule(**{name: Symbol(ast.Name(name, ast.Load())) for name in names})
    except Exception:  # it does something else with a symbol, so it is only called with values
        return None
    return symbolic.node if isinstance(symbolic, Symbol) else None


class Symbol:
    """A value that is not yet known. Arithmetic and comparisons with it return symbols; anything else raises TypeError."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: ast.expr) -> None:
        self.node = node

    def __bool__(self) -> bool:
        raise TypeError("a symbol is neither true nor false")

    def __neg__(self) -> Symbol:
        return Symbol(ast.UnaryOp(ast.USub(), self.node))


def _node(value: object) -> ast.expr:
    if isinstance(value, Symbol):
        return value.node
    if isinstance(value, bool | int | float | str):
        return ast.Constant(value)
    raise TypeError("not a plain value")


def _binary(kind: type[ast.operator]) -> tuple[Callable[[Symbol, object], Symbol], Callable[[Symbol, object], Symbol]]:
    def forward(self: Symbol, other: object) -> Symbol:
        return Symbol(ast.BinOp(self.node, kind(), _node(other)))

    def backward(self: Symbol, other: object) -> Symbol:
        return Symbol(ast.BinOp(_node(other), kind(), self.node))

    return forward, backward


def _comparison(kind: type[ast.cmpop]) -> Callable[[Symbol, object], Symbol]:
    def compared(self: Symbol, other: object) -> Symbol:
        return Symbol(ast.Compare(self.node, [kind()], [_node(other)]))

    return compared


_OPERATORS: dict[str, type[ast.operator]] = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv}
_OPERATORS |= {"mod": ast.Mod, "pow": ast.Pow}
_COMPARISONS: dict[str, type[ast.cmpop]] = {"eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE}
for _name, _kind in _OPERATORS.items():
    _forward, _backward = _binary(_kind)
    setattr(Symbol, f"__{_name}__", _forward)
    setattr(Symbol, f"__r{_name}__", _backward)
for _name, _compared in _COMPARISONS.items():
    setattr(Symbol, f"__{_name}__", _comparison(_compared))
