"""What the TMA of compute capability 9.0 does: barriers that count arrivals and bytes, and copies of boxes by tensor maps."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from support.ptx_machine import steps
from support.ptx_machine.thread import GLOBAL_BASE, WINDOW, Thread, UnsupportedInstructionError
from support.ptx_machine.values import signed

_WAIT = re.compile(r"\{ \.reg \.pred p; (mbarrier\.try_wait\.\S+) p, ([^;]*); selp\.u32 (%\w+), 1, 0, p; \}")
_LINE, _CHUNK = 128, 16  # bytes
_MAP = 128
PARAMETER = 128
"""Bytes from one kernel parameter's address to the next one's."""


def without_scopes(ptx: str) -> str:
    """PTX whose waits for a barrier give the register that was selected by their predicate."""
    return _WAIT.sub(r"\1 \3, \2;", ptx)


@dataclass
class Barrier:
    """An ``mbarrier``: who has yet to arrive, the bytes that have yet to come, and the parity of the phase that has not ended."""

    count: int
    pending: int
    expected: int = 0
    phase: int = 0

    def change(self, arrived: int, expected: int) -> None:
        """So many more have arrived, and so many more bytes are to come, or have come."""
        assert arrived <= self.pending, "more arrive at a barrier than it counts"
        self.pending -= arrived
        self.expected += expected
        if self.pending == 0 and self.expected == 0:
            self.phase, self.pending = 1 - self.phase, self.count


def barrier_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], str | None]:
    """``mbarrier.init``, ``arrive``, ``arrive.expect_tx`` and ``try_wait.parity``, which lets the others run where it has to wait."""
    waits = parts[1] == "try_wait"
    at = steps.address_of(operands[0] if parts[1] == "init" else operands[1])
    number = steps.reader_of(operands[-1]) if len(operands) > (1 if parts[1] == "init" else 2) else lambda thread, symbols: 0
    if parts[1] not in ("init", "arrive", "try_wait"):
        raise UnsupportedInstructionError(".".join(parts))

    def run(thread: Thread, symbols: dict[str, int]) -> str | None:
        place, value = at(thread, symbols), number(thread, symbols)
        assert place % 8 == 0, "misaligned barrier"
        if parts[1] == "init":
            thread.block.barriers[place] = Barrier(value, value)
        elif waits:
            ended = thread.block.barriers[place].phase != value
            thread.registers[operands[0]] = int(ended)
            return None if ended else "again"
        else:
            thread.block.barriers[place].change(1, value)
        return None

    return run


def copied_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    """``cp.async.mbarrier.arrive.noinc``: what was copied is there, so it arrives at once."""
    if parts[3:5] != ["arrive", "noinc"]:
        raise UnsupportedInstructionError(".".join(parts))
    at = steps.address_of(operands[0])
    return lambda thread, symbols: thread.block.barriers[at(thread, symbols)].change(1, 0)


def box_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    """A copy of a box of two dimensions, rows of 128 bytes whose chunks are exchanged; what lies outside of the matrix is zeros."""
    if "2d" not in parts or "multicast::cluster" in parts:
        raise UnsupportedInstructionError(".".join(parts))
    target, barrier = steps.address_of(operands[0]), steps.address_of(operands[2])
    source, corner = steps.split(operands[1][1:-1])
    where, (column_of, row_of) = steps.reader_of(source), (steps.reader_of(one) for one in steps.split(corner[1:-1]))

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        number = (where(thread, symbols) - WINDOW["param"]) // PARAMETER
        kept = bytes(list(thread.parameters.values())[number])
        address, form = thread.machine.memory.maps[int.from_bytes(kept[:8], "little")]
        column, row = (signed(read(thread, symbols), 32) for read in (column_of, row_of))
        to, at = thread.machine.access(thread, "shared", target(thread, symbols))
        assert at % _LINE == 0, "a misaligned box"
        memory, size, wide = thread.machine.memory.bytes, form.itemsize, form.wide * form.itemsize
        for line in range(form.high):
            data = bytearray(wide)
            if 0 <= row + line < form.rows:
                begin, end = max(column, 0), min(column + form.wide, form.columns)
                if begin < end:
                    start = address - GLOBAL_BASE + form.offset + (row + line) * form.pitch + begin * size
                    data[(begin - column) * size : (end - column) * size] = memory[start : start + (end - begin) * size]
            for chunk in range(0, wide, _CHUNK):
                spot = at + line * _LINE + chunk
                spot ^= (spot // _LINE % 8) * _CHUNK
                to[spot : spot + _CHUNK] = data[chunk : chunk + _CHUNK]
        thread.block.barriers[barrier(thread, symbols)].change(0, -form.high * wide)

    return run


def map_bytes(number: int) -> bytes:
    """What stands for the tensor map of this number."""
    return number.to_bytes(8, "little").ljust(_MAP, b"\xcb")
