"""The layout of structures: attributes after the members, which NVRTC ignores, and arrays without a size, which it lacks."""

from __future__ import annotations

from portatile.dialect.places import Places
from portatile.dialect.tokens import Tokens
from portatile.errors import CompileError


def lay_out(tokens: Tokens, places: Places) -> None:
    """Move the attribute of ``struct { ... } __attribute__((packed))`` before the members; raises CompileError for
    an array without a size.
    """
    for i, token in enumerate(tokens):
        if token.text not in ("struct", "union"):
            continue
        opening = i + 1
        while tokens.text_at(opening) == "__attribute__":
            opening = tokens.partner[opening + 1] + 1
        opening += opening < len(tokens) and tokens[opening].kind == "name"
        if tokens.text_at(opening) != "{":
            continue
        closing = tokens.partner[opening]
        if tokens.text_at(closing - 1) == ";" and tokens.text_at(closing - 2) == "]" and tokens.text_at(closing - 3) == "[":
            name = tokens[closing - 4]
            raise CompileError(
                f"{places.at(name.line)}: {name.text!r}, an array without a size at the end of a structure, is not supported on CUDA; "
                f"write {name.text}[1] and reach the elements through a pointer to the first"
            )
        after = closing + 1
        while tokens.text_at(after) == "__attribute__":
            after = tokens.partner[after + 1] + 1
        if after > closing + 1:
            token.out += f" {tokens.emitted(range(closing + 1, after))}"
            tokens.erase(closing + 1, after - 1)
