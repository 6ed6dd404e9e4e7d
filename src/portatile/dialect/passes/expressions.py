"""Rewrites expressions: vector literals, swizzles, conversions, compound literals, and words with other spellings."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from portatile.dialect.names import CPP_ONLY, NOT_A_CALL, SCALARS, SPACES, SPELT, VECTORS
from portatile.dialect.passes.bool_increments import count
from portatile.dialect.passes.shifts import SHIFTS, shift
from portatile.dialect.passes.swizzles import ambiguous, swizzle
from portatile.dialect.passes.vector_conditionals import choice
from portatile.dialect.tokens import Tokens

_WIDTH = r"(?:2|3|4|8|16)?"
_TYPE = rf"(?:{'|'.join(SCALARS)}){_WIDTH}"
_CONVERT = re.compile(rf"convert_({_TYPE})(_sat)?(?:_(rt[ezpn]))?")
_AS = re.compile(rf"as_({_TYPE}|size_t)")
_VECTOR_FORMAT = re.compile(r"%([-+ #0-9.]*)v(2|3|4|8|16)(hl|hh|h|l)?([a-zA-Z])")
_LENGTH = {"hl": "", None: ""}
_HALF_LITERAL = re.compile(r"((?:\d|\.\d)[\w.+-]*?)[hH]")
_DOUBLE = re.compile(r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[xX][\da-fA-F.]+[pP][+-]?\d+")
_POINTER_WORDS = frozenset({"const", "volatile", "restrict", "__restrict", "__restrict__"})
_QUALIFIERS = SPACES | {"const", "volatile", "struct", "union"}
_MOST_LABELS = 4096
_STATEMENTS = frozenset({"if", "for", "while", "do", "switch", "return", "goto"})


@dataclass(frozen=True)
class Names:
    """The names that the text declares: vector types (OpenCL's and its own), aggregate types, members of structs.

    ``aliases``: the words that a typedef stands for, including address space and star.
    """

    vectors: frozenset[str]
    aggregates: frozenset[str]
    members: frozenset[str]
    aliases: dict[str, tuple[str, ...]]
    vector_variables: frozenset[str]
    booleans: frozenset[str]


def declared(tokens: Tokens) -> Names:
    """The names that determine how tokens are parsed."""
    vectors, aggregates, members = set(VECTORS), set[str](), set[str]()
    aliases: dict[str, tuple[str, ...]] = {}
    for i, token in enumerate(tokens):
        if token.text in ("struct", "union"):
            _aggregate(tokens, i, aggregates, members)
        elif token.text == "typedef":
            end = next((j for j in tokens.at_depth(i, len(tokens)) if tokens[j].text == ";"), len(tokens))
            while tokens.text_at(end - 1) == ")" and tokens.text_at(tokens.partner[end - 1] - 1) == "__attribute__":
                end = tokens.partner[end - 1] - 1
            _extended(tokens, i, end, vectors)
            name = tokens.text_at(end - 1)
            words = tuple(tokens[j].text for j in tokens.at_depth(i + 1, end - 1))
            if words and words[0] in ("struct", "union"):
                aggregates.add(name)
            elif words and words[0] == "enum":
                aliases[name] = ("int",)
            elif all(re.fullmatch(r"\w+|\*", word) for word in words):
                aliases[name] = words
                if words and words[-1] in vectors and set(words[:-1]) <= _QUALIFIERS:
                    vectors.add(name)
    variables = [_variables(tokens, types) for types in (vectors, {"bool", "_Bool"})]
    return Names(frozenset(vectors), frozenset(aggregates), frozenset(members), aliases, *variables)


def _extended(tokens: Tokens, start: int, end: int, vectors: set[str]) -> None:
    """``typedef float f4 __attribute__((ext_vector_type(4)))`` names a vector, and ``vector_size(16)`` one of that many bytes."""
    stop = next((j for j in tokens.at_depth(start, len(tokens)) if tokens[j].text == ";"), len(tokens))
    attribute = next((j for j in range(start, stop) if tokens[j].text.strip("_") in ("ext_vector_type", "vector_size")), None)
    names = [j for j in tokens.at_depth(start + 1, end) if tokens[j].kind == "name" and tokens[j].text != "__attribute__"]
    if attribute is not None and len(names) > 1:
        first = next(j for j in range(attribute, start, -1) if tokens[j].text == "__attribute__")
        vectors.add(tokens[names[-1]].text)
        kind, width = tokens[names[-2]].text, tokens.emitted(range(attribute + 1, tokens.partner[attribute + 1] + 1))
        if tokens[attribute].text.strip("_") == "vector_size":
            width = f"({width} / sizeof({kind}))"
        tokens[names[-2]].out = f"::oclt::vec<{kind}, {width}>"
        tokens.erase(first, tokens.partner[first + 1])


def _variables(tokens: Tokens, types: set[str]) -> frozenset[str]:
    """All names that are declared anywhere with one of the types, including pointers and functions."""
    variables = set()
    for i, token in enumerate(tokens):
        if token.text in types and tokens.text_at(i + 1) != ")":
            end = next((j for j in tokens.at_depth(i + 1, len(tokens)) if tokens[j].text in (";", ")", "{")), len(tokens))
            for part in tokens.split(i + 1, end):
                names = [j for j in part if tokens[j].kind == "name" and tokens[j].text not in _POINTER_WORDS]
                if names:
                    variables.add(tokens[names[0]].text)
    return frozenset(variables)


def _aggregate(tokens: Tokens, i: int, aggregates: set[str], members: set[str]) -> None:
    """The tag and the members of the structure or union at ``i``."""
    at = i + 1
    while tokens.text_at(at) == "__attribute__":
        at = tokens.partner[at + 1] + 1
    if at < len(tokens) and tokens[at].kind == "name":
        aggregates.add(tokens[at].text)
        at += 1
    if tokens.text_at(at) == "{":
        for j in range(at, tokens.partner[at]):
            if tokens[j].kind == "name" and tokens.text_at(j + 1) in (";", ",", "[", ":"):
                members.add(tokens[j].text)


def rewrite(tokens: Tokens, names: Names) -> list[str]:
    """Rewrite every expression in place; returns the names for which the text needs an ``accessor``."""
    for i, token in enumerate(tokens):
        if token.kind == "number":
            if (match := _HALF_LITERAL.fullmatch(token.text)) and not token.text.lower().startswith("0x"):
                token.out = f"half({match[1]}f)" if re.search(r"[.eE]", match[1]) else f"half({match[1]}.0f)"
        elif token.kind == "string" and token.text[0] == "'":
            token.out = f"int({token.text})"
        elif token.kind == "name":
            _word(tokens, i, names)
        elif token.text == "(" and tokens.text_at(i + 1) == "{":
            _statement_expression(tokens, i)
        elif token.text == "(":
            _literal(tokens, i, names)
        elif token.text in (".", "->"):
            swizzle(tokens, i, names.members)
        elif names.booleans and token.text in ("++", "--"):
            count(tokens, i, names.booleans)
        elif token.text == "..." and tokens.text_at(i - 2) == "case":
            _case_range(tokens, i)
    for i in reversed(range(len(tokens))):  # their brackets enclose what the other passes, and inner conditionals, have written
        if tokens[i].text == "?":
            choice(tokens, i, names.vectors, names.vector_variables)
        elif tokens[i].text in SHIFTS:
            shift(tokens, i)
    return ambiguous(tokens)


def shorten_constants(tokens: Tokens) -> None:
    """Give floating-point constants without a suffix single precision."""
    for token in tokens:
        if token.kind == "number" and _DOUBLE.fullmatch(token.text):
            token.out += "f"


def _word(tokens: Tokens, i: int, names: Names) -> None:
    """Rewrite a name on its own."""
    token = tokens[i]
    if token.text in SPELT:
        token.out = SPELT[token.text]
    elif token.text in CPP_ONLY:
        token.out = f"{token.text}_c"
    elif token.text in ("typeof", "__typeof__", "__typeof", "vec_step"):
        _type_operator(tokens, i, names)
    elif token.text == "enum":
        _enumeration(tokens, i)
    elif token.text == "__builtin_astype" and tokens.text_at(i + 1) == "(":
        *_, kind = tokens.split(i + 2, tokens.partner[i + 1])
        token.out = f"as_<{tokens.emitted(kind)}>"
        tokens.erase(kind.start - 1, kind.stop - 1)
    elif token.text == "__builtin_convertvector" and tokens.text_at(i + 1) == "(":
        *_, kind = tokens.split(i + 2, tokens.partner[i + 1])
        token.out = f"convert_<{tokens.emitted(kind)}, round_default, false>"
        tokens.erase(kind.start - 1, kind.stop - 1)
    elif token.text == "__builtin_shufflevector" and tokens.text_at(i + 1) == "(":
        places = range(tokens.split(i + 2, tokens.partner[i + 1])[2].start, tokens.partner[i + 1])
        token.out = f"portatile_shufflevector<{tokens.emitted(places)}>"
        tokens.erase(places.start - 1, places.stop - 1)
    elif token.text == "opencl_unroll_hint":
        _unroll_hint(tokens, i)
    elif token.text == "printf" and tokens.text_at(i + 1) == "(" and tokens[i + 2].kind == "string":
        tokens[i + 2].out = _VECTOR_FORMAT.sub(_component_formats, tokens[i + 2].text)
    elif tokens.text_at(i + 1) == "(":
        if match := _CONVERT.fullmatch(token.text):
            rounding = f"round_{match[3]}" if match[3] else "round_default"
            token.out = f"convert_<{match[1]}, {rounding}, {'true' if match[2] else 'false'}>"
        elif match := _AS.fullmatch(token.text):
            token.out = f"as_<{match[1]}>"


def _component_formats(match: re.Match[str]) -> str:
    """``%v4hlf`` becomes ``%f,%f,%f,%f``: OpenCL C prints commas between components."""
    flags, width, length, letter = match.groups()
    return ",".join([f"%{flags}{_LENGTH.get(length, length)}{letter}"] * int(width))


def _enumeration(tokens: Tokens, i: int) -> None:
    """Make objects of an enumerated type integers: in C any integer may be assigned to them."""
    at = i + 2 if i + 1 < len(tokens) and tokens[i + 1].kind == "name" else i + 1
    if tokens.text_at(at) != "{":
        tokens[i].out = ""
        tokens[i + 1].out = "int"
        return
    tokens.erase(i + 1, at - 1)  # a tag may also be the name of the typedef
    closing = tokens.partner[at]
    typedef = tokens.text_at(i - 1) == "typedef"
    if typedef:
        tokens[i - 1].out = ""
    if tokens.text_at(closing + 1) != ";":
        tokens[closing].out = "}; typedef int" if typedef else "}; int"


def _type_operator(tokens: Tokens, i: int, names: Names) -> None:
    """``typeof(x)`` and ``vec_step(x)``, where ``x`` may be a type."""
    if tokens.text_at(i + 1) != "(":
        return
    closing = tokens.partner[i + 1]
    is_type = closing == i + 3 and (
        tokens[i + 2].text in names.vectors | names.aggregates | set(SCALARS) or tokens[i + 2].text in names.aliases
    )
    if tokens[i].text == "vec_step":
        if is_type:
            tokens[closing].out = "())"
    elif is_type:
        tokens.erase(i, i + 1)
        tokens[closing].out = ""
    else:
        tokens[i].out = "::oclt::value_of<decltype"
        tokens[closing].out = ")>"


def _unroll_hint(tokens: Tokens, i: int) -> None:
    """``__attribute__((opencl_unroll_hint(n)))`` before a loop."""
    count = ""
    if tokens.text_at(i + 1) == "(":
        count = " ".join(tokens[j].text for j in range(i + 2, tokens.partner[i + 1]))
    if tokens.text_at(i - 3) == "__attribute__":
        tokens.erase(i - 3, tokens.partner[i - 2])
        tokens[i - 3].out = f'_Pragma("unroll {count}")'


def _case_range(tokens: Tokens, i: int) -> None:
    """GNU C's ``case 1 ... 3:`` is a label for each value."""
    try:
        first, last = (ast.literal_eval(tokens.text_at(j).rstrip("uUlL")) for j in (i - 1, i + 1))
    except (SyntaxError, ValueError):
        return
    low, high = (ord(value) if isinstance(value, str) else value for value in (first, last))
    tokens.erase(i, i + 1)
    tokens[i].out = "".join(f": case {value}" for value in range(low + 1, min(high, low + _MOST_LABELS) + 1))


def _statement_expression(tokens: Tokens, i: int) -> None:
    """GNU C's ``({ statements; value; })`` becomes a block, or a function call if its value is used."""
    end = tokens.partner[i]
    if tokens.text_at(i - 1) in ("", ";", "{", "}") and tokens.text_at(end + 1) == ";":
        tokens.erase(i)
        tokens.erase(end)
        return
    tokens[i].out, tokens[end].out = "[&] ", "()"
    statements = [part for part in tokens.split(i + 2, end - 1, ";") if part]
    last = statements[-1].start if statements else end
    while tokens.text_at(last) == "{":
        last = tokens.partner[last] + 1
    if last < end - 1 and tokens[last].text not in _STATEMENTS:
        tokens[last - 1].out += " return"


def _literal(tokens: Tokens, i: int, names: Names) -> None:
    """``(float4)(a, b, c, d)`` becomes ``float4(a, b, c, d)``, and ``(struct s){a}`` becomes ``s{a}``.

    Without this, the first would silently compile as a comma expression.
    """
    end = tokens.partner[i]
    after = tokens.text_at(end + 1)
    if after not in ("(", "{"):
        return
    if after == "{" and tokens[i + 1].text in ("struct", "union") and tokens[i + 2].text == "{" and tokens.partner[i + 2] == end - 1:
        made = f"portatile_{tokens[i + 1].text}_{i}"  # a structure without a name that is defined where it is used
        tokens[i].out, tokens[i + 1].out, tokens[end].out = "([&] { ", f"{tokens[i + 1].text} {made}", f"; return {made}"
        tokens[tokens.partner[end + 1]].out += "; }())"
        return
    inside = [j for j in range(i + 1, end) if tokens[j].text not in _QUALIFIERS]
    if len(inside) != 1 or tokens[inside[0]].kind != "name":
        return
    name, before = tokens[inside[0]].text, tokens[i - 1] if i else None
    called = before is not None and ((before.kind == "name" and before.text not in NOT_A_CALL) or before.text == "__attribute__")
    if name in names.vectors and not called:
        tokens.erase(i, end)
        tokens[inside[0]].out = name
        if before is not None and before.kind == "name":
            tokens[i].out = " "
        if after == "{":
            tokens[end + 1].out, tokens[tokens.partner[end + 1]].out = "(", ")"
    elif name in names.aggregates and after == "{" and not called:
        tokens.erase(i, end)
        tokens[inside[0]].out = f" {name}"
