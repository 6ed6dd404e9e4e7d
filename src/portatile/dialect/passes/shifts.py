"""``a << n``: OpenCL C takes ``n`` modulo the width of ``a``; in C++ an ``n`` that is too large is undefined."""

from __future__ import annotations

import re

from portatile.dialect.passes.vector_conditionals import end_of_value
from portatile.dialect.tokens import ASSIGNMENTS, Tokens

SHIFTS = frozenset({"<<", ">>", "<<=", ">>="})
_SMALL = re.compile(r"[12]?\d[uU]?|3[01][uU]?")
_WEAKER = ASSIGNMENTS | {"<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "^", "|", "&&", "||", "?", ":", ",", ";", ")", "]", "}"}


def shift(tokens: Tokens, i: int) -> None:
    """Give the distance of the shift at ``i`` a type whose operators take the remainder; constants up to 31 stay as they are."""
    last = i
    if tokens[i].text in ASSIGNMENTS:
        last = end_of_value(tokens, i)
    else:
        while tokens.text_at(last + 1) not in _WEAKER or (tokens[last].kind == "op" and tokens[last].text not in (")", "]")):
            last = tokens.partner[last + 1] if tokens[last + 1].text in ("(", "[", "{") else last + 1
    if last > i + 1 or not _SMALL.fullmatch(tokens.text_at(last)):
        tokens[i + 1].out = f"portatile_by({tokens[i + 1].out}"
        tokens[last].out += ")"
