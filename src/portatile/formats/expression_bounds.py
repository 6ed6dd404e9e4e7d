"""Upper bounds of the numbers and lists that an expression in a foreign file can produce, computed without evaluating it."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

MOST_CHARACTERS = 4000
_MOST_BITS = 4096.0  # of a number
_MOST_LENGTH = 20.0  # of a list, as a power of two
_MOST_EXPONENT = 12.0  # of a power or a shift, as a power of two


class TooMuchError(ValueError):
    """The expression may compute more than any file needs."""


@dataclass(frozen=True)
class _Size:
    """Bounds as powers of two: of the absolute value of a number, or of each number in a list, and of the list's length."""

    bits: float = 0.0
    length: float | None = None


def check(tree: ast.AST, known: Mapping[str, Collection[object]]) -> None:
    """Raise TooMuchError if a number or a list may exceed the limits above; ``known`` are the possible values of each name."""
    try:
        _Sizes({name: _among(values) for name, values in known.items()}).of(tree)
    except RecursionError:
        raise TooMuchError("it is nested too deeply") from None


def _among(values: Collection[object]) -> _Size:
    """The bounds of a name that stands for one of ``values``, or for the list of all."""
    return _Size(max((_constant(value).bits for value in values), default=0.0), math.log2(max(len(values), 1)))


def _constant(value: object) -> _Size:
    if isinstance(value, str | bytes):
        return _Size(8.0, math.log2(max(len(value), 1)))
    return _Size(math.log2(abs(value) + 1) if isinstance(value, int | float) and math.isfinite(value) else 1024.0)


@dataclass
class _Sizes:
    """Bounds the values of expressions; ``known`` has the bounds of names."""

    known: dict[str, _Size] = field(default_factory=dict)

    def of(self, node: ast.AST) -> _Size:
        """The bounds of an expression's value; raises TooMuchError if they exceed the limits."""
        size = self._of(node)
        if size.bits > _MOST_BITS:
            raise TooMuchError(f"{_text(node)} may have more than {_MOST_BITS:g} bits")
        if size.length is not None and size.length > _MOST_LENGTH:
            raise TooMuchError(f"{_text(node)} may have more than 2^{_MOST_LENGTH:g} elements")
        return size

    def _of(self, node: ast.AST) -> _Size:
        match node:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name):
                return self.known.get(name, _Size())
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, self.of(left), self.of(right))
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return _Size(max((self.of(element).bits for element in elements), default=0.0), math.log2(max(len(elements), 1)))
            case ast.ListComp(elt=element, generators=loops) | ast.GeneratorExp(elt=element, generators=loops):
                return self._comprehension(element, loops)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, [self.of(arg) for arg in args])
        sizes = [self.of(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        lengths = [size.length for size in sizes if size.length is not None]
        return _Size(max((size.bits for size in sizes), default=0.0), max(lengths, default=None))

    def _operation(self, op: ast.operator, left: _Size, right: _Size) -> _Size:
        lengths = [size.length for size in (left, right) if size.length is not None]
        joined = max(lengths) + 1 if lengths else None
        if isinstance(op, ast.Pow | ast.LShift):
            if right.bits > _MOST_EXPONENT:
                raise TooMuchError(f"an exponent may be larger than 2^{_MOST_EXPONENT:g}")
            by = 2**right.bits
            return _Size(max(left.bits, 1.0) * by if isinstance(op, ast.Pow) else left.bits + by)
        if isinstance(op, ast.Mult):
            repeated = max((a.length + b.bits for a, b in ((left, right), (right, left)) if a.length is not None), default=None)
            return _Size(left.bits + right.bits, repeated)
        if isinstance(op, ast.Mod) and left.length is not None and left.bits == 8.0:
            raise TooMuchError("text is not formatted here")
        return _Size(max(left.bits, right.bits) + 1, joined)

    def _comprehension(self, element: ast.expr, loops: list[ast.comprehension]) -> _Size:
        inner, length = _Sizes(dict(self.known)), 0.0
        for loop in loops:
            over = inner.of(loop.iter)
            length += over.length or 0.0
            if length > _MOST_LENGTH:
                raise TooMuchError(f"a loop may take more than 2^{_MOST_LENGTH:g} steps")
            inner.known |= {node.id: _Size(over.bits) for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            for condition in loop.ifs:
                inner.of(condition)
        return _Size(inner.of(element).bits, length)

    def _call(self, name: str, args: list[_Size]) -> _Size:
        bits = max((arg.bits for arg in args), default=0.0)
        lengths = [arg.length for arg in args if arg.length is not None]
        if name == "range":
            return _Size(bits, bits + 1)
        if name == "sum":
            return _Size(bits + max(lengths, default=0.0))
        return _Size(bits, max(lengths, default=None))


def _text(node: ast.AST) -> str:
    text = ast.unparse(node) if isinstance(node, ast.expr) else "it"
    return text if len(text) <= 40 else text[:37] + "..."
