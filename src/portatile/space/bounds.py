"""Interval arithmetic: bounds of an expression from the bounds of its names."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from itertools import pairwise, product

Interval = tuple[float, float]
_ANY = (-math.inf, math.inf)
_OPEN, _NO, _YES = (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)
_MOST = 2.0**53  # floating-point numbers beyond this skip integers


def possible(node: ast.expr, names: Mapping[str, Interval]) -> bool:
    """Whether the expression can be true; ``names`` are intervals, and any other name can have any value."""
    return _truth(_of(node, names)) != _NO


def _of(node: ast.expr, names: Mapping[str, Interval]) -> Interval:
    low, high = _interval(node, names)
    if math.isnan(low) or math.isnan(high) or abs(low) > _MOST or abs(high) > _MOST:
        return _ANY
    return low, high


def _interval(node: ast.expr, names: Mapping[str, Interval]) -> Interval:
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float) and abs(value) < _MOST:
            return float(value), float(value)
        case ast.Name(id=name):
            return names.get(name, _ANY)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            low, high = _of(operand, names)
            return -high, -low
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            low, high = _truth(_of(operand, names))
            return 1 - high, 1 - low
        case ast.BinOp(left=left, op=op, right=right):
            return _calculated(op, _of(left, names), _of(right, names))
        case ast.Compare():
            sides = [_of(side, names) for side in (node.left, *node.comparators)]
            intervals = [_compared(op, first, second) for op, (first, second) in zip(node.ops, pairwise(sides), strict=True)]
            return min(low for low, _ in intervals), min(high for _, high in intervals)
        case ast.BoolOp(op=op, values=values):
            intervals = [_truth(_of(value, names)) for value in values]
            take = min if isinstance(op, ast.And) else max
            low, high = take(low for low, _ in intervals), take(high for _, high in intervals)
            return (low, high) if (low, high) in (_NO, _YES) else _ANY  # `and` and `or` return an operand, not a truth value
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_], keywords=[]):
            take = min if name == "min" else max
            intervals = [_of(arg, names) for arg in node.args]
            return take(low for low, _ in intervals), take(high for _, high in intervals)
    return _ANY


def _calculated(op: ast.operator, left: Interval, right: Interval) -> Interval:
    """The bounds from the corners: each operation is monotone in each operand where it is defined."""
    if _ANY in (left, right):
        return _ANY
    match op:
        case ast.Add():
            return left[0] + right[0], left[1] + right[1]
        case ast.Sub():
            return left[0] - right[1], left[1] - right[0]
        case ast.Mult():
            corners = [a * b for a, b in product(left, right)]
            return min(corners), max(corners)
        case ast.FloorDiv() | ast.Div() if right[0] > 0 or right[1] < 0:
            corners = [a // b if isinstance(op, ast.FloorDiv) else a / b for a, b in product(left, right)]
            return min(corners), max(corners)
        case ast.Pow() if left[0] >= 1 and right[0] >= 0 and right[1] * math.log2(left[1]) < math.log2(_MOST):
            return left[0] ** right[0], left[1] ** right[1]
        case ast.Mod() if right[0] > 0:
            return 0.0, right[1]
    return _ANY


def _compared(op: ast.cmpop, left: Interval, right: Interval) -> Interval:
    (low, high), (least, most) = left, right
    match op:
        case ast.Lt():
            return _YES if high < least else _NO if low >= most else _OPEN
        case ast.LtE():
            return _YES if high <= least else _NO if low > most else _OPEN
        case ast.Gt() | ast.GtE():
            return _compared(ast.Lt() if isinstance(op, ast.Gt) else ast.LtE(), right, left)
        case ast.Eq():
            return _NO if high < least or low > most else _OPEN
        case ast.NotEq():
            return _YES if high < least or low > most else _OPEN
    return _OPEN


def _truth(interval: Interval) -> Interval:
    low, high = interval
    if low == high == 0:
        return _NO
    return _YES if low > 0 or high < 0 else _OPEN
