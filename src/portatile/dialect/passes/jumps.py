"""Declarations that a ``goto`` or ``case`` jumps over: C allows that; C++ does not if the type has a constructor."""

from __future__ import annotations

from portatile.dialect.passes.expressions import Names
from portatile.dialect.tokens import Tokens


class Jumps:
    """The labels of a text, and the last label in each block, by the block's closing brace."""

    def __init__(self, tokens: Tokens, names: Names) -> None:
        self._tokens, self._known = tokens, names.vectors | names.aggregates
        self._last: dict[int, int] = {}
        self._around: dict[int, int] = {}  # the block around each semicolon
        blocks = [len(tokens)]
        for i, token in enumerate(tokens):
            if token.text == "{":
                blocks.append(tokens.partner[i])
            elif token.text == "}":
                blocks.pop()
            elif token.text == ";":
                self._around[i] = blocks[-1]
            elif self._is_label(i):
                self._last.update(dict.fromkeys(blocks, i))

    def pass_over(self, start: int, end: int) -> None:
        """Initialise a vector or structure, whose declaration ends at ``end``, in a statement of its own if a label
        follows in its block.
        """
        tokens = self._tokens
        at = start + (tokens.text_at(start) == "const")
        kind = at + (tokens.text_at(at) in ("struct", "union"))
        if tokens.text_at(kind) not in self._known or self._last.get(self._around[end], -1) < end:
            return
        parts = tokens.split(kind + 1, end)
        followers = {tokens.text_at(part.start + 1) if len(part) > 1 else "" for part in parts}
        if not followers <= {"", "="} or "=" not in followers:
            return
        declared = ", ".join(tokens[part.start].out for part in parts)
        tokens[start].out = f"{tokens.emitted(range(at, kind + 1))} {declared};"
        tokens.erase(start + 1, kind)
        for part in parts:
            if len(part) > 2 and tokens[part.start + 2].text == "{":
                tokens[part.start + 2].out = f"decltype({tokens[part.start].out}){tokens[part.start + 2].out}"

    def _is_label(self, i: int) -> bool:
        """Whether the token at ``i`` is a label or the word before one."""
        tokens = self._tokens
        if tokens[i].kind != "name":
            return False
        return tokens[i].text in ("case", "default") or (tokens.text_at(i + 1) == ":" and tokens.text_at(i - 1) in (";", "{", "}", ":"))
