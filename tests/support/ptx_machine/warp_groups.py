"""What a warp group of compute capability 9.0 does together: products straight from local memory, and fragments stored to it."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from support.ptx_machine import steps
from support.ptx_machine.matrix import EIGHT_BITS, cut, elements
from support.ptx_machine.thread import WARP, Thread, UnsupportedInstructionError
from support.ptx_machine.values import from_float, to_float

_GROUP, _ROWS = 4 * WARP, 64
_LINE, _CHUNK = 128, 16  # bytes
_PRODUCT = re.compile(r"\{ \.reg \.pred p; setp\.ne\.b32 p, (%?\w+), 0; (wgmma\.mma_async\.\S+) ([^;]*), p((?:, [01])*); \}")
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


def without_scopes(ptx: str) -> str:
    """PTX whose products name the register that says whether they add, in place of a predicate made of it."""
    return _PRODUCT.sub(r"\2 \3, \1\4;", ptx)


def group_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    """``wgmma``: a product is done at once, so that nothing is left to fence, commit or wait for."""
    if parts[1] != "mma_async":
        return lambda thread, symbols: None
    shape = next(match for part in parts if (match := _SHAPE.fullmatch(part)))
    columns, depth, kind, c_kind = int(shape[1]), int(shape[2]), parts[-1], parts[-3]
    names = steps.split(operands[0][1:-1])
    if len(names) != columns // 2 or operands[1].startswith("{"):
        raise UnsupportedInstructionError(".".join(parts))
    reads = [steps.reader_of(operand) for operand in operands[1:4]]
    across = [operand == "1" for operand in operands[6:8]] if len(operands) > 6 else [False, False]

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        thread.turn += 1
        a, b, adds = (read(thread, symbols) for read in reads)
        group, item = divmod(thread.linear, _GROUP)
        key = (-1 - group, thread.turn)
        found = thread.block.products.get(key)
        if found is None:  # the first of the group to come here
            sides = [_tile(thread, at, rows, depth, kind, slow) for at, rows, slow in ((a, _ROWS, across[0]), (b, columns, across[1]))]
            found = thread.block.products[key] = _terms(sides[0], sides[1], kind)
        warp, lane = divmod(item, WARP)
        for place, name in enumerate(names):
            row, column = warp * 16 + lane // 4 + place // 2 % 2 * 8, place // 4 * 8 + lane % 4 * 2 + place % 2
            before = thread.registers.get(name, 0) if adds else 0
            thread.registers[name] = _added(before, found[row][column], kind, c_kind)

    return run


def _tile(thread: Thread, operand: int, rows: int, depth: int, kind: str, across: bool) -> NDArray[np.float64]:
    """The ``rows`` x ``depth`` elements of an operand; ``across``: of lines that lie across k."""
    start, leading, stride = ((operand >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(kind, 1)
    row, step = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    if across:
        at = start + row // 64 * leading + step // 8 * stride + step % 8 * _LINE + row % 64 * size
    else:
        at = start + row // 8 * stride + row % 8 * _LINE + step * size
    at = at ^ (at // _LINE % 8 * _CHUNK)
    memory = np.frombuffer(thread.block.shared, np.uint8)
    bits = sum(memory[at + byte].astype(np.uint64) << np.uint64(8 * byte) for byte in range(size))
    known = {int(one): _value(int(one), kind) for one in np.unique(bits)}
    return np.vectorize(known.__getitem__, otypes=[np.float64])(bits)


def _value(bits: int, kind: str) -> float:
    if kind == "s8":
        return float(bits - 256 if bits > 127 else bits)
    if kind in EIGHT_BITS:
        return float(elements([bits], kind)[0])
    return {
        "f16": lambda: to_float(bits, "f16"),
        "bf16": lambda: to_float(bits << 16, "f32"),
        "tf32": lambda: to_float(bits & ~0x1FFF, "f32"),
    }[kind]()


def _terms(a: NDArray[np.float64], b: NDArray[np.float64], kind: str) -> list[list[object]]:
    """Of each element the sum of its products; of floats of eight bits, whose sums are cut together with what they are added to, a list."""
    if kind in EIGHT_BITS:
        return [[(one * other).tolist() for other in b] for one in a]
    return (a @ b.T).tolist()  # type: ignore[no-any-return]


def _added(before: int, terms: object, kind: str, c_kind: str) -> int:
    if c_kind == "s32":
        return int(before + int(terms)) & 0xFFFFFFFF  # type: ignore[call-overload, no-any-return]
    start = to_float(before, "f32")
    return from_float(cut([start, *terms]) if kind in EIGHT_BITS else start + terms, "f32")  # type: ignore[misc, operator]


def store_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], str]:
    """``stmatrix`` of four squares of 8 x 8 elements of 16 bits: lane l gives the address of row l % 8 of square l / 8."""
    if parts[1:5] != ["sync", "aligned", "m8n8", "x4"] or "trans" in parts:
        raise UnsupportedInstructionError(".".join(parts))
    target, sources = steps.address_of(operands[0]), [steps.reader_of(one) for one in steps.split(operands[1].strip("{}"))]

    def run(thread: Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, base, lane = thread.turn, thread.linear - thread.lane, thread.lane
        thread.block.exchange[thread.linear, turn] = target(thread, symbols)
        words = [read(thread, symbols) & 0xFFFFFFFF for read in sources]

        def resume(thread: Thread) -> None:
            for square, word in enumerate(words):
                memory, at = thread.machine.access(thread, "shared", thread.block.exchange[base + 8 * square + lane // 4, turn])
                assert at % _CHUNK == 0, "misaligned row of a matrix"
                at += lane % 4 * 4
                memory[at : at + 4] = word.to_bytes(4, "little")

        thread.resume = resume
        return "shuffle"

    return run
