"""Vector components: ``v.xy`` becomes a method call, or, if a structure has a member of that name, a function that decides by type."""

from __future__ import annotations

import re

from portatile.dialect.names import NOT_A_CALL
from portatile.dialect.tokens import ASSIGNMENTS, Tokens

_LETTERS = re.compile(r"[xyzw]{2,16}")
_DIGITS = re.compile(r"[sS][0-9a-fA-F]{2,16}")
SINGLE = re.compile(r"[xyzw]|[sS][0-9a-fA-F]")
_HALVES = frozenset({"lo", "hi", "even", "odd"})
_ACCESSOR = "portatile_the_"  # the prefix of names that may be a swizzle or a member


def _indices(name: str) -> list[int] | None:
    """The component numbers of a swizzle, or None for another name."""
    if _LETTERS.fullmatch(name) and len(name) in (2, 3, 4, 8, 16):
        return ["xyzw".index(c) for c in name]
    if _DIGITS.fullmatch(name) and len(name) - 1 in (2, 3, 4, 8, 16):
        return [int(c, 16) for c in name[1:]]
    return None


def swizzle(tokens: Tokens, i: int, members: frozenset[str]) -> None:
    """``v.xy`` becomes a call that returns a value, or a reference if it is assigned to."""
    name = tokens.text_at(i + 1)
    if tokens[i + 1].out != name:
        return  # already rewritten as part of a longer chain
    if re.fullmatch(r"S[0-9a-fA-F]", name) and name not in members:
        tokens[i + 1].out = f"s{name[1:]}"
        return
    if _component(name) is None:
        return
    chain = [i + 1]
    while tokens.text_at(chain[-1] + 1) == "." and (
        _component(follower := tokens.text_at(chain[-1] + 2)) is not None or SINGLE.fullmatch(follower)
    ):
        chain.append(chain[-1] + 2)
    after = tokens.text_at(chain[-1] + 1)
    written = after in ASSIGNMENTS or after in ("++", "--") or _prefixed(tokens, i)
    if name in members:
        for j in chain:
            _either(tokens, j - 1, written)
        return
    for j in chain:
        part = tokens[j].text
        if written and SINGLE.fullmatch(part):
            tokens[j].out = f"swzw<{_place(part)}>()"
        elif (component := _component(part)) is not None:
            tokens[j].out = component[written]


def _place(name: str) -> int:
    """The component that a name of one component means."""
    return "xyzw".index(name) if name in "xyzw" else int(name[1:], 16)


def _component(name: str) -> tuple[str, str] | None:
    """The calls that read and write the components of a swizzle; None for any other name."""
    if name in _HALVES:
        return f"{name}()", f"{name}_w()"
    indices = _indices(name)
    if indices is None:
        return None
    listed = ", ".join(map(str, indices))
    return f"swz<{listed}>()", f"swzw<{listed}>()"


def _either(tokens: Tokens, i: int, written: bool) -> None:
    """Rewrite a name that is both a swizzle and a structure's member: a function decides by type."""
    first = operand(tokens, i)
    if first == i:
        return  # a designator
    star = "*" if tokens[i].text == "->" else ""
    tokens[first].out = f"{_ACCESSOR}{tokens[i + 1].text}{'<true>' if written else ''}({star}({tokens[first].out}"
    tokens[i].out, tokens[i + 1].out = "))", ""


def ambiguous(tokens: Tokens) -> list[str]:
    """The names for which the text needs an ``accessor``."""
    return sorted({name for token in tokens if _ACCESSOR in token.out for name in re.findall(rf"{_ACCESSOR}(\w+)", token.out)})


def accessor(name: str) -> str:
    """The function that returns the member, or the components, called ``name`` of its argument."""
    single = name.lower() if name[0] == "S" else name
    read, written = (f"template {call}" if "<" in call else call for call in _component(name) or (single, f"swzw<{_place(name)}>()"))
    return (
        f"template <bool written = false, class S> __forceinline__ constexpr decltype(auto) {_ACCESSOR}{name}(S &&s) {{"
        f" if constexpr (!portatile_components<value_of<S>>) return (s.{name});"
        f" else if constexpr (written) return s.{written}; else return s.{read}; }} "
    )


def operand(tokens: Tokens, i: int) -> int:
    """The start of the operand before the dot (or another postfix operator) at ``i``; ``i`` itself if there is none."""
    first = i
    while first > 0:
        before = tokens[first - 1]
        if before.text in (")", "]"):
            opening = tokens.partner[first - 1]
            literal = before.text == ")" and tokens.text_at(opening - 1) == ")" and not tokens[opening - 1].out
            first = tokens.partner[opening - 1] if literal else opening
            if before.text == "]":
                continue
            if literal or tokens[first - 1].kind != "name" or tokens[first - 1].text in NOT_A_CALL:
                return first
            first -= 1
        elif before.kind == "name" and before.text not in NOT_A_CALL:
            first -= 1
        else:
            return first
        if tokens.text_at(first - 1) not in (".", "->"):
            return first
        first -= 1
    return first


def _prefixed(tokens: Tokens, i: int) -> bool:
    """Whether the operand that ends before the dot at ``i`` follows ``++`` or ``--``."""
    j = i - 1
    while j >= 0:
        if tokens[j].text in (")", "]"):
            j = tokens.partner[j] - 1
        elif tokens[j].kind == "name" or tokens[j].text in (".", "->"):
            j -= 1
        else:
            return tokens[j].text in ("++", "--") and tokens.text_at(j - 1) not in (")", "]") and tokens[j - 1].kind != "name"
    return False
