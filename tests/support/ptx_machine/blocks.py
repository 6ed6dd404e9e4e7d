"""Basic blocks as Python functions: expressions where an instruction is a simple one, else calls of its step. Made when first run."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import CodeType
from typing import Any

from support.ptx_machine import expressions, steps
from support.ptx_machine.held import Held
from support.ptx_machine.instructions import compute
from support.ptx_machine.thread import GLOBAL_BASE, SHARED_WINDOW, Thread
from support.ptx_machine.values import bits_of

Step = Callable[[Thread, dict[str, int]], Any]
Block = Callable[[Thread, dict[str, int], dict[str, int]], Any]
"""Of a thread, its registers and the symbols: the statement to go on with, or what to wait for and the statement after that."""

_ENDS = ("bra", "ret", "exit", "bar", "barrier", "call", "shfl", "vote", "activemask", "mma", "ldmatrix", "stmatrix", "mbarrier")
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
        self.made: dict[int, tuple[Block, int]] = {}  # so far, by their first statements

    def at(self, start: int) -> tuple[Block, int]:
        """The block that begins with a statement, and the first statement behind it."""
        found = self.made.get(start)
        if found is None:
            found = self.made[start] = self._block(start)
        return found

    def _block(self, start: int) -> tuple[Block, int]:
        end = next(at for at in range(start + 1, len(self.statements) + 1) if at in self._leaders or at == len(self.statements))
        known: dict[str, Any] = {"expressions": expressions, "outside": _outside}
        held = Held({})
        for at in range(start, end):
            if at == end - 1 and self.statements[at].name in _ENDS:
                self._end(self.statements[at], at, held, known)
            else:
                self._line(self.statements[at], at, held, known)
        self._leave(held, set())
        text = "def block(t, r, y):\n" + "".join(f"    {line}\n" for line in held.lines) + f"    return {end}\n"
        exec(_compiled(text), known)
        return known["block"], end

    def _line(self, statement: Statement, at: int, held: Held, known: dict[str, Any]) -> None:
        """An instruction that others follow."""
        name, _, rest = statement.text.partition(" ")
        parts, operands = name.split("."), steps.split(rest)
        if statement.predicate is not None:
            registers = {*_registers(statement)}
            held.write_back(registers)
            condition = held.bits(statement.predicate)
            within = Held(held.places)
            self._line(replace(statement, predicate=None), at, within, known)
            within.write_back(registers)
            held.lines += [f"if {'' if statement.expected else 'not '}{condition}:", *(f"    {line}" for line in within.lines)]
            held.forget(registers)
        elif not (_memory(parts, operands, at, held, known) or _assignment(parts, operands, at, held, known)):
            registers = {*_registers(statement)}
            held.write_back(registers)
            known[f"s{at}"] = self._step(statement.text)
            held.lines.append(f"s{at}(t, y)")
            held.forget(registers)

    def _end(self, statement: Statement, at: int, held: Held, known: dict[str, Any]) -> None:
        """An instruction that jumps or waits: what other blocks and it read is written back before."""
        condition = held.bits(statement.predicate) if statement.predicate is not None else None
        if statement.name == "bra":
            self._leave(held, set())
            lines = [f"return {self.labels[statement.text.partition(' ')[2].strip()]}"]
        else:
            self._leave(held, {*_registers(statement)})
            known[f"s{at}"] = self._step(statement.text)
            lines = [f"found = s{at}(t, y)", f"if found is not None: return found, {at + 1}"]
        if condition is not None:
            lines = [f"if {'' if statement.expected else 'not '}{condition}:", *(f"    {line}" for line in lines)]
        held.lines += lines

    def _leave(self, held: Held, read: set[str]) -> None:
        """Nothing but registers of this block alone, and not ``read`` by what ends it, stays in its variables."""
        held.write_back({name for name in held.changed() if name in read or name not in held.own or name in self._shared})

    @cached_property
    def _shared(self) -> set[str]:
        """Registers of which more than one block reads or writes."""
        block, first, shared = 0, dict[str, int](), set[str]()
        for at, statement in enumerate(self.statements):
            block = at if at in self._leaders else block
            shared.update(name for name in _registers(statement) if first.setdefault(name, block) != block)
        return shared


_NO_VALUES = [
    *("mapa", "isspacep", "cvta", "ld", "st", "atom", "red", "tex", "cp", "membar", "fence", "prefetch", "griddepcontrol"),
    *("wgmma", "setmaxnreg"),
]
"""Instructions that give no value, or not as others do."""


@cache
def _compiled(text: str) -> CodeType:
    """Kernels are loaded again and again."""
    return compile(text, "<ptx>", "exec")


def _registers(statement: Statement) -> list[str]:
    """The registers that an instruction and its predicate name."""
    return [*re.findall(r"%[\w.]+", statement.text), *([statement.predicate] if statement.predicate else [])]


def _operand(operand: str, held: Held, bits: int = 64) -> str | None:
    """The bits of an operand as an expression; None for a vector."""
    if operand.startswith("{"):
        return None
    if operand.startswith("%"):
        return held.bits(operand)
    if operand.startswith("!"):
        return f"(1 - {held.bits(operand[1:])})"
    if re.match(r"0[fFdD][0-9a-fA-F]{8}", operand):
        return str(int(operand[2:], 16))
    if re.match(r"-?\d", operand):
        number = int(operand.rstrip("U"), 0)
        return str(number & (1 << 64) - 1) if number < 0 and bits >= 64 else f"({number})" if number < 0 else str(number)
    return "32" if operand == "WARP_SZ" else f"y[{operand!r}]"


def _number(operand: str, held: Held, kind: str) -> str:
    """The number that an operand's bits mean, as an expression."""
    if operand.startswith("%"):
        return held.number(operand, kind)
    value = {"f32": expressions.float_f32, "f64": expressions.float_f64}[kind](int(str(_operand(operand, held))))
    return f"({value!r})" if math.isfinite(value) else f"expressions.float_{kind}({_operand(operand, held)})"


