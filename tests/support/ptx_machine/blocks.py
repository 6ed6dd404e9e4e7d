"""Basic blocks as Python functions: expressions where an instruction is a simple one, else calls of its step. Made when first run."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

from support.ptx_machine import expressions, steps
from support.ptx_machine.instructions import compute
from support.ptx_machine.thread import GLOBAL_BASE, SHARED_WINDOW, Thread
from support.ptx_machine.values import bits_of

Step = Callable[[Thread, dict[str, int]], Any]
Block = Callable[[Thread, dict[str, int], dict[str, int]], Any]
"""Of a thread, its registers and the symbols: the statement to go on with, or what to wait for and the statement after that."""

_ENDS = ("bra", "ret", "exit", "bar", "barrier", "call", "shfl", "vote", "activemask", "mma", "ldmatrix", "mbarrier")
_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(frozen=True)
class Statement:
    """An instruction without its predicate."""

    predicate: str | None
    expected: bool
    text: str

    @property
    def name(self) -> str:
        return self.text.partition(" ")[0].partition(".")[0]


class Blocks:
    """The code of one function. ``step`` makes the step of a statement's text."""

    def __init__(self, statements: list[Statement], labels: dict[str, int], step: Callable[[str], Step]) -> None:
        self.statements, self.labels, self._step = statements, labels, step
        self._leaders = {0, *labels.values()} | {at + 1 for at, statement in enumerate(statements) if statement.name in _ENDS}
        self._made: dict[int, tuple[Block, int]] = {}

    def at(self, start: int) -> tuple[Block, int]:
        """The block that begins with a statement, and the first statement behind it."""
        found = self._made.get(start)
        if found is None:
            found = self._made[start] = self._block(start)
        return found

    def _block(self, start: int) -> tuple[Block, int]:
        known: dict[str, Any] = {"expressions": expressions, "outside": _outside}
        lines, at = [], start
        while True:
            lines += self._lines(self.statements[at], at, known)
            at += 1
            if at in self._leaders or at >= len(self.statements):
                break
        text = "def block(t, r, y):\n" + "".join(f"    {line}\n" for line in lines) + f"    return {at}\n"
        exec(_compiled(text), known)
        return known["block"], at

    def _lines(self, statement: Statement, at: int, known: dict[str, Any]) -> list[str]:
        name, _, rest = statement.text.partition(" ")
        parts, operands = name.split("."), steps.split(rest)
        if parts[0] == "bra":
            lines = [f"return {self.labels[operands[0]]}"]
        elif parts[0] in _ENDS:
            known[f"s{at}"] = self._step(statement.text)
            lines = [f"found = s{at}(t, y)", f"if found is not None: return found, {at + 1}"]
        else:
            lines = _memory(parts, operands, at, known) or _assignment(parts, operands, at, known)
            if not lines:
                known[f"s{at}"] = self._step(statement.text)
                lines = [f"s{at}(t, y)"]
        if statement.predicate is None:
            return lines
        return [f"if {'' if statement.expected else 'not '}r[{statement.predicate!r}]:", *(f"    {line}" for line in lines)]


_NO_VALUES = ["mapa", "isspacep", "cvta", "ld", "st", "atom", "red", "tex", "cp", "membar", "fence", "prefetch", "griddepcontrol"]
"""Instructions that give no value, or not as others do."""


@cache
def _compiled(text: str) -> CodeType:
    """Kernels are loaded again and again."""
    return compile(text, "<ptx>", "exec")


def _operand(operand: str, bits: int = 64) -> str | None:
    """An operand as an expression; None for a vector."""
    if operand.startswith("{"):
        return None
    if operand.startswith("%"):
        return f"r[{operand!r}]"
    if operand.startswith("!"):
        return f"(1 - r[{operand[1:]!r}])"
    if re.match(r"0[fFdD][0-9a-fA-F]{8}", operand):
        return str(int(operand[2:], 16))
    if re.match(r"-?\d", operand):
        number = int(operand.rstrip("U"), 0)
        return str(number & (1 << 64) - 1) if number < 0 and bits >= 64 else f"({number})" if number < 0 else str(number)
    return "32" if operand == "WARP_SZ" else f"y[{operand!r}]"


def _assignment(parts: list[str], operands: list[str], at: int, known: dict[str, Any]) -> list[str]:
    """What an arithmetic instruction does; nothing for others."""
    if operands[0].startswith("{") or parts[0] in _NO_VALUES:
        return []
    bits = bits_of(parts[-1]) if parts[-1] != "pred" else 1
    given = [_operand(operand, bits) for operand in operands[1:]]
    if any(one is None for one in given):
        return []
    target = operands[0].split("|")[0]
    text = expressions.expression(parts, [one for one in given if one is not None])
    if text is None:
        function = compute(parts)
        if function is None:
            return []
        known[f"f{at}"] = function
        text = f"f{at}({', '.join(one for one in given if one is not None)})"
    return [f"r[{target!r}] = {text}"]


def _memory(parts: list[str], operands: list[str], at: int, known: dict[str, Any]) -> list[str]:
    """Loads and stores of global and shared memory, whose numbers are not extended by their sign; nothing for others."""
    if parts[0] not in ("ld", "st"):
        return []
    space, size = steps.space_of(parts), bits_of(parts[-1]) // 8
    place, held = (operands[1], operands[0]) if parts[0] == "ld" else (operands[0], operands[1])
    match = re.fullmatch(r"\[(%\w+)(?:\s*([+-])\s*(-?\w+))?\]", place)
    if (
        space not in ("global", "shared")
        or match is None
        or size not in _FORMATS
        or (parts[-1][0] == "s" and size < 8 and parts[0] == "ld")
    ):
        return []
    names = steps.split(held[1:-1]) if held.startswith("{") else [held]
    whole = size * len(names)
    known[f"p{at}"] = packed = struct.Struct(f"<{len(names)}{_FORMATS[size]}")
    known |= {f"u{at}": packed.unpack_from, f"w{at}": packed.pack_into}
    offset = int(match[3] or "0", 0) * (-1 if match[2] == "-" else 1)
    base = GLOBAL_BASE if space == "global" else 0
    lines = [f"at = r[{match[1]!r}] + {offset - base}", f"memory = {'t.machine.memory.bytes' if space == 'global' else 't.block.shared'}"]
    if space == "shared":
        lines.append(f"if at >= {SHARED_WINDOW}: memory, at = t.machine.access(t, 'shared', at)")
    lines.append(f"if at % {whole} or not 0 <= at <= len(memory) - {whole}: outside({'.'.join(parts)!r}, at, len(memory))")
    if parts[0] == "ld":
        targets = ", ".join(f"r[{name!r}]" for name in names)
        return [*lines, f"{targets}, = u{at}(memory, at)"]
    values = [_operand(name, 8 * size) for name in names]
    if any(value is None for value in values):
        return []
    return [*lines, f"w{at}(memory, at, {', '.join(f'{value} & {(1 << 8 * size) - 1}' for value in values)})"]


def _outside(name: str, offset: int, length: int) -> None:
    raise IndexError(f"{name}: offset {offset:#x} is misaligned or outside of memory ({length} bytes)")
