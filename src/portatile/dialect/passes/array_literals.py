"""Array literals, ``(int[]){1, 2}``: C objects that live as long as their block. C++ lacks them."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.dialect.names import NOT_A_CALL, SPACES
from portatile.dialect.places import Places
from portatile.dialect.tokens import Tokens
from portatile.errors import CompileError

_QUALIFIERS = SPACES | {"const", "volatile", "static"}


def declare(tokens: Tokens, places: Places, lengths: Mapping[int, int]) -> None:
    """Turn every literal into an assignment to an array that is declared at the start of its function.

    ``lengths``: the number of elements of lists with designators, by their opening braces. Raises CompileError outside of functions.
    """
    body = end = -1
    for i, token in enumerate(tokens):
        if token.text != "{":
            continue
        if is_literal(tokens, i):
            if i > end:
                raise CompileError(
                    f"{places.at(token.line)}: an array literal outside of functions is not supported on CUDA; declare an array"
                )
            tokens[body].out += _declared(tokens, i, lengths)
        elif i > end and tokens.text_at(i - 1) != "=":
            body, end = i, tokens.partner[i]


def is_literal(tokens: Tokens, brace: int) -> bool:
    """Whether the list at ``brace`` follows an array type in parentheses."""
    if tokens.text_at(brace - 1) != ")" or tokens.text_at(brace - 2) != "]":
        return False
    first = tokens.partner[brace - 1]
    before = tokens[first - 1] if first else None
    if before is None or before.text in ("__attribute__", "if", "while", "for", "switch"):
        return False
    return before.kind != "name" or before.text in NOT_A_CALL


def _declared(tokens: Tokens, brace: int, lengths: Mapping[int, int]) -> str:
    """Rewrite the literal at ``brace``; returns the declaration that it needs."""
    first, closing = tokens.partner[brace - 1], tokens.partner[brace]
    bracket = next(i for i in tokens.at_depth(first + 1, brace) if tokens[i].text == "[")
    star = max((i for i in range(first, bracket) if tokens[i].text == "*"), default=first)
    specifiers = (i for i in range(first + 1, bracket) if tokens[i].text not in _QUALIFIERS or (i < star and tokens[i].text == "const"))
    kind, extents = tokens.emitted(specifiers), tokens.emitted(range(bracket, brace - 1))
    if tokens.text_at(bracket + 1) == "]":
        parts = [part for part in tokens.split(brace + 1, closing) if part]
        text = len(parts) == 1 and tokens[parts[0].start].kind == "string"
        count = f"sizeof({tokens.emitted(parts[0])})" if text else lengths.get(brace, len(parts))
        extents = f"[{count}]{tokens.emitted(range(bracket + 2, brace - 1))}"
    name = f"portatile_array_{brace}"
    tokens.erase(first, brace - 1)
    tokens[first].out = f"({name} = {{"
    tokens[closing].out += "}).values"
    return f" ::ocl::portatile_array<{kind}{extents}> {name};"
