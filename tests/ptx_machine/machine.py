"""The machine: parses a PTX module, lays out its memory and runs the threads of a block in turn from barrier to barrier."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptx_machine.instructions import compute
from ptx_machine.matrix import multiply
from ptx_machine.values import bits_of, from_float, signed, to_float

WARP = 32
# Generic addresses: each space has a window of its own, global addresses are themselves.
WINDOW = {"shared": 0x7000_0000_0000, "local": 0x7100_0000_0000, "const": 0x7200_0000_0000, "param": 0x7300_0000_0000}
GLOBAL_BASE = 0x1000_0000

_DECLARED = re.compile(
    r"\.(const|global|shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?(?:\s*=\s*\{?([^;{}]*)\}?)?\s*$"
)
_FUNCTION = re.compile(r"\.(entry|func)\s+(?:\(([^)]*)\)\s*)?([\w$]+)\s*\(([^)]*)\)[^{;]*\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?([\w$]+)(?:\[(\d+)\])?")


class UnsupportedInstructionError(Exception):
    """The machine does not know an instruction."""


class TooLongError(Exception):
    """A launch took more instructions than ``Machine.limit``."""


@dataclass
class _Function:
    parameters: list[tuple[str, int, int]]
    results: list[str]
    code: list[tuple[str | None, bool, Any]] = field(default_factory=list)
    shared: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0


class _Thread:
    """Registers and private memory of one work-item."""

    def __init__(self, machine: Machine, block: _Block, tid: tuple[int, int, int], linear: int) -> None:
        self.machine, self.block, self.linear = machine, block, linear
        self.lane = linear % WARP
        self.registers: dict[str, int] = {f"%tid.{a}": n for a, n in zip("xyz", tid, strict=True)} | block.special
        self.registers["%laneid"] = self.lane
        self.parameters: dict[str, bytearray] = {}
        self.local = bytearray()
        self.turn = 0
        self.resume: Callable[[_Thread], None] | None = None


class _Block:
    def __init__(self, special: dict[str, int], shared: bytearray) -> None:
        self.special, self.shared = special, shared
        self.exchange: dict[tuple[int, int], Any] = {}


class GlobalMemory:
    """What all modules share: bytes at addresses, and the images among them."""

    def __init__(self) -> None:
        self.bytes = bytearray(GLOBAL_BASE & 0xFFF)
        self.textures: list[tuple[int, int, int, int, int, bool]] = []

    def allocate(self, data: bytes) -> int:
        """Put ``data`` into memory; its address, aligned to 256 bytes."""
        self.bytes.extend(bytes(-len(self.bytes) % 256))
        address = len(self.bytes)
        self.bytes.extend(data)
        return address + GLOBAL_BASE

    def read(self, address: int, nbytes: int) -> bytes:
        """The bytes at an address."""
        return bytes(self.bytes[address - GLOBAL_BASE : address - GLOBAL_BASE + nbytes])

    def write(self, address: int, data: bytes) -> None:
        """Replace the bytes at an address."""
        self.bytes[address - GLOBAL_BASE : address - GLOBAL_BASE + len(data)] = data

    def texture(self, address: int, shape: Sequence[int], dtype: str) -> bytes:
        """The structure that stands for an image of (height, width, channels) whose pixels lie packed at ``address``."""
        height, width, channels = shape
        size = {"float32": 4, "uint32": 4, "int32": 4, "float16": 2}[dtype]
        self.textures.append((address, width, height, channels, size, dtype == "float16"))
        return struct.pack("<QQiiii", len(self.textures) - 1, address, width, height, width * channels * size, channels | size << 8)


class Machine:
    """A loaded module. ``limit`` bounds the instructions of one launch, over all work-items."""

    def __init__(self, ptx: str, memory: GlobalMemory, limit: int = 100_000_000) -> None:
        self.memory, self.limit, self._left = memory, limit, 0
        self._constants = bytearray(64)
        self._symbols: dict[str, int] = {}
        self._functions: dict[str, _Function] = {}
        self._load(re.sub(r"//[^\n]*", "", ptx))

    def launch(self, kernel: str, grid: Sequence[int], block: Sequence[int], args: Sequence[bytes], dynamic_shared: int = 0) -> None:
        """Run ``kernel``; ``args`` are the bytes of its parameters."""
        function = self._functions[kernel]
        self._left = self.limit
        base = -(-function.shared_bytes // 128) * 128
        special = {f"%ntid.{a}": n for a, n in zip("xyz", block, strict=True)} | {
            f"%nctaid.{a}": n for a, n in zip("xyz", grid, strict=True)
        }
        symbols = {**self._symbols, **function.shared, **function.local}
        for name, address in self._symbols.items():
            if address == -1:  # the one dynamic array stands behind the static variables
                symbols[name] = base
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    here = special | {"%ctaid.x": x, "%ctaid.y": y, "%ctaid.z": z}
                    self._block(function, _Block(here, bytearray(base + dynamic_shared)), block, args, symbols)

    def _block(self, function: _Function, block: _Block, size: Sequence[int], args: Sequence[bytes], symbols: dict[str, int]) -> None:
        running: dict[int, Generator[str, None, None]] = {}
        for linear in range(size[0] * size[1] * size[2]):
            tid = (linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1]))
            thread = _Thread(self, block, tid, linear)
            thread.parameters = {name: bytearray(data) for (name, _, _), data in zip(function.parameters, args, strict=True)}
            running[linear] = self._run(function, thread, symbols)
        waiting: dict[int, str] = {}
        while running:
            for linear in [n for n in running if n not in waiting]:
                try:
                    waiting[linear] = next(running[linear])
                except StopIteration:
                    del running[linear]
            for first in range(0, max(running, default=0) + 1, WARP):
                lanes = [n for n in range(first, first + WARP) if n in running]
                if lanes and all(waiting.get(n) == "shuffle" for n in lanes):
                    for n in lanes:
                        del waiting[n]
            if running and all(waiting.get(n) == "barrier" for n in running):
                waiting.clear()

    def _run(self, function: _Function, thread: _Thread, symbols: dict[str, int]) -> Generator[str, None, None]:
        outer = thread.local, thread.registers, thread.parameters
        thread.local = bytearray(function.local_bytes)
        code, pc = function.code, 0
        registers = thread.registers
        while pc < len(code):
            predicate, wanted, step = code[pc]
            pc += 1
            if predicate is not None and bool(registers[predicate]) is not wanted:
                continue
            outcome = step(thread, symbols)
            if outcome is None:
                continue
            if isinstance(outcome, int):
                self._left -= max(pc - outcome, 1)  # a loop's body, told by the jump back
                if self._left < 0:
                    raise TooLongError(f"more than {self.limit} instructions")
                pc = outcome
            elif outcome == "return":
                break
            elif isinstance(outcome, tuple):
                callee, given, results = outcome
                called = self._functions[callee]
                registers_kept, parameters_kept = thread.registers, thread.parameters
                thread.registers = dict(registers)
                thread.parameters = {name: parameters_kept[g] for (name, _, _), g in zip(called.parameters, given, strict=True)}
                thread.parameters |= {name: bytearray(16) for name in called.results}
                yield from self._run(called, thread, {**symbols, **called.local})
                for target, name in zip(results, called.results, strict=True):
                    parameters_kept[target] = thread.parameters[name]
                thread.registers, thread.parameters = registers_kept, parameters_kept
            else:
                yield outcome
                if outcome == "shuffle":
                    assert thread.resume is not None
                    thread.resume(thread)
        thread.local, thread.registers = outer[0], outer[1]

    # Memory

    def access(self, thread: _Thread, space: str, address: int) -> tuple[bytearray, int]:
        """The memory and the offset in it of an address in ``space``; the empty space is the generic one."""
        if space == "":
            space, address = next(((s, address - w) for s, w in WINDOW.items() if w <= address < w + (1 << 32)), ("global", address))
        if space == "global":
            memory, offset = self.memory.bytes, address - GLOBAL_BASE
        else:
            memory, offset = {"shared": thread.block.shared, "local": thread.local, "const": self._constants}[space], address
        if not 0 <= offset < len(memory):
            raise IndexError(f"address {address:#x} is outside of {space} memory ({len(memory)} bytes)")
        return memory, offset

    # Parsing

    def _load(self, text: str) -> None:
        end = 0
        bodies = []
        for match in _FUNCTION.finditer(text):
            if match.start() < end:
                continue
            self._variables(text[end : match.start()], None)
            depth, end = 1, match.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            function = _Function(_parameters(match[4]), [name for name, _, _ in _parameters(match[2] or "")])
            self._functions[match[3]] = function
            bodies.append((function, text[match.end() : end - 1]))
        self._variables(text[end:], None)
        for function, body in bodies:
            self._body(function, body)

    def _variables(self, text: str, function: _Function | None) -> None:
        for statement in text.split(";"):
            match = _DECLARED.search(" ".join(statement.split()))
            if not match:
                continue
            space, align, kind, name, count, values = match.groups()
            item = bits_of(kind) // 8
            size = item * int(count or (1 if count is None else 0))
            if space == "shared":
                if count == "":
                    self._symbols[name] = -1
                    continue
                assert function is not None or size
                owner = function
                if owner is None:
                    raise UnsupportedInstructionError(f"shared variable {name} outside of a kernel")
                owner.shared_bytes = -(-owner.shared_bytes // int(align or item)) * int(align or item)
                owner.shared[name] = owner.shared_bytes
                owner.shared_bytes += size
            elif space == "local":
                assert function is not None
                function.local[name] = function.local_bytes
                function.local_bytes += -(-size // 16) * 16
            elif space == "const":
                self._constants.extend(bytes(-len(self._constants) % 64))
                self._symbols[name] = len(self._constants)
                self._constants.extend(_initial(values, item, size))
            else:
                self._symbols[name] = self.memory.allocate(_initial(values, item, size))

    def _body(self, function: _Function, body: str) -> None:
        labels: dict[str, int] = {}
        statements = []
        for raw in body.split(";"):
            statement = " ".join(raw.split())
            while match := re.match(r"(?:([$\w]+):|[{}])\s*", statement):
                if match[1]:
                    labels[match[1]] = len(statements)
                statement = statement[match.end() :]
            if statement.startswith("."):
                self._variables(statement, function)
            elif statement:
                statements.append(statement)
        for statement in statements:
            predicate, wanted = None, True
            if match := re.match(r"@(!?)(%\w+)\s+", statement):
                predicate, wanted = match[2], not match[1]
                statement = statement[match.end() :]
            function.code.append((predicate, wanted, self._step(statement, labels)))

    def _step(self, statement: str, labels: dict[str, int]) -> Callable[[_Thread, dict[str, int]], Any]:
        name, _, rest = statement.partition(" ")
        parts = name.split(".")
        operands = _operands(rest)
        match parts[0]:
            case "bra":
                target = labels[operands[0]]
                return lambda thread, symbols: target
            case "ret" | "exit":
                return lambda thread, symbols: "return"
            case "bar" | "barrier":
                return lambda thread, symbols: "barrier"
            case "membar" | "fence" | "prefetch":
                return lambda thread, symbols: None
            case "call":
                return _call(rest)
            case "ld":
                return _load_step(parts, operands)
            case "st":
                return _store_step(parts, operands)
            case "atom" | "red":
                return _atomic_step(parts, operands)
            case "mma":
                return _matrix_step(parts, operands)
            case "tex":
                return _texture_step(operands)
            case "cp":
                return _copy_step(parts, operands)
            case "shfl":
                return _shuffle_step(parts, operands)
            case "isspacep":
                window = WINDOW[parts[1]]
                return _assign(operands[0], lambda a: int(window <= a < window + (1 << 32)), operands[1:])
            case "cvta":
                return _address_step(parts, operands)
        if operands[0].startswith("{") and parts[0] == "mov":
            return _unpack(operands, bits_of(parts[-1]))
        function = None if operands[0].startswith("{") else compute(parts)
        if function is None:
            raise UnsupportedInstructionError(statement)
        return _assign(operands[0], function, operands[1:], bits_of(parts[-1]) if parts[-1] != "pred" else 1)


def _parameters(text: str) -> list[tuple[str, int, int]]:
    found = []
    for _, kind, name, count in _PARAMETER.findall(text):
        found.append((name, bits_of(kind) // 8 * int(count or 1), bits_of(kind) // 8))
    return found


def _initial(values: str | None, item: int, size: int) -> bytes:
    data = b"".join((int(v, 0) & ((1 << 8 * item) - 1)).to_bytes(item, "little") for v in (values or "").replace(" ", "").split(",") if v)
    return data.ljust(size, b"\0")


def _operands(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            found.append(text[start:i].strip())
            start = i + 1
    return [*found, text[start:].strip()]


def _reader(operand: str, bits: int = 64) -> Callable[[_Thread, dict[str, int]], int]:
    """A function that gives the bit pattern of an operand."""
    if operand.startswith("{"):
        parts = [_reader(p) for p in _operands(operand[1:-1])]
        width = bits // len(parts)
        return lambda thread, symbols: sum((r(thread, symbols) & ((1 << width) - 1)) << (width * i) for i, r in enumerate(parts))
    if operand.startswith("%"):
        return lambda thread, symbols: thread.registers[operand]
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


def _write(thread: _Thread, register: str, value: int) -> None:
    if register != "_":
        thread.registers[register] = value


def _assign(target: str, function: Callable[..., int], operands: list[str], bits: int = 64) -> Callable[[_Thread, dict[str, int]], None]:
    readers = [_reader(o, bits) for o in operands]
    name = target.split("|")[0]
    masked = bits < 64

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
        values = [r(thread, symbols) for r in readers]
        result = function(*[v & ((1 << 64) - 1) if v < 0 and not masked else v for v in values])
        thread.registers[name] = result

    return run


def _unpack(operands: list[str], bits: int) -> Callable[[_Thread, dict[str, int]], None]:
    names = _operands(operands[0][1:-1])
    read, width = _reader(operands[1]), bits // len(names)

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
        value = read(thread, symbols)
        for i, name in enumerate(names):
            _write(thread, name, value >> (width * i) & ((1 << width) - 1))

    return run


def _address(operand: str) -> Callable[[_Thread, dict[str, int]], int]:
    base, sign, offset = re.fullmatch(r"\[([%\w$]+)(?:\s*([+-])\s*(-?\w+))?\]", operand).groups()  # type: ignore[union-attr]
    read, more = _reader(base), int(offset or "0", 0) * (-1 if sign == "-" else 1)
    return lambda thread, symbols: read(thread, symbols) + more


def _space(parts: list[str]) -> str:
    return next((p for p in parts[1:] if p in ("global", "shared", "const", "local", "param")), "")


def _vector(parts: list[str], operand: str) -> tuple[int, list[str]]:
    return bits_of(parts[-1]) // 8, _operands(operand[1:-1]) if operand.startswith("{") else [operand]


def _parameter_of(operand: str) -> tuple[str, int]:
    name, _, offset = operand[1:-1].partition("+")
    return name.strip(), int(offset or "0", 0)


def _load_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], None]:
    size, names = _vector(parts, operands[0])
    extend = parts[-1][0] == "s"
    space = _space(parts)
    if space == "param" and not operands[1].startswith("[%"):
        name, offset = _parameter_of(operands[1])

        def locate(thread: _Thread, symbols: dict[str, int]) -> tuple[bytearray, int]:
            return thread.parameters[name], offset

    else:
        address = _address(operands[1])

        def locate(thread: _Thread, symbols: dict[str, int]) -> tuple[bytearray, int]:
            place = address(thread, symbols)
            assert place % (size * len(names)) == 0, f"misaligned load {parts} at {place:#x}"
            return thread.machine.access(thread, space, place)

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
        memory, at = locate(thread, symbols)
        assert at + size * len(names) <= len(memory), "load past the end of memory"
        for i, target in enumerate(names):
            value = int.from_bytes(memory[at + i * size : at + (i + 1) * size], "little")
            _write(thread, target, signed(value, 8 * size) & ((1 << 64) - 1) if extend and size < 8 else value)

    return run


def _store_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], None]:
    size, names = _vector(parts, operands[1])
    readers = [_reader(n) for n in names]
    space = _space(parts)
    mask = (1 << (8 * size)) - 1
    if space == "param":
        name, offset = _parameter_of(operands[0])

        def run_parameter(thread: _Thread, symbols: dict[str, int]) -> None:
            memory = thread.parameters.setdefault(name, bytearray(16))
            for i, read in enumerate(readers):
                memory[offset + i * size : offset + (i + 1) * size] = (read(thread, symbols) & mask).to_bytes(size, "little")

        return run_parameter
    address = _address(operands[0])

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
        place = address(thread, symbols)
        assert place % (size * len(names)) == 0, f"misaligned store {parts} at {place:#x}"
        memory, at = thread.machine.access(thread, space, place)
        assert at + size * len(names) <= len(memory), "store past the end of memory"
        for i, read in enumerate(readers):
            memory[at + i * size : at + (i + 1) * size] = (read(thread, symbols) & mask).to_bytes(size, "little")

    return run


def _atomic_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], None]:
    kind, space = parts[-1], _space(parts)
    operation = next(p for p in parts[1:] if p in ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"))
    size = bits_of(kind) // 8
    if parts[0] == "red":
        operands = ["_", *operands]
    address, readers = _address(operands[1]), [_reader(o) for o in operands[2:]]
    combine = {"exch": lambda a, b: b, "cas": lambda a, b, c: c if a == b & ((1 << (8 * size)) - 1) else a}.get(operation) or compute(
        [operation, kind]
    )
    assert combine is not None

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
        memory, at = thread.machine.access(thread, space, address(thread, symbols))
        old = int.from_bytes(memory[at : at + size], "little")
        new = combine(old, *[r(thread, symbols) for r in readers]) & ((1 << (8 * size)) - 1)
        memory[at : at + size] = new.to_bytes(size, "little")
        _write(thread, operands[0], old)

    return run


def _texture_step(operands: list[str]) -> Callable[[_Thread, dict[str, int]], None]:
    """Whole coordinates, zero outside; channels that are not there are left as poison."""
    names = _operands(operands[0][1:-1])
    handle_text, place = _operands(operands[1][1:-1])
    handle = _reader(handle_text)
    x_read, y_read = (_reader(o) for o in _operands(place[1:-1]))

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
        address, width, height, channels, size, half = thread.machine.memory.textures[handle(thread, symbols)]
        x, y = signed(x_read(thread, symbols), 32), signed(y_read(thread, symbols), 32)
        inside = 0 <= x < width and 0 <= y < height
        for c, name in enumerate(names):
            value = 0xCBCBCBCB if c >= channels else 0
            if inside and c < channels:
                raw = thread.machine.memory.read(address + ((y * width + x) * channels + c) * size, size)
                value = int.from_bytes(raw, "little")
                value = from_float(to_float(value, "f16"), "f32") if half else value
            _write(thread, name, value)

    return run


def _copy_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], None]:
    if parts[2] != "ca" and parts[2] != "cg":
        return lambda thread, symbols: None  # groups: every copy is done at once
    target, source, size = _address(operands[0]), _address(operands[1]), int(operands[2])
    given = _reader(operands[3]) if len(operands) > 3 else lambda thread, symbols: size

    def run(thread: _Thread, symbols: dict[str, int]) -> None:
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


def _shuffle_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], str]:
    mode = parts[2]
    target = operands[0].split("|")[0]
    value, source, clamp = (_reader(o) for o in operands[1:4])

    def run(thread: _Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, lane = thread.turn, thread.lane
        thread.block.exchange[thread.linear, turn] = value(thread, symbols)
        by, limit = source(thread, symbols), clamp(thread, symbols) & 31
        other = {"idx": by & 31, "bfly": lane ^ by, "down": lane + by, "up": lane - by}[mode]
        inside = other >= limit if mode == "up" else other <= limit
        base = thread.linear - lane

        def resume(thread: _Thread) -> None:
            chosen = other if inside else lane
            thread.registers[target] = thread.block.exchange.get((base + chosen, turn), 0)

        thread.resume = resume
        return "shuffle"

    return run


def _matrix_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], str]:
    shape = next(p for p in parts if re.fullmatch(r"m\d+n8k\d+", p))
    target_kind, a_kind, b_kind, c_kind = parts[-4:]
    if a_kind != b_kind or target_kind != c_kind or c_kind not in ("f32", "f64"):
        raise UnsupportedInstructionError(".".join(parts))
    targets, a, b, c = (_operands(o.strip("{}")) for o in operands)
    a_read, b_read, c_read = ([_reader(o.strip()) for o in part] for part in (a, b, c))

    def run(thread: _Thread, symbols: dict[str, int]) -> str:
        thread.turn += 1
        turn, base = thread.turn, thread.linear - thread.lane
        fragments = tuple(r(thread, symbols) for r in a_read), tuple(r(thread, symbols) for r in b_read)
        thread.block.exchange[thread.linear, turn] = fragments
        start = [r(thread, symbols) for r in c_read]

        def resume(thread: _Thread) -> None:
            everyone = [thread.block.exchange[base + lane, turn] for lane in range(WARP)]
            for target, value in zip(targets, multiply(shape, (a_kind, c_kind), thread.lane, everyone, start), strict=True):
                thread.registers[target.strip()] = value

        thread.resume = resume
        return "shuffle"

    return run


def _address_step(parts: list[str], operands: list[str]) -> Callable[[_Thread, dict[str, int]], None]:
    space = _space(parts)
    window = WINDOW.get(space, 0)
    return _assign(operands[0], (lambda a: a - window if window <= a else a) if "to" in parts else (lambda a: a + window), operands[1:])


def _call(text: str) -> Callable[[_Thread, dict[str, int]], Any]:
    match = re.fullmatch(r"(?:\(([^)]*)\)\s*,\s*)?([\w$]+)\s*,\s*\(([^)]*)\)", text.strip())
    if not match:
        raise UnsupportedInstructionError(f"call {text}")
    results = [r.strip() for r in (match[1] or "").split(",") if r.strip()]
    given = [g.strip() for g in match[3].split(",") if g.strip()]
    outcome = (match[2], given, results)
    return lambda thread, symbols: outcome
