"""Two forms of functions that C++ lacks: K&R parameters, and overloads that differ only in an address space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portatile.dialect.names import CONSTANT, SPACES
from portatile.dialect.places import Places
from portatile.dialect.tokens import Tokens
from portatile.errors import CompileError

_OVERLOADABLE = "overloadable"


@dataclass(frozen=True)
class _Function:
    """A function definition: where it starts, and where its parameters and its body open."""

    start: int
    opening: int
    body: int


def modernise(tokens: Tokens, places: Places) -> Tokens:
    """The text with parameters inside their brackets, and with one function where several differ only in address spaces.

    Pointers in CUDA C++ belong to no address space, so that one such function does for all; raises CompileError where they would
    not do the same.
    """
    changed = False
    overloads: dict[tuple[str, ...], _Function] = {}
    for function in _functions(tokens):
        if tokens[tokens.partner[function.opening] + 1].kind == "name":
            changed |= _declare_inside(tokens, function)
        if not _is_overload(tokens, function):
            continue
        other = overloads.setdefault(_signature(tokens, function), function)
        if other is function:
            continue
        bodies = [_plain(tokens, range(definition.body, tokens.partner[definition.body])) for definition in (function, other)]
        if bodies[0] != bodies[1]:
            name, before = tokens[function.opening - 1], places.at(tokens[other.opening].line)
            raise CompileError(
                f"{places.at(name.line)}: this overload of {name.text!r} differs from that at {before} in its body, but in its parameters "
                "only by an address space, which pointers do not have on CUDA; give it a name of its own"
            )
        tokens.erase(function.start, tokens.partner[function.body])
        for i in range(other.opening, tokens.partner[other.opening]):
            if tokens[i].text in CONSTANT:  # the one that is kept must work for memory that is written
                tokens[i].out = "const" if "const" not in (tokens.text_at(i - 1), tokens.text_at(i + 1)) else ""
        changed = True
    return Tokens(tokens.emit()) if changed else tokens


def _functions(tokens: Tokens) -> Iterator[_Function]:
    """The definitions: everything outside of brackets that has parameters and a body."""
    start, opening = 0, None
    for i in tokens.at_depth(0, len(tokens)):
        text = tokens[i].text
        if text == "(" and tokens[i - 1].kind == "name" and tokens[i - 1].text != "__attribute__" and opening is None:
            opening = i
        elif text == "{" and opening is not None:
            yield _Function(start, opening, i)
        if text == "=" or (text == ";" and not _old(tokens, opening)) or (text == "{" and opening is not None):
            start, opening = tokens.partner.get(i, i) + 1, None


def _old(tokens: Tokens, opening: int | None) -> bool:
    """Whether the bracket holds only names of parameters, which are declared after it."""
    if opening is None or tokens.text_at(opening + 1) == ")":
        return False
    names = tokens.split(opening + 1, tokens.partner[opening])
    behind = tokens.partner[opening] + 1
    return (
        all(len(part) == 1 and tokens[part.start].kind == "name" for part in names)
        and behind < len(tokens)
        and tokens[behind].kind == "name"
        and tokens[behind].text != "__attribute__"
    )


def _declare_inside(tokens: Tokens, function: _Function) -> bool:
    """Move the declarations between bracket and body into the bracket."""
    if not _old(tokens, function.opening):
        return False
    closing, declared = tokens.partner[function.opening], dict[str, str]()
    for statement in tokens.split(closing + 1, function.body, ";"):
        specifiers = ""
        for part in tokens.split(statement.start, statement.stop):
            names = [i for i in part if tokens[i].kind == "name" and tokens.text_at(i - 1) != "["]
            if not names:
                continue
            first = part.start
            if not specifiers:
                first = next((i for i in part if tokens[i].text in ("*", "(")), names[-1])
                specifiers = tokens.emitted(range(part.start, first))
            declared[tokens[names[-1]].text] = f"{specifiers} {tokens.emitted(range(first, part.stop))}"
    for part in tokens.split(function.opening + 1, closing):
        name = tokens[part.start]
        name.out = declared.get(name.text, f"int {name.text}")
    tokens.erase(closing + 1, function.body - 1)
    return True


def _is_overload(tokens: Tokens, function: _Function) -> bool:
    around = (*range(function.start, function.opening), *range(tokens.partner[function.opening] + 1, function.body))
    return any(tokens[i].text.strip("_") == _OVERLOADABLE for i in around)


def _signature(tokens: Tokens, function: _Function) -> tuple[str, ...]:
    """The name and the parameter types, without what does not distinguish overloads in CUDA C++."""
    words = [tokens[function.opening - 1].text]
    for part in tokens.parameters(function.opening):
        named = len(part) > 1 and tokens[part.stop - 1].kind == "name"
        words += [*_plain(tokens, part[:-1] if named else part), ","]
    return tuple(words)


def _plain(tokens: Tokens, part: range) -> list[str]:
    """The words without address spaces; constant memory becomes const."""
    return [text for i in part if (text := tokens[i].text) not in SPACES | {"const", "restrict", "__restrict"}]
