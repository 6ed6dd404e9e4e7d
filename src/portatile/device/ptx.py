"""The instructions of a PTX text, counted by family and by kind.

Counts are static: an instruction in a loop counts once, and a branch that is never taken counts too. Virtual registers (``.reg``) are not
counted, since they say nothing about hardware registers. The grammar is that of the PTX ISA manual.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LINE_INFO = re.compile(r"^\s*\.(?:loc|file)\b[^\n]*$", re.MULTILINE)  # the only directives inside a body that do not end with a semicolon
_FUNCTION = re.compile(r"\.(entry|func)\b\s*(?:\.noreturn\s*)?(?:\([^)]*\)\s*)?([\w$%]+)")
_LABEL = re.compile(r"\s*[\w$%]+\s*:(?!:)")
_STATEMENT = re.compile(r"(?:@!?[\w$%]+\s+)?([a-z]\w*(?:\.[\w:]+)*)")

_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f32x2", "f64")
_TYPES = (*_FLOATS, "pred", *(f"{letter}{bits}" for letter in "sub" for bits in (8, 16, 32, 64, 128)), "s16x2", "u16x2")
_SPACES = ("param", "const", "global", "shared", "local")

_SPECIAL = ("sqrt", "rsqrt", "rcp", "sin", "cos", "ex2", "lg2", "tanh")
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "special": _SPECIAL,
    "matrix": ("mma", "wmma", "wgmma", "tcgen05"),
    "load": ("ld", "ldu", "ldmatrix"),
    "store": ("st", "stmatrix"),
    "atomic": ("atom", "red", "multimem"),
    "texture": ("tex", "tld4", "txq", "suld", "sust", "sured", "suq"),
    "barrier": ("bar", "barrier", "membar", "fence", "mbarrier"),
    "compare": ("setp", "set", "selp", "slct"),
    "convert": ("cvt", "cvta", "cvt_pack"),
    "move": ("mov", "mapa", "getctarank", "isspacep", "istypep"),
    "warp": ("shfl", "vote", "match", "redux", "activemask", "elect"),
    "control": ("bra", "brx", "call", "ret", "exit", "trap", "brkpt", "nanosleep", "pmevent"),
    "prefetch": ("prefetch", "prefetchu", "discard", "applypriority", "createpolicy"),
}
_FAMILY_OF = {opcode: family for family, opcodes in _FAMILIES.items() for opcode in opcodes}


@dataclass(frozen=True)
class PtxInstruction:
    """One instruction: the function that contains it and its dotted name, such as ``fma.rn.f32``."""

    function: str
    name: str

    @property
    def opcode(self) -> str:
        """The part before the first dot."""
        return self.name.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The parts after the first dot; of ``shared::cta`` only ``shared``."""
        return tuple(part.partition("::")[0] for part in self.name.split(".")[1:])

    @property
    def type(self) -> str:
        """The type that decides the family: the last one that PTX writes; empty for instructions without types."""
        return next((part for part in reversed(self.modifiers) if part in _TYPES), "")

    @property
    def family(self) -> str:
        """The unit that executes the instruction.

        ``float16``, ``float32``, ``float64`` arithmetic, ``integer``, ``special`` functions, ``matrix``, ``load``, ``store``,
        ``atomic``, ``copy`` (asynchronous), ``texture``, ``barrier``, ``compare``, ``convert``, ``move``, ``warp``, ``control``,
        ``prefetch``.
        """
        if self.opcode == "cp":
            return "copy" if "async" in self.modifiers else "move"
        if self.opcode in _FAMILY_OF:
            return _FAMILY_OF[self.opcode]
        if self.type in _FLOATS:
            return {"f64": "float64", "f32": "float32", "f32x2": "float32", "tf32": "float32"}.get(self.type, "float16")
        return "integer"

    @property
    def kind(self) -> str:
        """The name without insignificant modifiers: ``fma.f32``, ``ld.global.nc.v4``, ``sqrt.rn.f32``, ``cvt.f32.s32``, ``bra``."""
        family, parts = self.family, self.modifiers
        if self.opcode.endswith("matrix"):
            return self.opcode
        if family in ("load", "store", "atomic"):
            space = next((part for part in parts if part in _SPACES), "generic")
            extra = [part for part in parts if part == "nc" or re.fullmatch(r"v[248]", part)]
            return ".".join([self.opcode, space, *extra])
        if family == "special" or (self.opcode == "div" and self.type in _FLOATS):
            return self.name
        if family == "convert":
            return ".".join([self.opcode, *(part for part in parts if part in _TYPES)])
        if family in ("copy", "matrix"):
            return ".".join([self.opcode, *parts[:1]])
        return f"{self.opcode}.{self.type}" if self.type and family not in ("control", "barrier", "warp", "texture") else self.opcode


@dataclass(frozen=True)
class Counts:
    """The number of instructions of each family and of each kind."""

    families: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of instructions."""
        return sum(self.families.values())

    @property
    def local(self) -> int:
        """Accesses to local memory (in CUDA's sense): spilled registers, indexed private arrays, slow paths of sin and cos."""
        return sum(n for kind, n in self.kinds.items() if kind.startswith(("ld.local", "st.local")))


def instructions(text: str) -> Iterator[PtxInstruction]:
    """Every instruction of a PTX text, in order."""
    text = _LINE_INFO.sub("", _COMMENT.sub(lambda match: '""' if match.group(1) else " ", text))
    place = 0
    while match := _FUNCTION.search(text, place):
        opening, ending = text.find("{", match.end()), text.find(";", match.end())
        if opening < 0 or 0 <= ending < opening:  # a declaration without a body
            place = match.end()
            continue
        place = _closing(text, opening)
        for statement in text[opening + 1 : place].split(";"):
            name = _name(statement)
            if name:
                yield PtxInstruction(match.group(2), name)


def count(listed: Iterable[PtxInstruction]) -> Counts:
    """Families and kinds of ``listed``, the most frequent first.

    Examples:
        >>> counts = count(instructions(".entry f() { mul.rn.f32 %f1, %f2, %f3; ret; }"))
        >>> counts.families
        {'float32': 1, 'control': 1}
    """
    listed = list(listed)
    families = Counter(instruction.family for instruction in listed)
    kinds = Counter(instruction.kind for instruction in listed)
    return Counts(dict(families.most_common()), dict(kinds.most_common()))


def functions(text: str) -> dict[str, Counts]:
    """The counts of each kernel and device function of a PTX text, by symbol."""
    grouped: dict[str, list[PtxInstruction]] = {}
    for instruction in instructions(text):
        grouped.setdefault(instruction.function, []).append(instruction)
    return {symbol: count(listed) for symbol, listed in grouped.items()}


def _closing(text: str, opening: int) -> int:
    """The index of the brace that closes the one at ``opening``; the end of the text if it is unfinished."""
    depth = 0
    for brace in re.compile("[{}]").finditer(text, opening):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return len(text)


def _name(statement: str) -> str:
    """The dotted name of a statement's instruction; empty for directives and blanks."""
    statement = statement.lstrip("{} \t\r\n")
    while label := _LABEL.match(statement):
        statement = statement[label.end() :].lstrip("{} \t\r\n")
    match = _STATEMENT.match(statement)
    return match.group(1) if match else ""
