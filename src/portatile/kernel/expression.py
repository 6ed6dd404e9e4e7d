"""A number, or several, that depends on parameters and facts: a constant, text, or a callable whose argument names say what it reads."""

from __future__ import annotations

import ast
import inspect
import keyword
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from portatile.errors import ArgumentError, UnknownNameError
from portatile.records import Value, digest

Number = int | float
Given = Number | str | Callable[..., Any] | Sequence[Any]

FUNCTIONS: Mapping[str, Any] = {
    "abs": abs,
    "ceil": math.ceil,
    "float": float,
    "floor": math.floor,
    "int": int,
    "len": len,
    "list": list,
    "log2": math.log2,
    "max": max,
    "min": min,
    "range": range,
    "round": round,
    "sqrt": math.sqrt,
    "sum": sum,
}


@dataclass(frozen=True)
class Expression:
    """A function ``compute`` of the names that it ``reads``; ``text`` is for messages, ``identity`` for digests."""

    reads: tuple[str, ...]
    compute: Callable[[Mapping[str, Value]], Any]
    text: str
    identity: str
    made_of: tuple[Given, str] = field(default=("", ""), compare=False, repr=False)

    @classmethod
    def of(cls, formula: Given, what: str) -> Expression:
        """Make one from a number, a Python expression, a callable whose argument names say what it reads, or up to three of these.

        ``what`` is its name in errors. Raises ArgumentError for anything else.
        """
        return replace(cls._made(formula, what), made_of=(formula, what))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the formula from which it was made."""
        return Expression.of, self.made_of

    @classmethod
    def _made(cls, formula: Given, what: str) -> Expression:
        if isinstance(formula, str):
            return cls._of_text(formula, what)
        if callable(formula):
            reads = argument_names(formula, what)
            return cls(reads, lambda values: formula(*(values[name] for name in reads)), spelt(formula), identity(formula))
        if isinstance(formula, Sequence) and 1 <= len(formula) <= 3:
            parts = [cls.of(part, what) for part in formula]
            reads = tuple(dict.fromkeys(name for part in parts for name in part.reads))
            spelling = f"({', '.join(part.text for part in parts)})" if len(parts) != 1 else parts[0].text
            return cls(reads, lambda values: tuple(part.compute(values) for part in parts), spelling, digest(*(p.identity for p in parts)))
        if isinstance(formula, bool) or not hasattr(formula, "__float__"):
            raise ArgumentError(f"{what}={formula!r} must be a number, an expression, a callable, or up to three of these")
        return cls((), lambda values: formula, str(formula), str(formula))

    @classmethod
    def _of_text(cls, text: str, what: str) -> Expression:
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except SyntaxError as error:
            raise ArgumentError(f"{what}={text!r} is not an expression: {error.msg}") from None
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        used = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        values = (node.id for node in used if not (node.id in FUNCTIONS and id(node) in called))  # a parameter may be called `len`, too
        reads = tuple(dict.fromkeys(name for name in values if name not in bound))
        code = compile(tree, f"<{what}>", "eval")
        return cls(reads, lambda values: eval(code, {"__builtins__": {}, **FUNCTIONS, **values}), repr(text), text)

    def check(self, known: Collection[str], what: str) -> None:
        """Raise UnknownNameError for a name that is not ``known``."""
        for name in self.reads:
            if name not in known:
                raise UnknownNameError(f"name in {what}={self.text}:", name, known)

    def __call__(self, values: Mapping[str, Value]) -> Any:
        """The value; raises ArgumentError if it cannot be computed."""
        try:
            return self.compute(values)
        except Exception as error:
            inputs = ", ".join(f"{name}={values[name]!r}" for name in self.reads)
            raise ArgumentError(f"{self.text} cannot be computed for {inputs or 'nothing'}: {type(error).__name__}: {error}") from error


def argument_names(function: Callable[..., Any], what: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """The names that a callable's arguments read. An argument ``in_`` reads ``in``, unless ``in_`` itself is ``known``.

    Raises ArgumentError for ``*args`` and the like.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ArgumentError(f"{what}: the argument names of {function!r} cannot be seen; wrap it in a lambda that names them") from None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise ArgumentError(f"{what}: {spelt(function)} must name what it reads, one argument for each, without * and **")
    names = [parameter.name for parameter in parameters]
    return tuple(name.removesuffix("_") if keyword.iskeyword(name.removesuffix("_")) and name not in known else name for name in names)


def spelt(function: Callable[..., Any]) -> str:
    """A callable for messages."""
    name = getattr(function, "__name__", type(function).__name__)
    return "a lambda" if name == "<lambda>" else f"{name}()"


def identity(function: Callable[..., Any]) -> str:
    """A digest that changes with a callable's behaviour: its code and the plain values to which it refers.

    The code of functions that it calls is not included. The digest is the same for the function in another process.
    """
    inner: Any = getattr(function, "func", getattr(function, "__func__", function))  # of a partial, or of a method
    code = getattr(inner, "__code__", None)
    if code is None:
        return digest(f"{type(function).__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}")
    cells = [cell.cell_contents for cell in inner.__closure__ or ()]
    defaults = [*(inner.__defaults__ or ()), *getattr(function, "args", ()), *getattr(function, "keywords", {}).values()]
    outside = [inner.__globals__[name] for name in code.co_names if name in inner.__globals__]
    return digest(_code_identity(code), *(repr(value) for value in (*cells, *defaults, *outside) if _is_plain(value)))


def _code_identity(code: CodeType) -> str:
    return digest(code.co_code, *code.co_names, *code.co_varnames, *code.co_freevars, *map(_constant_identity, code.co_consts))


def _constant_identity(value: object) -> str:
    if isinstance(value, CodeType):
        return _code_identity(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)  # the order of a set differs between processes


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | str) or (isinstance(value, tuple | list) and all(map(_is_plain, value)))
