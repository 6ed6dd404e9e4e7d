"""Instructions that touch memory, other lanes or control: from a statement to a function of a thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from support.ptx_machine.instructions import compute
from support.ptx_machine.matrix import multiply
from support.ptx_machine.thread import UNDEFINED, WARP, WINDOW, Registers, Thread, UnsupportedInstructionError
from support.ptx_machine.values import bits_of, from_float, signed, to_float


def split(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            found.append(text[start:i].strip())
            start = i + 1
    return [*found, text[start:].strip()]


def reader_of(operand: str, bits: int = 64) -> Callable[[Thread, dict[str, int]], int]:
    """A function that gives the bit pattern of an operand."""
    if operand.startswith("{"):
        parts = [reader_of(p) for p in split(operand[1:-1])]
        width = bits // len(parts)
        return lambda thread, symbols: sum((r(thread, symbols) & ((1 << width) - 1)) << (width * i) for i, r in enumerate(parts))
    if operand.startswith("%"):  # a register without a value may be read where the result is not used
        return lambda thread, symbols: thread.registers.get(operand, UNDEFINED)
    if operand.startswith("!"):
        return lambda thread, symbols: 1 - thread.registers[operand[1:]]
    if re.match(r"0[fFdD][0-9a-fA-F]{8}", operand):
        value = int(operand[2:], 16)
        return lambda thread, symbols: value
    if re.match(r"-?\d", operand):
        number = int(operand.rstrip("U"), 0)
        return lambda thread, symbols: number
    if operand == "WARP_SZ":
        return lambda thread, symbols: WARP
    return lambda thread, symbols: symbols[operand]


def registers_of(names: Sequence[str]) -> Callable[[Registers], tuple[int, ...]]:
    """A function that gives the bit patterns of registers."""
    if not all(name.startswith("%") for name in names):
        raise UnsupportedInstructionError(f"numbers in place of registers: {names}")
    if len(names) == 1:
        return lambda registers: (registers[names[0]],)
    return itemgetter(*names)


def _write(thread: Thread, register: str, value: int) -> None:
    if register != "_":
        thread.registers[register] = value


def assign(target: str, function: Callable[..., int], operands: list[str], bits: int = 64) -> Callable[[Thread, dict[str, int]], None]:
    readers = [reader_of(o, bits) for o in operands]
    name = target.split("|")[0]
    masked = bits < 64

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        values = [r(thread, symbols) for r in readers]
        result = function(*[v & ((1 << 64) - 1) if v < 0 and not masked else v for v in values])
        thread.registers[name] = result

    return run


def unpack(operands: list[str], bits: int) -> Callable[[Thread, dict[str, int]], None]:
    names = split(operands[0][1:-1])
    read, width = reader_of(operands[1]), bits // len(names)

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        value = read(thread, symbols)
        for i, name in enumerate(names):
            _write(thread, name, value >> (width * i) & ((1 << width) - 1))

    return run


def address_of(operand: str) -> Callable[[Thread, dict[str, int]], int]:
    base, sign, offset = re.fullmatch(r"\[([%\w$]+)(?:\s*([+-])\s*(-?\w+))?\]", operand).groups()  # type: ignore[union-attr]
    read, more = reader_of(base), int(offset or "0", 0) * (-1 if sign == "-" else 1)
    return lambda thread, symbols: read(thread, symbols) + more


def space_of(parts: list[str]) -> str:
    """The memory that an instruction names; empty for the generic one."""
    spaces = (part.partition("::")[0] for part in parts[1:])
    return next((space for space in spaces if space in ("global", "shared", "const", "local", "param")), "")


def _vector(parts: list[str], operand: str) -> tuple[int, list[str]]:
    return bits_of(parts[-1]) // 8, split(operand[1:-1]) if operand.startswith("{") else [operand]


def parameter_of(operand: str) -> tuple[str, int]:
    """The name and the offset of an operand in parameter memory."""
    name, _, offset = operand[1:-1].partition("+")
    return name.strip(), int(offset or "0", 0)


def load_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    size, names = _vector(parts, operands[0])
    extend = parts[-1][0] == "s"
    space = space_of(parts)
    if space == "param" and not operands[1].startswith("[%"):
        name, offset = parameter_of(operands[1])

        def locate(thread: Thread, symbols: dict[str, int]) -> tuple[bytearray, int]:
            return thread.parameters[name], offset

    else:
        address = address_of(operands[1])

        def locate(thread: Thread, symbols: dict[str, int]) -> tuple[bytearray, int]:
            place = address(thread, symbols)
            assert place % (size * len(names)) == 0, f"misaligned load {parts} at {place:#x}"
            return thread.machine.access(thread, space, place)

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        memory, at = locate(thread, symbols)
        assert at + size * len(names) <= len(memory), "load past the end of memory"
        for i, target in enumerate(names):
            value = int.from_bytes(memory[at + i * size : at + (i + 1) * size], "little")
            _write(thread, target, signed(value, 8 * size) & ((1 << 64) - 1) if extend and size < 8 else value)

    return run


def store_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    size, names = _vector(parts, operands[1])
    readers = [reader_of(n) for n in names]
    space = space_of(parts)
    mask = (1 << (8 * size)) - 1
    if space == "param":
        name, offset = parameter_of(operands[0])

        def run_parameter(thread: Thread, symbols: dict[str, int]) -> None:
            memory = thread.parameters.setdefault(name, bytearray(16))
            for i, read in enumerate(readers):
                memory[offset + i * size : offset + (i + 1) * size] = (read(thread, symbols) & mask).to_bytes(size, "little")

        return run_parameter
    address = address_of(operands[0])

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        place = address(thread, symbols)
        assert place % (size * len(names)) == 0, f"misaligned store {parts} at {place:#x}"
        memory, at = thread.machine.access(thread, space, place)
        assert at + size * len(names) <= len(memory), "store past the end of memory"
        for i, read in enumerate(readers):
            memory[at + i * size : at + (i + 1) * size] = (read(thread, symbols) & mask).to_bytes(size, "little")

    return run


def atomic_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    kind, space = parts[-1], space_of(parts)
    operation = next(p for p in parts[1:] if p in ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"))
    size = bits_of(kind) // 8
    if parts[0] == "red":
        operands = ["_", *operands]
    address, readers = address_of(operands[1]), [reader_of(o) for o in operands[2:]]
    special: dict[str, Callable[..., int]] = {
        "exch": lambda a, b: b,
        "cas": lambda a, b, c: c if a == b & ((1 << (8 * size)) - 1) else a,
        "inc": lambda a, b: 0 if a >= b else a + 1,
    }
    combine = special.get(operation) or compute([operation, kind])
    assert combine is not None

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        memory, at = thread.machine.access(thread, space, address(thread, symbols))
        old = int.from_bytes(memory[at : at + size], "little")
        new = combine(old, *[r(thread, symbols) for r in readers]) & ((1 << (8 * size)) - 1)
        memory[at : at + size] = new.to_bytes(size, "little")
        _write(thread, operands[0], old)

    return run


def texture_step(operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    """Whole coordinates, zero outside; channels that are not there are left as poison."""
    names = split(operands[0][1:-1])
    handle_text, place = split(operands[1][1:-1])
    handle = reader_of(handle_text)
    x_read, *rest = (reader_of(o) for o in split(place[1:-1]))

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        address, form, row = thread.machine.memory.textures[handle(thread, symbols)]
        x, y = signed(x_read(thread, symbols), 32), signed(rest[0](thread, symbols), 32) if rest else 0
        inside = 0 <= x < form.width and 0 <= y < form.height
        size = form.pixel // form.channels
        for c, name in enumerate(names):
            value = 0xCBCBCBCB if c >= form.channels else 0
            if inside and c < form.channels:
                raw = thread.machine.memory.read(address + y * row + x * form.pixel + c * size, size)
                value = int.from_bytes(raw, "little", signed=form.dtype[0] == "i") & 0xFFFFFFFF
                if form.normalized:
                    most = 2 ** (8 * size - (form.dtype[0] == "i")) - 1
                    value = from_float(max(signed(value, 32) / most, -1.0), "f32")
                elif form.dtype == "float16":
                    value = from_float(to_float(value, "f16"), "f32")
            _write(thread, name, value)

    return run


def copy_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    if parts[2] != "ca" and parts[2] != "cg":
        return lambda thread, symbols: None  # groups: every copy is done at once
    target, source, size = address_of(operands[0]), address_of(operands[1]), int(operands[2])
    given = reader_of(operands[3]) if len(operands) > 3 else lambda thread, symbols: size

    def run(thread: Thread, symbols: dict[str, int]) -> None:
        count = given(thread, symbols)
        to, at = thread.machine.access(thread, "shared", target(thread, symbols))
        assert at % size == 0, "misaligned copy"
        data = b""
        if count:
            memory, start = thread.machine.access(thread, "global", source(thread, symbols))
            assert start % size == 0, "misaligned copy"
            data = bytes(memory[start : start + count])
        to[at : at + size] = data.ljust(size, b"\0")

    return run


def shuffle_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], str]:
    mode = parts[2]
    target = operands[0].split("|")[0]
    value, source, clamp = (reader_of(o) for o in operands[1:4])

    def run(thread: Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, lane = thread.turn, thread.lane
        thread.block.exchange[thread.linear, turn] = value(thread, symbols)
        by, limit = source(thread, symbols), clamp(thread, symbols) & 31
        other = {"idx": by & 31, "bfly": lane ^ by, "down": lane + by, "up": lane - by}[mode]
        inside = other >= limit if mode == "up" else other <= limit
        base = thread.linear - lane

        def resume(thread: Thread) -> None:
            chosen = other if inside else lane
            thread.registers[target] = thread.block.exchange.get((base + chosen, turn), 0)

        thread.resume = resume
        return "shuffle"

    return run


def vote_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], str]:
    """``vote.sync.all``, ``any`` and ``ballot`` over the lanes of the mask; ``activemask`` where all lanes come by."""
    combine = {"all": all, "any": any}.get(parts[-2])
    value, mask = (reader_of(operand) for operand in (operands[1:3] or ("1", "0xffffffff")))

    def run(thread: Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, base = thread.turn, thread.linear - thread.lane
        thread.block.exchange[thread.linear, turn] = value(thread, symbols)
        lanes = mask(thread, symbols)

        def resume(thread: Thread) -> None:
            votes = {lane: thread.block.exchange.get((base + lane, turn), 0) for lane in range(WARP) if lanes >> lane & 1}
            thread.registers[operands[0]] = int(combine(votes.values())) if combine else sum(bool(v) << lane for lane, v in votes.items())

        thread.resume = resume
        return "shuffle"

    return run


def matrix_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], str]:
    shape = next(p for p in parts if re.fullmatch(r"m\d+n8k\d+", p))
    target_kind, a_kind, b_kind, c_kind = parts[-4:]
    if a_kind != b_kind or target_kind != c_kind or c_kind not in ("f32", "f64", "s32"):
        raise UnsupportedInstructionError(".".join(parts))
    targets, *given = ([one.strip() for one in split(operand.strip("{}"))] for operand in operands)
    read = [registers_of(names) for names in given]

    def run(thread: Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, base = thread.turn, thread.linear - thread.lane
        thread.block.exchange[thread.linear, turn] = [one(thread.registers) for one in read]

        def resume(thread: Thread) -> None:
            products = thread.block.products.get((base, turn))
            if products is None:  # the first lane of the warp to come here
                everyone = [thread.block.exchange.pop((base + lane, turn)) for lane in range(WARP)]
                products = thread.block.products[base, turn] = multiply(shape, a_kind, c_kind, everyone)
            thread.registers.update(zip(targets, products[thread.lane], strict=True))

        thread.resume = resume
        return "shuffle"

    return run


def fragment_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], str]:
    """``ldmatrix`` of four squares of 8 x 8 elements of 16 bits: lane l gives the address of row l % 8 of square l / 8."""
    if parts[1:5] != ["sync", "aligned", "m8n8", "x4"]:
        raise UnsupportedInstructionError(".".join(parts))
    targets, source, across = split(operands[0].strip("{}")), address_of(operands[1]), "trans" in parts

    def run(thread: Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, base, lane = thread.turn, thread.linear - thread.lane, thread.lane
        thread.block.exchange[thread.linear, turn] = source(thread, symbols)

        def half(thread: Thread, square: int, row: int, column: int) -> int:
            memory, at = thread.machine.access(thread, "shared", thread.block.exchange[base + 8 * square + row, turn])
            assert at % 16 == 0, "misaligned row of a matrix"
            return int.from_bytes(memory[at + 2 * column : at + 2 * column + 2], "little")

        def resume(thread: Thread) -> None:
            for square, target in enumerate(targets):
                line, first = lane // 4, lane % 4 * 2
                places = [(first, line), (first + 1, line)] if across else [(line, first), (line, first + 1)]
                low, high = (half(thread, square, *place) for place in places)
                thread.registers[target.strip()] = low | high << 16

        thread.resume = resume
        return "shuffle"

    return run


def address_step(parts: list[str], operands: list[str]) -> Callable[[Thread, dict[str, int]], None]:
    space = space_of(parts)
    window = WINDOW.get(space, 0)
    return assign(operands[0], (lambda a: a - window if window <= a else a) if "to" in parts else (lambda a: a + window), operands[1:])


def call(text: str) -> Callable[[Thread, dict[str, int]], Any]:
    match = re.fullmatch(r"(?:\(([^)]*)\)\s*,\s*)?([\w$]+)\s*,\s*\(([^)]*)\)", text.strip())
    if not match:
        raise UnsupportedInstructionError(f"call {text}")
    results = [r.strip() for r in (match[1] or "").split(",") if r.strip()]
    given = [g.strip() for g in match[3].split(",") if g.strip()]
    outcome = (match[2], given, results)
    return lambda thread, symbols: outcome
