"""Tokens of preprocessed C: source text with its line, and output text that passes change. Directives count as white space."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_LEX = re.compile(
    r"""(?P<space>\s+)
    |(?P<directive>\#[^\n]*)
    |(?P<string>(?:u8|[LuU])?"(?:\\.|[^"\\\n])*"|[LuU]?'(?:\\.|[^'\\\n])*')
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<op>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
_KEPT = ("#pragma unroll", "#line")
ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})


class Token:
    """One token: ``text`` is its source; ``out`` is its output, which follows the white space ``before``."""

    __slots__ = ("before", "kind", "line", "out", "text")

    def __init__(self, kind: str, text: str, before: str, line: int) -> None:
        self.kind, self.text, self.before, self.line, self.out = kind, text, before, line, text

    def __repr__(self) -> str:
        return f"{self.text!r}@{self.line}"


class UnbalancedError(Exception):
    """A bracket at ``line`` has no partner."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Tokens(Sequence[Token]):
    """A list of tokens, with the partner of each bracket. Passes never insert or remove tokens; they change ``Token.out``."""

    def __init__(self, text: str) -> None:
        self._list: list[Token] = []
        self.partner: dict[int, int] = {}
        self.tail = ""
        self._lex(text)
        self._match()

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._list[index]

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Token]:
        return iter(self._list)

    def text_at(self, index: int) -> str:
        """The source text of the token at ``index``; empty outside of the list."""
        return self._list[index].text if 0 <= index < len(self._list) else ""

    def emit(self) -> str:
        """The text with all changes."""
        return "".join(part for token in self._list for part in (token.before, token.out)) + self.tail

    def emitted(self, indices: Iterable[int]) -> str:
        """The output text of these tokens, on one line."""
        return " ".join(self._list[i].out for i in indices if self._list[i].out)

    def erase(self, first: int, last: int | None = None) -> None:
        """Emit nothing for the tokens ``first`` to ``last``, both included."""
        for token in self._list[first : (first if last is None else last) + 1]:
            token.out = ""

    def at_depth(self, first: int, end: int) -> Iterator[int]:
        """The indices from ``first`` up to, not including, ``end`` that are outside of brackets; an opening bracket is included, its
        content is not.
        """
        i = first
        while i < end:
            yield i
            i = self.partner.get(i, i) if self._list[i].text in CLOSING else i
            i += 1

    def split(self, first: int, end: int, separator: str = ",") -> list[range]:
        """The parts between separators outside of brackets, from ``first`` up to, not including, ``end``; an empty range has no parts."""
        parts, start = [], first
        for i in self.at_depth(first, end):
            if self._list[i].text == separator:
                parts.append(range(start, i))
                start = i + 1
        return [*parts, range(start, end)] if start < end or parts else []

    def parameters(self, opening: int) -> list[range]:
        """The parameters between the bracket at ``opening`` and its partner, without attributes around them."""
        parts = []
        for part in self.split(opening + 1, self.partner[opening]):
            first, end = part.start, part.stop
            while first < end and self.text_at(first) == "__attribute__":
                first = self.partner[first + 1] + 1
            while end - 1 > first and self.text_at(end - 1) == ")" and self.text_at(self.partner[end - 1] - 1) == "__attribute__":
                end = self.partner[end - 1] - 1
            parts.append(range(first, end))
        return parts

    def _lex(self, text: str) -> None:
        before, line = "", 1
        for match in _LEX.finditer(text):
            kind, piece = match.lastgroup or "op", match.group()
            if kind == "space":
                before += piece
            elif kind == "directive" and before.rstrip(" \t").endswith("\n" if self._list else ("\n", "")):
                before += piece if piece.startswith(_KEPT) else ""
            else:
                self._list.append(Token(kind, piece, before, line))
                before = ""
            line += piece.count("\n")
        self.tail = before

    def _match(self) -> None:
        stack: list[int] = []
        for i, token in enumerate(self._list):
            if token.kind != "op":
                continue
            if token.text in CLOSING:
                stack.append(i)
            elif token.text in ")]}":
                if not stack or CLOSING[self._list[stack[-1]].text] != token.text:
                    raise UnbalancedError(f"unexpected {token.text!r}", token.line)
                opening = stack.pop()
                self.partner[opening], self.partner[i] = i, opening
        if stack:
            token = self._list[stack[-1]]
            raise UnbalancedError(f"{token.text!r} is never closed", token.line)
