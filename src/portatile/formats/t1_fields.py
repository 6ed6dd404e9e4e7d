"""Reading the fields of a T1 file: required fields of given types, and expressions that can only do arithmetic."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from portatile.errors import ArgumentError
from portatile.formats import expression_bounds

_FUNCTIONS: Mapping[str, Any] = {"abs": abs, "ceil": math.ceil, "float": float, "floor": math.floor, "int": int, "len": len, "list": list}
_FUNCTIONS = {**_FUNCTIONS, "max": max, "min": min, "range": range, "round": round, "sum": sum}
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_LISTS = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.comprehension, ast.Subscript)
_NODES = (*_OPERATIONS, *_LISTS, ast.Expression, ast.Constant, ast.Name, ast.Call, ast.expr_context)
_LONGEST = 400  # characters of a message


class Fields:
    """The fields of the file at ``path``; ``at`` in its methods is a place in the file, for messages. All raise ArgumentError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, record: Mapping[str, Any], at: str, name: str, kind: Any) -> Any:
        """A required field of a given type."""
        place = f"{at}.{name}" if at else name
        if name not in record:
            self.fail(f"{place} is missing")
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            self.fail(f"{place} is {record[name]!r}; that is not what belongs there")
        return record[name]

    def file(self, record: Mapping[str, Any], at: str, name: str) -> str:
        """The name of a file, which has no control characters."""
        name_of_file: str = self.get(record, at, name, str)
        if not name_of_file or not name_of_file.isprintable():
            self.fail(f"{at}.{name} is {name_of_file!r}, which is not a file name")
        return name_of_file

    def list(self, record: Mapping[str, Any], at: str, name: str) -> list[tuple[Mapping[str, Any], str]]:
        """The records of a list with their places; none if the list is missing."""
        place = f"{at}.{name}" if at else name
        values = record.get(name)
        values = [] if values is None else values
        if not isinstance(values, list) or not all(isinstance(entry, Mapping) for entry in values):
            self.fail(f"{place} must be a list of objects")
        return [(entry, f"{place}[{number}]") for number, entry in enumerate(values)]

    def spelling(self, record: Mapping[str, Any], at: str, known: Sequence[str]) -> None:
        """Fail for a name in the record that is not a field, but is similar to one of those ``known`` that it lacks."""
        for name in record:
            close = get_close_matches(name, [other for other in known if other not in record], n=1, cutoff=0.85)
            if close and name not in known:
                self.fail(f"{f'{at}.' if at else ''}{name} is not a field; did you mean {close[0]}?")

    def expression(self, text: str, at: str, known: Mapping[str, object]) -> str:
        """A Python expression that can only do arithmetic, with ``&&`` and ``||`` replaced by words; fails for anything else."""
        if len(text) > expression_bounds.MOST_CHARACTERS:
            self.fail(f"{at} is an expression of {len(text)} characters; up to {expression_bounds.MOST_CHARACTERS} are read")
        spelled = " ".join(text.replace("&&", " and ").replace("||", " or ").split())
        try:
            tree = ast.parse(spelled, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # a NUL, or parentheses nested too deeply
            self.fail(f"{at}: {_short(text)} is not an expression: {getattr(error, 'msg', error) or 'it is nested too deeply'}")
        names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in ast.walk(tree):
            if not isinstance(node, _NODES) or (isinstance(node, ast.Call) and not _is_plain(node)):
                self.fail(f"{at}: {text!r} does more than calculate; there are the functions {', '.join(_FUNCTIONS)}")
        for name in names:
            if name not in known and name not in bound and name not in _FUNCTIONS:
                self.fail(f"{at}: {text!r} reads {name!r}, which is none of {', '.join(known) or 'the parameters'}")
        try:
            expression_bounds.check(tree, {name: values if isinstance(values, tuple) else () for name, values in known.items()})
        except expression_bounds.TooMuchError as error:
            self.fail(f"{at}: {_short(text)} calculates too much: {error}")
        return spelled

    def evaluate(self, text: str, at: str, names: Mapping[str, Any]) -> Any:
        """The value of an expression with these names."""
        code = compile(self.expression(text, at, names), "<T1>", "eval")
        try:
            return eval(code, {"__builtins__": {}, **_FUNCTIONS, **names})
        except Exception as error:
            self.fail(f"{at}: {_short(text)} cannot be computed: {type(error).__name__}: {error}")

    def fail(self, message: str) -> NoReturn:
        """Raise ArgumentError with the file's name."""
        raise ArgumentError(f"{self.path}: {message if len(message) <= _LONGEST else message[:_LONGEST] + ' ...'}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _is_plain(call: ast.Call) -> bool:
    """Whether a call is one of the allowed functions, with plain arguments."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS and not call.keywords and not starred
