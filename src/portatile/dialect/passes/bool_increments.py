"""``b++`` and ``--b`` for a bool ``b``: allowed in C, not in C++."""

from __future__ import annotations

from portatile.dialect.passes.swizzles import operand
from portatile.dialect.tokens import Tokens


def count(tokens: Tokens, i: int, booleans: frozenset[str]) -> None:
    """Rewrite the increment or decrement at ``i`` if any bool has the name of its operand.

    Types are not known here, so the function that replaces the operator decides by the type.
    """
    by = "1" if tokens[i].text == "++" else "-1"
    first = operand(tokens, i)
    if first < i and tokens.text_at(i + 1) != "(" and tokens[i + 1].kind != "name":  # in if (a) ++b there is no operand before the sign
        if _named(tokens, range(first, i), booleans):
            tokens[first].out = f"portatile_counted<{by}, true>({tokens[first].out}"
            tokens[i].out = ")"
        return
    end = i + 1
    while tokens.text_at(end) == "*":
        end += 1
    end = tokens.partner.get(end, end) + 1
    while (text := tokens.text_at(end)) in ("[", "(", ".", "->"):
        end = tokens.partner[end] + 1 if text in ("[", "(") else end + 2
    if _named(tokens, range(i + 1, end), booleans):
        tokens[i].out = f"portatile_counted<{by}, false>("
        tokens[end - 1].out += ")"


def _named(tokens: Tokens, part: range, booleans: frozenset[str]) -> bool:
    return any(tokens[j].text in booleans for j in part)
