"""The subexpressions of a constraint that are determined when some of its names are bound: the rest depends only on their values.

Of ``a + b + c == 9`` with a and b bound only a + b counts: partial configurations that agree in it have the same completions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

from portatile.records import Value
from portatile.space.partial_evaluation import partial_evaluator

_WHOLE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.Load)
_KEPT, _BINDS = "_portatile_names", "_portatile_binds"  # attributes that cache what is known of a node on the node
_SCOPED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)

Reader = Callable[[dict[str, Value]], Any]


@lru_cache(maxsize=32768)  # every problem has a space of its own, of the same expressions
def parts(tree: ast.expr | None, reads: tuple[str, ...], bound: frozenset[str], integers: frozenset[str]) -> tuple[str, ...]:
    """The expressions over ``bound`` names on which ``tree`` depends; ``integers`` are the names with integer values.

    Without a tree, or with one that binds names of its own, they are the bound names themselves.
    """
    names = tuple(name for name in reads if name in bound)
    if not names or tree is None or _scoped(tree):
        return names
    return tuple(dict.fromkeys(ast.unparse(part) for part in _settled(tree, bound, integers)))


def reader(expressions: Collection[str], names: Collection[str]) -> Reader:
    """A function that evaluates ``expressions`` of bound values to something hashable; it returns ``names`` if one cannot be computed."""
    plain = itemgetter(*names) if names else _nothing
    if all(expression.isidentifier() for expression in expressions):
        return plain
    calculate = partial_evaluator(f"({', '.join(expressions)},)", frozenset(names), frozenset())
    if calculate is None:
        return plain

    def read(values: dict[str, Value]) -> Any:
        try:
            value = calculate(values)
            hash(value)
        except Exception:  # a division by zero that the whole constraint would not reach, or a list
            return "names", plain(values)
        return value

    return read


def names_in(node: ast.AST) -> set[str]:
    """The names in an expression, including those of functions."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def terms(node: ast.expr, kind: type[ast.operator], inverse: type[ast.operator] | None) -> list[tuple[bool, ast.expr]]:
    """The operands of a chain of one operator, and for each whether it is inverted (subtracted)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (kind, inverse) if inverse else kind):
        right = terms(node.right, kind, inverse)
        negated = inverse is not None and isinstance(node.op, inverse)
        return terms(node.left, kind, inverse) + [(sign != negated, term) for sign, term in right]
    return [(False, node)]


def _settled(node: ast.expr, bound: frozenset[str], integers: Collection[str]) -> list[ast.expr]:
    names = _free(node)
    if not names & bound:
        return []
    if names <= bound and not isinstance(node, ast.List):
        return [node]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult) and _is_integral(node, integers):
        product = isinstance(node.op, ast.Mult)
        chain = terms(node, ast.Mult, None) if product else terms(node, ast.Add, ast.Sub)
        known = [(sign, term) for sign, term in chain if (free := _free(term)) and free <= bound]
        rest = [term for _, term in chain if not _free(term) <= bound]
        joined = [_joined(known, product)] if known else []
        return joined + [part for term in rest for part in _settled(term, bound, integers)]
    children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return [part for child in children for part in _settled(child, bound, integers)]


def _joined(chain: list[tuple[bool, ast.expr]], product: bool) -> ast.expr:
    joined: ast.expr | None = None
    for sign, term in chain:
        signed: ast.expr = ast.UnaryOp(ast.USub(), term) if sign else term
        joined = signed if joined is None else ast.BinOp(joined, ast.Mult() if product else ast.Add(), signed)
    assert joined is not None
    return joined


def _free(node: ast.expr) -> frozenset[str]:
    """The names that an expression reads, without functions."""
    names, called = _named(node)
    return names - called


def _scoped(tree: ast.expr) -> bool:
    """Whether an expression binds names itself."""
    scoped: bool | None = getattr(tree, _BINDS, None)
    if scoped is None:
        scoped = any(isinstance(node, _SCOPED) for node in ast.walk(tree))
        setattr(tree, _BINDS, scoped)
    return scoped


def _named(node: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """The names in an expression, and those of the functions that it calls; cached on its nodes, which many spaces share."""
    names_and_calls: tuple[frozenset[str], frozenset[str]] | None = getattr(node, _KEPT, None)
    if names_and_calls is None:
        parts_of = [_named(child) for child in ast.iter_child_nodes(node)]
        own = frozenset([node.id]) if isinstance(node, ast.Name) else frozenset[str]()
        calls = frozenset([node.func.id]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else frozenset[str]()
        names_and_calls = own.union(*(names for names, _ in parts_of)), calls.union(*(called for _, called in parts_of))
        setattr(node, _KEPT, names_and_calls)
    return names_and_calls


def _is_integral(node: ast.expr, integers: Collection[str]) -> bool:
    """Whether an expression computes with integers only, so that the order of operations does not matter."""
    for part in ast.walk(node):
        if not isinstance(part, _WHOLE) or (isinstance(part, ast.Name) and part.id not in integers):
            return False
        if isinstance(part, ast.Constant) and not isinstance(part.value, int):
            return False
    return True


def _nothing(values: Mapping[str, Value]) -> tuple[()]:
    return ()
