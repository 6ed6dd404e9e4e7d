"""C's implicit pointer conversions, in assignments, initialisers, returned values and arguments, become casts in CUDA C++."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from portatile.dialect.names import ACCESS, INTEGER_WORDS, SCALARS, SPACES
from portatile.dialect.passes.expressions import Names
from portatile.dialect.tokens import Tokens

_QUALIFIERS = SPACES | ACCESS | {"const", "volatile", "restrict", "__restrict", "__restrict__", "__const", "static", "register", "extern"}
_TYPES = (
    INTEGER_WORDS | frozenset(SCALARS) | {"void", "bool", "_Bool", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "event_t", "sampler_t"}
)
_WHOLE = INTEGER_WORDS | {"uint", "uchar", "ushort", "ulong"}
_TAGGED = frozenset({"struct", "union", "enum"})
_HEADS = frozenset({"if", "for", "while", "switch"})
_POINTER_WORDS = frozenset({"const", "volatile", "restrict", "__restrict", "__restrict__"})


@dataclass(frozen=True)
class _Declarator:
    """One name of a declaration: how often it can be dereferenced, how many of these are array dimensions, and where
    its initialiser ends.
    """

    name: int
    depth: int
    dimensions: int
    end: int


class Conversions:
    """One walk over the text. Pointers are known by their names only; a cast obtains the type from the compiler."""

    def __init__(self, tokens: Tokens, names: Names) -> None:
        self._tokens = tokens
        self._types = {*_TYPES, *names.vectors, *names.aggregates, *names.aliases}
        self._stars = {name: words.count("*") for name, words in names.aliases.items()}
        self._depth: dict[str, int] = {}
        self._initialised: dict[int, _Declarator] = {}
        bodies = (i for i, token in enumerate(tokens) if token.text == "{" and tokens.text_at(i - 1) == ")")
        self._defined = Counter(tokens.text_at(tokens.partner[i - 1] - 1) for i in bodies)
        self._collect()

    def rewrite(self) -> None:
        """Cast values that are assigned to pointers or initialise them; addresses become integers if a cast asks for that."""
        tokens, level = self._tokens, 0
        for i in reversed(range(len(tokens))):  # in a = b = c the second assignment is rewritten first
            token = tokens[i]
            level += {"}": 1, "{": -1}.get(token.text, 0)
            if not token.out:
                continue  # part of a list that is rewritten
            if token.text == "=" and level:
                kind = self._begun(i, self._initialised[i]) if i in self._initialised else self._assigned(i)
                if kind and tokens.text_at(i + 1) != "{":
                    self._cast(i + 1, self._end(i + 1), kind)
                elif self._end(i + 1) == i + 2:
                    self._address(i + 1)
            elif token.text == ")" and tokens.text_at(i - 1) in _WHOLE and tokens.text_at(tokens.partner[i] + 1) in _WHOLE:
                self._address(i + 1)

    def returned(self, first: int, end: int, kind: str) -> None:
        """Cast every value returned by a function whose body goes from ``first`` to ``end``."""
        for i in range(first, end):
            if self._tokens[i].text == "return" and self._tokens[i + 1].text != ";":
                self._cast(i + 1, self._end(i + 1), kind)

    def accept_any_pointer(self, name: int, opening: int, closing: int) -> None:
        """Add an overload after the function that accepts any pointers and converts them as C does."""
        tokens = self._tokens
        spelt = tokens[name].out
        parts = tokens.parameters(opening)
        brackets = [[i for i in tokens.at_depth(part.start, part.stop) if tokens[i].text in ("[", "(")] for part in parts]
        if self._defined[tokens[name].text] > 1 or any(len(pair) > 1 or (pair and tokens[pair[0]].text == "(") for pair in brackets):
            return
        classes, declared, passed = [], [], []
        for n, (part, pair) in enumerate(zip(parts, brackets, strict=True)):
            if pair and tokens[pair[0] - 1].kind == "name":  # int a[4] is also a pointer
                classes.append(f"class P{n}")
                declared.append(f"P{n} *p{n}")
                passed.append(f"({tokens.emitted(range(part.start, pair[0] - 1))} *)p{n}")
                continue
            star = part.stop - 2
            while tokens.text_at(star) in _POINTER_WORDS:
                star -= 1
            if star > part.start and tokens[star].text == "*":
                classes.append(f"class P{n}")
                declared.append(f"P{n} *p{n}")
                passed.append(f"({tokens.emitted(part[:-1])})p{n}")
            elif len(part) > 1:
                declared.append(f"{tokens.emitted(part[:-1])} p{n}")
                passed.append(f"p{n}")
        if classes:
            signature = f"template <{', '.join(classes)}> __forceinline__ auto {spelt}({', '.join(declared)})"
            tokens[closing].out += f" {signature} {{ return {spelt}({', '.join(passed)}); }}"

    def _collect(self) -> None:
        """Collect the names that are declared with stars or extents anywhere in the text, and their initialisers."""
        tokens, i, bodies = self._tokens, 0, set[int]()
        while i < len(tokens):
            text, base, first = tokens[i].text, 0, i
            if text == "typedef":
                self._types.update(self._defined_types(i))
            while tokens.text_at(i) in _QUALIFIERS:
                i += 1
            if tokens.text_at(i) in _TAGGED:
                i += 1
                while tokens.text_at(i) == "__attribute__":
                    i = tokens.partner[i + 1] + 1
                if i < len(tokens) and tokens[i].kind == "name":
                    i += 1
                if tokens.text_at(i) == "{":
                    bodies.add(tokens.partner[i])
                    i += 1
                    continue
            elif tokens.text_at(i) in self._types and tokens.text_at(i - 1) not in (".", "->"):
                while tokens.text_at(i) in self._types or tokens.text_at(i) in _QUALIFIERS:
                    base += self._stars.get(tokens[i].text, 0)
                    i += 1
            elif i in bodies:
                i += 1
            else:
                i += i == first
                continue
            for declarator in self._declarators(i, base):
                name = tokens[declarator.name].text
                self._depth[name] = max(self._depth.get(name, 0), declarator.depth)
                if tokens.text_at(declarator.end) == "=":
                    self._initialised[declarator.end] = declarator

    def _defined_types(self, i: int) -> Iterator[str]:
        """The names that the ``typedef`` at ``i`` defines."""
        tokens = self._tokens
        end = next((j for j in tokens.at_depth(i, len(tokens)) if tokens[j].text == ";"), len(tokens))
        for part in tokens.split(i + 1, end):
            flat = [j for j in tokens.at_depth(part.start, part.stop) if tokens[j].kind == "name" and tokens[j].text != "__attribute__"]
            if flat:
                yield tokens[flat[-1]].text

    def _declarators(self, i: int, base: int) -> Iterator[_Declarator]:
        """The names of a declaration whose specifiers end before ``i``."""
        tokens = self._tokens
        while True:
            depth, closing = base, None
            while (text := tokens.text_at(i)) == "*" or text in _QUALIFIERS or (text == "(" and tokens.text_at(i + 1) in ("*", "(")):
                depth += text == "*"
                closing = tokens.partner[i] if text == "(" and closing is None else closing
                i += 1
            if i >= len(tokens) or tokens[i].kind != "name" or text in self._types or text == "__attribute__":
                return
            name, after, dimensions = i, i + 1, 0
            while tokens.text_at(after) in ("[", ")") and (tokens[after].text == "[" or (closing is not None and after <= closing)):
                dimensions += tokens[after].text == "["
                after = tokens.partner[after] + 1 if tokens[after].text == "[" else after + 1
            while tokens.text_at(after) == "__attribute__":
                after = tokens.partner[after + 1] + 1
            if tokens.text_at(after) == "(":
                return
            yield _Declarator(name, depth + dimensions, 0 if closing is not None else dimensions, after)
            if tokens.text_at(after) in ("=", ":"):
                after = self._end(after + 1)
            if tokens.text_at(after) != ",":
                return
            i = after + 1

    def _end(self, first: int) -> int:
        """The position at which the expression at ``first`` ends."""
        tokens, i, choices = self._tokens, first, 0
        while i < len(tokens) and (text := tokens[i].text) not in (",", ";", ")", "]", "}") and (text != ":" or choices):
            choices += {"?": 1, ":": -1}.get(text, 0)
            i = tokens.partner[i] + 1 if text in ("(", "[", "{") else i + 1
        return i

    def _begun(self, equals: int, declarator: _Declarator) -> str:
        """The type of the pointer that is initialised after ``equals``; the pointers of an array are cast one by one."""
        tokens, name = self._tokens, self._tokens[declarator.name].out
        listed = tokens.text_at(equals + 1) == "{"
        if listed and declarator.dimensions == 1 and declarator.depth > 1 and tokens[tokens.partner[equals + 1]].out:
            for part in tokens.split(equals + 2, tokens.partner[equals + 1]):
                self._cast(part.start, part.stop, f"::oclt::value_of<decltype({name}[0])>")
        return f"decltype({name})" if not listed and declarator.depth > declarator.dimensions else ""

    def _assigned(self, equals: int) -> str:
        """The type of the pointer that is assigned at ``equals``; empty if there is none."""
        tokens, i, indices = self._tokens, equals - 1, 0
        while tokens.text_at(i) == "]":
            i, indices = tokens.partner[i] - 1, indices + 1
        swizzled = tokens[i].out != tokens[i].text and tokens.text_at(i - 1) in (".", "->")
        if tokens[i].kind != "name" or swizzled or self._depth.get(tokens[i].text, 0) <= indices:
            return ""
        remaining = self._depth[tokens[i].text] - indices
        while tokens.text_at(i - 1) in (".", "->"):
            i -= 2
            while tokens.text_at(i) in ("]", ")"):
                i = tokens.partner[i]
                i -= tokens[i].text == "[" or tokens[i - 1].kind == "name"
            if tokens.text_at(i) in ("{", ","):
                return ""  # a designator
        while tokens.text_at(i - 1) in ("*", "++", "--"):
            i, remaining = i - 1, remaining - (tokens[i - 1].text == "*")
        if tokens.text_at(i - 1) == ")" and tokens.text_at(tokens.partner[i - 1] - 1) not in _HEADS:
            return ""  # there is a cast already
        plain = equals - i == 1
        left = tokens.emitted(range(i, equals))
        return "" if remaining <= 0 else f"decltype({left})" if plain else f"::oclt::value_of<decltype({left})>"

    def _cast(self, first: int, end: int, kind: str) -> None:
        tokens = self._tokens
        if first < end:
            tokens[first].out = f"({kind})({tokens[first].out}"
            tokens[end - 1].out += ")"

    def _address(self, i: int) -> None:
        """Rewrite the operand at ``i`` of a cast to an integer."""
        tokens = self._tokens
        if tokens.text_at(i) == "&":
            tokens[i].out = "(::oclt::size_t)&"
        elif self._depth.get(tokens.text_at(i), 0) and tokens.text_at(i + 1) not in ("[", "(", ".", "->", "++", "--"):
            tokens[i].out = f"::ocl::portatile_address({tokens[i].out})"
