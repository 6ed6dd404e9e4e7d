"""The instructions of a kernel for an x86 processor, from ``objdump``'s listing, by family and by kind.

Counts are static: an instruction in a loop counts once. Names are those of AT&T syntax. A kind is the mnemonic with the width of its vector
registers, such as ``vfmadd.ps.ymm`` or ``load.ymm``; the three operand orders of a fused multiply-add count as one kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\t(?:(?:lock|rep[nz]*|data16|cs|notrack|bnd|addr32) )*([a-z]\w*)\s*(.*)$")
_REGISTER = re.compile(r"%([xyz]mm)\d+")
_FUSED = re.compile(r"(vf(?:n?madd|n?msub|maddsub|msubadd))\d{3}([ps][sdh])")
_ENDING = re.compile(r"(?:[ps][sdh])$")

_FAMILIES = (  # the first match decides
    ("call", r"call"),
    ("control", r"j[a-z]+|ret|loop"),
    ("special", r"v?(sqrt|rsqrt|rcp|div)"),
    ("compare", r"v?u?comi|v?cmp|cmp|test|set[a-z]+|cmov|v?ptest|vpcmp|kortest"),
    ("convert", r"v?cvt|v?round|cvt"),
    ("gather", r"v?p?gather|v?p?scatter"),
    ("shuffle", r"v?p?(shuf|perm|unpck|blend|insert|extract|broadcast|align|movs[hl]dup|movddup|sll?dq|srldq)|vpack|v?movmsk"),
    ("mask", r"k[a-z]+"),
    ("padding", r"nop|xchg|int3|endbr|ud2|vzero"),
    ("stack", r"push|pop|leave|enter"),
)
_FAMILY = tuple((family, re.compile(f"(?:{pattern})")) for family, pattern in _FAMILIES)
_MOVE = re.compile(r"v?mov|lddqu|v?lddqu")
_FLOAT = re.compile(r"v?(?:add|sub|mul|min|max|and|andn|or|xor|hadd|hsub|dp|f[n]?m(?:add|sub)|fmaddsub|fmsubadd|fnm)\w*[ps][sdh]$")


@dataclass(frozen=True)
class X86:
    """One instruction: the function that contains it, its family and its kind.

    Families: ``float`` arithmetic, ``integer``, ``special`` (roots, divisions), ``load``, ``store``, ``move``, ``stack`` (spilled, pushed),
    ``shuffle``, ``gather``, ``compare``, ``convert``, ``mask``, ``call``, ``control``, ``padding``.
    """

    function: str
    family: str
    kind: str


def instructions(assembly: str) -> Iterator[X86]:
    """Every instruction of a listing, in order."""
    function = ""
    for line in assembly.splitlines():
        if match := _FUNCTION.match(line):
            function = match.group(1)
        elif match := _INSTRUCTION.match(line):
            family, kind = _sort(match.group(1), match.group(2).partition("#")[0].strip())
            yield X86(function, family, kind)


def _sort(name: str, operands: str) -> tuple[str, str]:
    """Family and kind of an instruction."""
    wide = _REGISTER.search(operands)
    width = f".{wide.group(1)}" if wide else ""
    if _MOVE.match(name) and not name.startswith(("movmsk", "vmovmsk", "vmovddup", "movddup", "vmovs", "movsb", "movsh", "movsl", "movsw")):
        return _moved(operands, width)
    if name.startswith(("vmovs", "movs")) and "%" in operands:  # a move of one element, or a sign extension
        return _moved(operands, width if "mm" in width else "")
    if fused := _FUSED.fullmatch(name):
        return "float", f"{fused.group(1)}.{fused.group(2)}{width}"
    for family, pattern in _FAMILY:
        if pattern.match(name):
            return family, f"{name}{width}"
    if _FLOAT.match(name):
        ending = _ENDING.search(name)
        return "float", f"{name[: -len(ending.group())]}.{ending.group()}{width}" if ending else f"{name}{width}"
    return "integer", f"{name}{width}"


def _moved(operands: str, width: str) -> tuple[str, str]:
    """The family and kind of a move: AT&T syntax names the source first; accesses relative to the stack are spills or private arrays."""
    source, _, target = _split(operands)
    memory = next((text for text in (source, target) if "(" in text), "")
    if memory and re.search(r"%r[sb]p", memory):
        return "stack", f"{'load' if memory is source else 'store'}.stack{width}"
    if memory:
        return ("load", f"load{width}") if memory is source else ("store", f"store{width}")
    return "move", f"move{width}"


def _split(operands: str) -> tuple[str, str, str]:
    """Source and target, split at the last comma outside of parentheses."""
    depth = 0
    for place in range(len(operands) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(operands[place], 0)
        if operands[place] == "," and depth == 0:
            return operands[:place], ",", operands[place + 1 :]
    return operands, "", ""
