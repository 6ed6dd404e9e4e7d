"""Designated initialisers, which C allows in any order: C++ gets the same values by position."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from portatile.dialect.names import SPACES
from portatile.dialect.passes.expressions import Names
from portatile.dialect.tokens import Tokens

_NO_TYPE = SPACES | {"const", "volatile", "static", "struct", "union", "register", "extern"}
_MOST = 1 << 16  # elements, at most, of an array whose length a designator determines


@dataclass(frozen=True)
class Type:
    """The type of an initialiser: its name, the number of its array dimensions, and for a member that is a pointer which member it is."""

    name: str
    dimensions: int = 0
    pointer: str = ""

    @property
    def cast(self) -> tuple[str, str]:
        """The text before and after a value that makes it a pointer, as C does implicitly."""
        return (f"(decltype({self.pointer}))(", ")") if self.pointer and not self.dimensions else ("", "")


@dataclass
class _Value:
    """One place of a list: a text, or a nested list if designators go deeper."""

    text: str = "{}"
    inner: dict[int, _Value] = field(default_factory=dict)


class Initialisers:
    """One walk over the text; ``lengths``: the number of elements of each array whose list was rewritten, by its brace."""

    def __init__(self, tokens: Tokens, names: Names) -> None:
        self._tokens, self._aliases, self._vectors = tokens, names.aliases, names.vectors
        self._members: dict[str, list[tuple[str, Type]]] = {}
        self._unions: set[str] = set()
        self._constants: dict[str, int] = {}
        self.lengths: dict[int, int] = {}
        self._collect()

    def rewrite(self) -> None:
        """Rewrite every list with designators that C++ would refuse."""
        tokens = self._tokens
        for i in range(len(tokens) - 1, 0, -1):  # compound literals inside a list are rewritten before it
            if tokens[i].text != "{":
                continue
            if tokens[i - 1].text == "=":
                kind = self._declared(i - 1)
            elif tokens[i - 1].text == ")":  # a compound literal
                inside = range(tokens.partner[i - 1] + 1, i - 1)
                words = [tokens[j].text for j in tokens.at_depth(inside.start, inside.stop) if tokens[j].text not in _NO_TYPE]
                dimensions = words.count("[")
                kind = Type(words[0], dimensions) if len(words) == 1 + dimensions else None
            else:
                continue
            if kind is None:
                continue
            if self._designated(i):
                self._replace(i, kind)
            elif not kind.dimensions:
                self._pointers(i, kind)

    def _pointers(self, opening: int, kind: Type) -> None:
        """Convert pointers that initialise members as C does."""
        tokens = self._tokens
        for part, (name, inner) in zip(tokens.split(opening + 1, tokens.partner[opening]), self._fields_of(kind), strict=False):
            if not part or (tokens[part.start].text != "{" and (inner.dimensions or inner.name in self._members or not name)):
                return  # inner braces may be omitted, so the next value may not belong to the next member
            before, behind = inner.cast
            tokens[part.start].out = before + tokens[part.start].out
            tokens[part.stop - 1].out += behind

    def _collect(self) -> None:
        """Collect the members of the text's structures and the values of its enumerators."""
        tokens = self._tokens
        for i, token in enumerate(tokens):
            if token.text not in ("struct", "union", "enum"):
                continue
            at = i + 1
            while tokens.text_at(at) == "__attribute__":
                at = tokens.partner[at + 1] + 1
            names = [tokens[at].text] if at < len(tokens) and tokens[at].kind == "name" else []
            at += len(names)
            if tokens.text_at(at) != "{":
                continue
            if token.text == "enum":
                self._enumerators(at)
                continue
            closing = tokens.partner[at]
            after = closing + 1
            while tokens.text_at(after) == "__attribute__":
                after = tokens.partner[after + 1] + 1
            if tokens.text_at(i - 1) == "typedef" and after < len(tokens) and tokens[after].kind == "name":
                names.append(tokens[after].text)
            for name in names:
                self._members[name] = self._fields(name, at, closing)
                if token.text == "union":
                    self._unions.add(name)

    def _fields(self, owner: str, opening: int, closing: int) -> list[tuple[str, Type]]:
        """The name and type of each member; a nested structure without a name is one place without a name."""
        tokens, fields = self._tokens, []
        for statement in tokens.split(opening + 1, closing, ";"):
            if not statement:
                continue
            body = next((i for i in statement if tokens[i].text == "{"), None)
            if body is not None and tokens.text_at(statement.stop - 1) == "}":
                fields.append(("", Type(self._unnamed(body))))
                continue
            for n, part in enumerate(tokens.split(statement.start, statement.stop)):
                flat = list(tokens.at_depth(part.start, part.stop))
                names = [i for i in flat if tokens[i].kind == "name"]
                if not names:
                    continue
                if n == 0:
                    words = [tokens[i].text for i in names[:-1] if tokens[i].text not in _NO_TYPE]
                    base = self._unnamed(body) if body is not None else words[0] if len(words) == 1 else ""
                brackets = sum(tokens[i].text == "[" for i in flat)
                pointer = any(tokens[i].text == "*" for i in flat)
                member = tokens[names[-1]].text
                named = f"{owner}::{tokens[names[-1]].out}" if pointer and owner.isidentifier() else ""
                fields.append((member, Type("" if pointer else base, brackets, named)))
        return fields

    def _unnamed(self, opening: int) -> str:
        """The name used here for the structure or union whose members follow the brace at ``opening``."""
        tokens, name = self._tokens, f"{{{opening}"
        if name not in self._members:
            self._members[name] = self._fields(name, opening, tokens.partner[opening])
            if "union" in (tokens.text_at(opening - 1), tokens.text_at(opening - 2)):
                self._unions.add(name)
        return name

    def _enumerators(self, opening: int) -> None:
        tokens, value = self._tokens, -1
        for part in tokens.split(opening + 1, tokens.partner[opening]):
            if not part:
                continue
            number = self._number(range(part.start + 2, part.stop)) if tokens.text_at(part.start + 1) == "=" else value + 1
            if number is None:
                return
            value = self._constants[tokens[part.start].text] = number

    def _number(self, part: range) -> int | None:
        """The value of a constant expression of integers and enumerators."""
        words = (self._tokens[i].text for i in part)
        text = " ".join(str(self._constants.get(word, word.rstrip("uUlL") if word[0].isdigit() else word)) for word in words)
        try:
            value = ast.literal_eval(text) if text.isdigit() else _evaluate(ast.parse(text.replace("/", "//"), mode="eval").body)
        except (SyntaxError, ValueError):
            return None
        return value if isinstance(value, int) else None

    def _declared(self, equals: int) -> Type | None:
        """The type of the variable whose initialiser follows ``equals``."""
        tokens, at, dimensions = self._tokens, equals - 1, 0
        while tokens.text_at(at) == "]":
            at, dimensions = tokens.partner[at] - 1, dimensions + 1
        at -= 1
        while at >= 0 and (tokens[at].text not in (";", "{", "}", "(") or self._list_of_another(at)):
            at = tokens.partner[at] - 1 if tokens[at].text in (")", "]", "}") else at - 1
        if tokens.text_at(at) == "}" and tokens.text_at(at + 1) not in (";", ""):  # struct { ... } name = { ... }
            opening = tokens.partner[at]
            if tokens.text_at(opening - 1) in ("struct", "union") or tokens.text_at(opening - 2) in ("struct", "union"):
                return Type(self._unnamed(opening), dimensions)
        for word in (token.text for token in tokens[at + 1 : equals]):
            if word not in _NO_TYPE:
                return Type(word, dimensions)
        return None

    def _list_of_another(self, i: int) -> bool:
        """Whether the brace at ``i`` ends the initialiser of an earlier name in the same declaration."""
        return self._tokens[i].text == "}" and self._tokens.text_at(self._tokens.partner[i] - 1) == "="

    def _designated(self, opening: int) -> bool:
        """Whether the list, or a list inside it, has a designator."""
        tokens = self._tokens
        inside = range(opening + 1, tokens.partner[opening])
        return any((tokens[i].text in (".", "[") and tokens.text_at(i - 1) in ("{", ",")) or self._old(i) for i in inside)

    def _old(self, i: int) -> bool:
        """Whether GNU C's older designator ``name:`` begins at ``i``."""
        tokens = self._tokens
        return tokens[i].kind == "name" and tokens.text_at(i + 1) == ":" and tokens.text_at(i - 1) in ("{", ",")

    def _replace(self, opening: int, kind: Type) -> None:
        positional = self._list(opening, kind)
        if positional is None:
            return
        tokens = self._tokens
        tokens.erase(opening, tokens.partner[opening])
        tokens[opening].out = positional

    def _list(self, opening: int, kind: Type) -> str | None:
        """The list at ``opening`` with its values by position; None if it is not understood."""
        tokens, place = self._tokens, 0
        root = _Value()
        for part in tokens.split(opening + 1, tokens.partner[opening]):
            if not part:
                continue
            path: list[tuple[int, int]] = []
            at, inner = part.start, kind
            while tokens.text_at(at) in (".", "[") or self._old(at):
                step = self._step(at, inner)
                if step is None:
                    return None
                places, inner = step
                path += places
                at = tokens.partner[at] + 1 if tokens.text_at(at) == "[" else at + (tokens.text_at(at) == ".") + 1
            if path:
                at += 1  # the equals sign or the colon
            else:
                if self._elided(part, kind):
                    return None
                path, inner = [(place, place)], self._inner(kind, place)
            text = self._list(at, inner) if tokens.text_at(at) == "{" and at < part.stop else tokens.emitted(range(at, part.stop))
            if text is not None and tokens.text_at(at) != "{":
                text = text.join(inner.cast)
            if text is None or path[0][1] > _MOST:
                return None
            _put(root, path, text)
            place = path[0][1] + 1
        self.lengths[opening] = max(root.inner, default=-1) + 1
        return self._written(root, kind)

    def _elided(self, part: range, kind: Type) -> bool:
        """Whether a plain value may be one of several for an inner array or structure, whose braces C allows to omit."""
        return self._tokens.text_at(part.start) != "{" and kind.dimensions > 1

    def _step(self, at: int, kind: Type) -> tuple[list[tuple[int, int]], Type] | None:
        """(first, last) place that the designator at ``at`` means, for each level, and the type there."""
        tokens = self._tokens
        if tokens.text_at(at) == "[":
            if kind.dimensions == 0:
                return None
            dots = next((i for i in range(at, tokens.partner[at]) if tokens[i].text == "..."), tokens.partner[at])
            first = self._number(range(at + 1, dots))
            last = first if dots == tokens.partner[at] else self._number(range(dots + 1, tokens.partner[at]))
            return None if first is None or last is None else ([(first, last)], Type(kind.name, kind.dimensions - 1))
        return self._member(tokens.text_at(at + (tokens.text_at(at) == ".")), kind)

    def _member(self, wanted: str, kind: Type) -> tuple[list[tuple[int, int]], Type] | None:
        """The places that lead to a member, also inside structures without a name, and its type."""
        for place, (name, inner) in enumerate(self._fields_of(kind)):
            if name == wanted:
                return [(place, place)], inner
            deeper = None if name else self._member(wanted, inner)
            if deeper is not None:
                return [(place, place), *deeper[0]], deeper[1]
        return None

    def _fields_of(self, kind: Type) -> Sequence[tuple[str, Type]]:
        if kind.dimensions:
            return ()
        name = kind.name
        for _ in range(8):
            if name in self._members:
                return self._members[name]
            words = [word for word in self._aliases.get(name, ()) if word not in _NO_TYPE]
            if len(words) != 1:
                return ()
            name = words[0]
        return ()

    def _inner(self, kind: Type, place: int) -> Type:
        if kind.dimensions:
            return Type(kind.name, kind.dimensions - 1)
        fields = self._fields_of(kind)
        return fields[place][1] if place < len(fields) else Type("")

    def _written(self, value: _Value, kind: Type) -> str:
        if not value.inner:
            empty = value.text == "{}" and not kind.dimensions and kind.name in self._vectors
            return f"{kind.name}(0)" if empty else value.text
        fields = self._fields_of(kind)
        if kind.name in self._unions and not kind.dimensions:
            place, chosen = list(value.inner.items())[-1]
            return f"{{.{fields[place][0]} = {self._written(chosen, fields[place][1])}}}"
        parts = [self._written(value.inner.get(n, _Value()), self._inner(kind, n)) for n in range(max(value.inner) + 1)]
        return "{" + ", ".join(parts) + "}"


def _put(root: _Value, path: Sequence[tuple[int, int]], text: str) -> None:
    if not path:
        root.text, root.inner = text, {}
        return
    for place in range(path[0][0], path[0][1] + 1):
        _put(root.inner.setdefault(place, _Value()), path[1:], text)


def _evaluate(node: ast.expr) -> int:
    """Integer arithmetic on constants."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left), _evaluate(node.right)
        for kind, value in ((ast.Add, left + right), (ast.Sub, left - right), (ast.Mult, left * right), (ast.BitOr, left | right)):
            if isinstance(node.op, kind):
                return value
        if isinstance(node.op, ast.LShift) and 0 <= right < 32:
            return left << right
    raise ValueError("no constant")
