"""A constraint of a parameter space: the names that it reads, whether it holds, and how early that is decided."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from types import CodeType
from typing import Any

from portatile.errors import SpaceError, UsageError
from portatile.records import Value
from portatile.space.partial_evaluation import BUILTINS, OPEN, PartialEvaluator, partial_evaluator
from portatile.space.subexpressions import names_in
from portatile.space.symbol import traced

Predicate = Callable[..., Any]
_GLOBALS: dict[str, Any] = {"__builtins__": BUILTINS}


@dataclass(frozen=True)
class Constraint:
    """A predicate, and the names of parameters and facts that it reads; ``code`` if it is an expression; ``words`` state it in prose."""

    reads: tuple[str, ...]
    holds: Predicate
    text: str
    code: CodeType | None = None
    words: str = ""

    @classmethod
    def of(cls, rule: Predicate | str | Constraint, known: Collection[str] = ()) -> Constraint:
        """A constraint from a callable, whose arguments name what it reads, or from a Python expression; a constraint is returned
        unchanged.

        A name in ``known`` means that value even if a builtin function has the same name. Raises SpaceError for text that is not an
        expression.
        """
        if isinstance(rule, Constraint):
            return rule
        if isinstance(rule, str):
            try:
                code = _compiled(rule)
            except SyntaxError as error:
                raise SpaceError(f"constraint {rule!r} is not an expression: {error.msg}") from None
            names = tuple(n for n in code.co_names if n in known or n not in BUILTINS)
            return cls(names, lambda **values: eval(code, _GLOBALS, values), rule, code)
        names = tuple(inspect.signature(rule).parameters)
        text = f"{getattr(rule, '__name__', 'constraint')}({', '.join(names)})"
        return cls(names, rule, text, words=getattr(rule, "words", ""))

    def check(self, values: Mapping[str, Value]) -> bool:
        """Whether the constraint holds for ``values``, which binds at least every name it reads.

        Raises SpaceError where it cannot be evaluated.
        """
        try:
            if self.code is not None:
                return bool(eval(self.code, _GLOBALS, values))
            return bool(self.holds(**{name: values[name] for name in self.reads}))
        except ZeroDivisionError:
            return False
        except UsageError:  # says itself what is wrong
            raise
        except Exception as error:
            raise SpaceError(f"constraint {self.text} cannot be evaluated: {type(error).__name__}: {error}") from error

    def partial_evaluator(self, bound: Collection[str]) -> PartialEvaluator:
        """``settle`` for values of ``bound``, made for many uses. It raises what evaluating raises; ``settle`` says what that means."""
        unbound = frozenset(name for name in self.reads if name not in bound)
        if self.code is not None and (compiled := partial_evaluator(self.text, frozenset(self.reads), unbound)) is not None:
            return compiled
        return self.settle if self.code is not None else (lambda values: OPEN) if unbound else self.check

    def settle(self, values: Mapping[str, Value]) -> Any:
        """Whether the constraint holds for every value of the names that ``values`` does not bind; OPEN where they decide.

        An expression settles early: ``FORM != 'cpu' or TBR == 1`` holds as soon as FORM is 'gpu'.

        Raises SpaceError where it cannot be evaluated.
        """
        if self.code is None:
            return self.check(values) if all(name in values for name in self.reads) else OPEN
        try:
            return bool(eval(self.code, _GLOBALS, values))
        except NameError:
            return OPEN
        except ZeroDivisionError:
            return False
        except Exception as error:
            raise SpaceError(f"constraint {self.text} cannot be evaluated: {type(error).__name__}: {error}") from error

    @cached_property
    def tree(self) -> ast.expr | None:
        """The constraint as an expression; None for a callable that does more than calculate."""
        return _parsed(self.text) if self.code is not None else traced(self.holds, self.reads)

    def turns(self, order: Mapping[str, int]) -> frozenset[str]:
        """The names at which it may settle when they are bound in this order: the last one of each part that is decided as a whole."""
        parts = [set(self.reads)] if self.code is None else _parts(_parsed(self.text))
        return frozenset(max(names, key=order.__getitem__) for part in parts if (names := part & order.keys()))


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:  # every problem has a space of its own, of the same expressions
    return compile(expression, "<constraint>", "eval")


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression.strip(), mode="eval").body


def _parts(node: ast.AST) -> list[set[str]]:
    """The names of each operand of `and`, `or`, `not` and `if` in an expression, and of each comparison in a chain."""
    if isinstance(node, (ast.BoolOp, ast.IfExp)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return [part for child in ast.iter_child_nodes(node) for part in _parts(child)]
    if isinstance(node, ast.Compare):
        return [names_in(left) | names_in(right) for left, right in pairwise([node.left, *node.comparators])]
    return [names_in(node)]
