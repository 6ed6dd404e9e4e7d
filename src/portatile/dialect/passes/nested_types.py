"""Types defined inside others, which C makes known in the whole scope: for C++ they move in front of the outer type."""

from __future__ import annotations

from portatile.dialect.tokens import Tokens

_TAGGED = frozenset({"struct", "union", "enum"})


def hoist(tokens: Tokens) -> None:
    """Move every named structure, and every enumeration, that is inside another structure in front of the outermost one; must run last."""
    outermost, end = -1, -1
    moved: dict[int, list[int]] = {}
    for i in range(len(tokens)):
        if tokens[i].text not in _TAGGED:
            continue
        opening = _body(tokens, i)
        if opening is None:
            continue
        if i > end:
            outermost, end = i, tokens.partner[opening]
        elif tokens[i].text == "enum" or tokens[opening - 1] is not tokens[i]:
            moved.setdefault(outermost, []).append(i)
    for first, inner in moved.items():
        definitions = [_extracted(tokens, i) for i in sorted(inner, key=lambda i: tokens.partner[_body(tokens, i) or i])]
        start = first
        while tokens.text_at(start - 1) not in ("", ";", "{", "}", "("):
            start -= 1
        tokens[start].out = f"{' '.join(definitions)} {tokens[start].out}"


def _body(tokens: Tokens, i: int) -> int | None:
    """The opening brace of the definition at ``i``, or None."""
    at = i + 1
    while tokens.text_at(at) == "__attribute__":
        at = tokens.partner[at + 1] + 1
    at += at < len(tokens) and tokens[at].kind == "name"
    return at if tokens.text_at(at) == "{" else None


def _extracted(tokens: Tokens, i: int) -> str:
    """The definition at ``i`` as a statement; in its old place its name remains, or int for an enumeration."""
    opening = _body(tokens, i) or i
    closing = tokens.partner[opening]
    if tokens[i].text == "enum":
        text = tokens.emitted(range(i, closing)) + " };"
        rest = tokens[closing].out.removeprefix("};").strip()
        tokens.erase(i, closing)
        tokens[closing].out = rest if rest != "}" else ""
        return text
    text = tokens.emitted(range(i, closing + 1)) + ";"
    tokens.erase(opening, closing)
    return text
