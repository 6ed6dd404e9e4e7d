"""``c ? a : b`` with a vector ``c``, which selects component by component; C++ has no such operator."""

from __future__ import annotations

from portatile.dialect.passes.swizzles import SINGLE
from portatile.dialect.tokens import ASSIGNMENTS, Tokens

_BEFORE_CONDITION = ASSIGNMENTS | {",", ";", "(", "[", "{", "}", "?", ":", "return", "case"}


def choice(tokens: Tokens, i: int, vectors: frozenset[str], variables: frozenset[str]) -> None:
    """Rewrite a condition that may be a vector as a call that decides by type, since types are not known here."""
    first = i
    while first > 0 and tokens[first - 1].text not in _BEFORE_CONDITION:
        first = tokens.partner[first - 1] if tokens[first - 1].text in (")", "]", "}") else first - 1
    if tokens.text_at(i + 1) == ":":  # GNU C's a ?: b
        tokens[first].out = f"portatile_or({tokens[first].out}"
        tokens.erase(i)
        last = end_of_value(tokens, i + 1)
        _chosen(tokens, i + 1, last)
        tokens[last].out += ")"
        return
    if not any(_maybe_vector(tokens, j, vectors, variables) for j in range(first, i)):
        return
    colon, depth = i, 1
    while depth:
        colon = tokens.partner.get(colon, colon) + 1 if tokens[colon].text in ("(", "[", "{") else colon + 1
        depth += {"?": 1, ":": -1}.get(tokens[colon].text, 0)
    last = end_of_value(tokens, colon)
    tokens[first].out = f"portatile_choose({tokens[first].out}"
    _chosen(tokens, i, colon - 1)
    _chosen(tokens, colon, last)
    tokens[last].out += ")"


def end_of_value(tokens: Tokens, last: int) -> int:
    """The last token of the value after the colon, or the operator of an assignment, at ``last``."""
    depth = 0
    while (end := tokens[last + 1].text) not in (",", ";", ")", "]", "}") and (end != ":" or depth):
        depth += {"?": 1, ":": -1}.get(end, 0)  # a conditional after the colon is part of the value
        last = tokens.partner[last + 1] if end in ("(", "[", "{") else last + 1
    return last


def _chosen(tokens: Tokens, before: int, last: int) -> None:
    """Turn one of the two values into a function, because only one may be evaluated; a plain 0 stays, so that it takes the other's type."""
    if [token.text for token in tokens[before + 1 : last + 1] if token.text not in ("(", ")", "void", "*")] == ["0"]:
        tokens.erase(before + 1, last)
        tokens[before].out = ", portatile_null()"
        return
    tokens[before].out = ", [&] { return "
    tokens[last].out += "; }"


def _maybe_vector(tokens: Tokens, j: int, vectors: frozenset[str], variables: frozenset[str]) -> bool:
    """Whether the name at ``j`` stands for a whole vector."""
    if tokens[j].text in vectors:
        return True
    if tokens[j].text not in variables or tokens.text_at(j - 1) in (".", "->"):
        return False
    after = j + 1
    while tokens.text_at(after) in ("[", "("):
        after = tokens.partner[after] + 1
    return not (tokens.text_at(after) in (".", "->") and SINGLE.fullmatch(tokens.text_at(after + 1)))