def _assignment(parts: list[str], operands: list[str], at: int, held: Held, known: dict[str, Any]) -> bool:
    """Whether it is an arithmetic instruction; what that does is added to ``held``."""
    if parts[0] in _NO_VALUES or any(operand.startswith("{") for operand in operands):
        return False
    target = operands[0].split("|")[0]
    if expressions.of_numbers(parts):
        kind = parts[-1]
        text = expressions.floating(parts, [_number(operand, held, kind) for operand in operands[1:]])
        held.set_number(target, kind, text)
        return True
    if parts[0] == "mov" and (alone := held.is_number(operands[1])):
        held.set_number(target, alone, held.number(operands[1], alone))
        return True
    bits = bits_of(parts[-1]) if parts[-1] != "pred" else 1
    text, function = None, None
    plain = expressions.expression(parts, operands[1:])
    if plain is None and (function := compute(parts)) is None:
        return False
    given = [str(_operand(operand, held, bits)) for operand in operands[1:]]
    if plain is None:
        known[f"f{at}"] = function
        text = f"f{at}({', '.join(given)})"
    else:
        text = expressions.expression(parts, given)
    held.set_bits(target, str(text))
    return True


def _memory(parts: list[str], operands: list[str], at: int, held: Held, known: dict[str, Any]) -> bool:
    """Whether it moves numbers as they are from or to global, shared or parameter memory; what that does is added to ``held``."""
    if parts[0] == "cp":
        return _copy(parts, operands, held)
    if parts[0] not in ("ld", "st"):
        return False
    space, size = steps.space_of(parts), bits_of(parts[-1]) // 8
    if size not in _FORMATS or (parts[-1][0] == "s" and size < 8 and parts[0] == "ld"):
        return False
    place, moved = (operands[1], operands[0]) if parts[0] == "ld" else (operands[0], operands[1])
    names = steps.split(moved[1:-1]) if moved.startswith("{") else [moved]
    packed = struct.Struct(f"<{len(names)}{_FORMATS[size]}")
    known |= {f"u{at}": packed.unpack_from, f"w{at}": packed.pack_into}
    if space == "param" and parts[0] == "ld" and not place.startswith("[%"):
        name, offset = steps.parameter_of(place)
        held.set_all(names, f"u{at}(t.parameters[{name!r}], {offset})")
        return True
    values = [] if parts[0] == "ld" else [f"{_operand(name, held, 8 * size)} & {(1 << 8 * size) - 1}" for name in names]
    if not _locate(place, space, size * len(names), ".".join(parts), held):
        return False
    if parts[0] == "ld":
        held.set_all(names, f"u{at}(memory, at)")
    else:
        held.lines.append(f"w{at}(memory, at, {', '.join(values)})")
    return True


def _copy(parts: list[str], operands: list[str], held: Held) -> bool:
    """Whether it copies some bytes from global to shared memory: done at once, with zeros in place of what is not copied."""
    if parts[2] not in ("ca", "cg"):
        return False
    size, name = int(operands[2]), ".".join(parts)
    count = _operand(operands[3], held) if len(operands) > 3 else str(size)
    held.bits(operands[1].strip("[]").partition("+")[0].strip())  # before the condition, within which nothing new is held
    held.lines.append(f"count = {count}")
    before, held.lines = held.lines, []
    if not _locate(operands[1], "global", size, name, held, "count"):
        held.lines = before
        return False
    held.lines = [*before, "data = b''", "if count:", *(f"    {line}" for line in held.lines), "    data = bytes(memory[at:at + count])"]
    if not _locate(operands[0], "shared", size, name, held):
        return False
    held.lines.append(f"memory[at:at + {size}] = data.ljust({size}, b'\\0')")
    return True


def _locate(place: str, space: str, aligned: int, name: str, held: Held, nbytes: str = "") -> bool:
    """Whether an operand is an address in global or shared memory: ``memory`` and ``at`` are set to where so many bytes lie."""
    match = re.fullmatch(r"\[(%\w+)(?:\s*([+-])\s*(-?\w+))?\]", place)
    if space not in ("global", "shared") or match is None:
        return False
    offset = int(match[3] or "0", 0) * (-1 if match[2] == "-" else 1)
    if space == "global":
        held.lines += [f"at = {held.bits(match[1])} + {offset - GLOBAL_BASE}", "memory = t.machine.memory.bytes"]
    else:
        held.lines += [f"at = {held.bits(match[1])} + {offset}", "memory = t.block.shared"]
        held.lines.append(f"if at >= {SHARED_WINDOW}: memory, at = t.machine.access(t, 'shared', at)")
    held.lines.append(f"if at % {aligned} or not 0 <= at <= len(memory) - {nbytes or aligned}: outside({name!r}, at, len(memory))")
    return True


def _outside(name: str, offset: int, length: int) -> None:
    raise IndexError(f"{name}: offset {offset:#x} is misaligned or outside of memory ({length} bytes)")
