"""The machine: parses a PTX module, lays out its memory and runs the threads of a block, or of a cluster's, in turn between barriers."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.ptx_machine import bulk, steps, warp_groups
from support.ptx_machine.blocks import Blocks, Statement
from support.ptx_machine.instructions import compute
from support.ptx_machine.thread import (
    GLOBAL_BASE,
    SHARED_WINDOW,
    WARP,
    WINDOW,
    Block,
    GlobalMemory,
    Registers,
    Thread,
    TooLongError,
    UnsupportedInstructionError,
)
from support.ptx_machine.values import bits_of

_DECLARED = re.compile(
    r"\.(const|global|shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?(?:\s*=\s*\{?([^;{}]*)\}?)?\s*$"
)
_FUNCTION = re.compile(r"\.(entry|func)\s+(?:\(([^)]*)\)\s*)?([\w$]+)\s*\(([^)]*)\)([^{;]*)\{", re.DOTALL)
_CLUSTER = re.compile(r"\.reqnctapercluster\s+(\d+)")
_SUPPORTED: set[str] = set()
"""Names of instructions that were seen to have a step; others make loading a module fail."""
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?([\w$]+)(?:\[(\d+)\])?")


_STEPS: dict[str, Callable[[list[str], list[str]], Callable[[Thread, dict[str, int]], Any]]] = {
    "mbarrier": bulk.barrier_step,
    "ld": steps.load_step,
    "st": steps.store_step,
    "atom": steps.atomic_step,
    "red": steps.atomic_step,
    "mma": steps.matrix_step,
    "ldmatrix": steps.fragment_step,
    "stmatrix": warp_groups.store_step,
    "wgmma": warp_groups.group_step,
    "shfl": steps.shuffle_step,
    "vote": steps.vote_step,
    "activemask": steps.vote_step,
    "cvta": steps.address_step,
}
"""What makes the step of an instruction from the parts of its name and its operands."""


@dataclass
class _Function:
    parameters: list[tuple[str, int, int]]
    results: list[str]
    statements: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    blocks: Blocks | None = None  # once it has run
    shared: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0
    cluster: int = 1  # blocks along x


class Machine:
    """A loaded module. ``limit`` bounds the instructions of one launch, over all work-items."""

    def __init__(self, ptx: str, memory: GlobalMemory, limit: int = 100_000_000) -> None:
        self.memory, self.limit, self._left = memory, limit, 0
        self._constants = bytearray(64)
        self._symbols: dict[str, int] = {}
        self.functions: dict[str, _Function] = {}
        self._load(warp_groups.without_scopes(bulk.without_scopes(re.sub(r"//[^\n]*", "", ptx))))

    def launch(self, kernel: str, grid: Sequence[int], block: Sequence[int], args: Sequence[bytes], dynamic_shared: int = 0) -> None:
        """Run ``kernel``; ``args`` are the bytes of its parameters."""
        function = self.functions[kernel]
        self._left = self.limit
        base = -(-function.shared_bytes // 128) * 128
        special = {f"%ntid.{a}": n for a, n in zip("xyz", block, strict=True)} | {
            f"%nctaid.{a}": n for a, n in zip("xyz", grid, strict=True)
        }
        symbols = {**self._symbols, **function.shared, **function.local}
        for name, address in self._symbols.items():
            if address == -1:  # the one dynamic array stands behind the static variables
                symbols[name] = base
        symbols |= {name: bulk.PARAMETER * place for place, (name, _, _) in enumerate(function.parameters)}
        for z in range(grid[2]):
            for y in range(grid[1]):
                for first in range(0, grid[0], function.cluster):
                    blocks: list[Block] = []
                    for x in range(first, first + function.cluster):
                        here = special | {"%ctaid.x": x, "%ctaid.y": y, "%ctaid.z": z}
                        blocks.append(Block(here, bytearray(base + dynamic_shared), blocks))
                    self._cluster(function, blocks, block, args, symbols)

    def _cluster(
        self, function: _Function, blocks: Sequence[Block], size: Sequence[int], args: Sequence[bytes], symbols: dict[str, int]
    ) -> None:
        """Run the blocks of a cluster, mostly one: each waits for its own barriers, all of them for those of the cluster."""
        running: dict[int, Generator[str, None, None]] = {}
        given = {name: data for (name, _, _), data in zip(function.parameters, args, strict=True)}
        count = size[0] * size[1] * size[2]
        apart = -(-count // WARP) * WARP
        for place, block in enumerate(blocks):
            for linear in range(count):
                tid = (linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1]))
                thread = Thread(self, block, tid, linear)
                thread.parameters = dict(given)
                running[place * apart + linear] = self._run(function, thread, symbols)
        waiting: dict[int, str] = {}
        while running:
            for linear in [n for n in running if n not in waiting]:
                try:
                    waiting[linear] = next(running[linear])
                except StopIteration:
                    del running[linear]
            for first in range(0, max(running, default=0) + 1, WARP):
                lanes = [n for n in range(first, first + WARP) if n in running]
                if lanes and any(all(waiting.get(n) == outcome for n in lanes) for outcome in ("shuffle", "warp")):
                    for n in lanes:
                        del waiting[n]
            for first in range(0, len(blocks) * apart, apart):
                mine = [n for n in running if first <= n < first + apart]
                if mine and all(waiting.get(n) == "barrier" for n in mine):
                    for n in mine:
                        del waiting[n]
                for name in {waiting[n] for n in mine if waiting.get(n, "").startswith("barrier ")}:  # of some of the threads
                    some = [n for n in mine if waiting.get(n) == name]
                    arrived = blocks[first // apart].arrived
                    if len(some) + arrived.get(name.split()[1], 0) == int(name.rpartition(" ")[2]):
                        arrived.pop(name.split()[1], None)
                        for n in some:
                            del waiting[n]
            waiting = {n: outcome for n, outcome in waiting.items() if outcome != "again"}
            if running and all(waiting.get(n) == "cluster" for n in running):
                waiting.clear()

    def _run(self, function: _Function, thread: Thread, symbols: dict[str, int]) -> Generator[str, None, None]:
        outer = thread.local, thread.registers
        thread.local = bytearray(function.local_bytes)
        if function.blocks is None:
            labels = function.labels
            function.blocks = Blocks(function.statements, labels, lambda text: self._step(text, labels))
        made, end, pc = function.blocks.made.get, len(function.statements), 0
        registers = thread.registers
        while pc < end:
            block, after = made(pc) or function.blocks.at(pc)
            outcome = block(thread, registers, symbols)
            if type(outcome) is int:
                if outcome < after:  # a loop's body, told by the jump back
                    self._spend(after - outcome)
                pc = outcome
                continue
            outcome, pc = outcome
            if outcome == "return":
                break
            if isinstance(outcome, tuple):
                callee, given, results = outcome
                called = self.functions[callee]
                registers_kept, parameters_kept = thread.registers, thread.parameters
                thread.registers = Registers(registers)
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
        self._spend(pc)
        thread.local, thread.registers = outer[0], outer[1]

    def _spend(self, instructions: int) -> None:
        self._left -= max(instructions, 0)
        if self._left < 0:
            raise TooLongError(f"more than {self.limit} instructions")

    # Memory

    def access(self, thread: Thread, space: str, address: int) -> tuple[bytearray, int]:
        """The memory and the offset in it of an address in ``space``; the empty space is the generic one."""
        if space == "":
            space, address = next(((s, address - w) for s, w in WINDOW.items() if w <= address < w + (1 << 32)), ("global", address))
        if space == "global":
            memory, offset = self.memory.bytes, address - GLOBAL_BASE
        elif space == "shared" and address >= SHARED_WINDOW:
            memory, offset = thread.block.cluster[address // SHARED_WINDOW - 1].shared, address % SHARED_WINDOW
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
            if found := _CLUSTER.search(match[5]):
                function.cluster = int(found[1])
            self.functions[match[3]] = function
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
                self._constants.extend(_initial(values, item, size, self._symbols))
            else:
                self._symbols[name] = self.memory.allocate(_initial(values, item, size, self._symbols))

    def _body(self, function: _Function, body: str) -> None:
        labels = function.labels
        statements: list[str] = []
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
            predicate, expected = None, True
            if match := re.match(r"@(!?)(%\w+)\s+", statement):
                predicate, expected = match[2], not match[1]
                statement = statement[match.end() :]
            function.statements.append(Statement(predicate, expected, statement))
            name = statement.partition(" ")[0]
            if name not in _SUPPORTED:
                self._step(statement, labels)
                _SUPPORTED.add(name)

    def _step(self, statement: str, labels: dict[str, int]) -> Callable[[Thread, dict[str, int]], Any]:
        name, _, rest = statement.partition(" ")
        parts = name.split(".")
        operands = steps.split(rest)
        if parts[0] in _STEPS:
            return _STEPS[parts[0]](parts, operands)
        match parts[0]:
            case "bra":
                target = labels[operands[0]]
                return lambda thread, symbols: target
            case "ret" | "exit":
                return lambda thread, symbols: "return"
            case "barrier" if parts[1] == "cluster":
                outcome = "cluster" if parts[2] == "wait" else None
                return lambda thread, symbols: outcome
            case "bar" if parts[1] == "warp":
                return lambda thread, symbols: "warp"
            case "bar" if parts[1] == "arrive":
                place = steps.reader_of(operands[0])
                return lambda thread, symbols: thread.block.arrive(str(place(thread, symbols)))
            case "bar" | "barrier":
                if parts[1] == "sync" and len(operands) == 2:
                    place, count = (steps.reader_of(operand) for operand in operands)
                    return lambda thread, symbols: f"barrier {place(thread, symbols)} {count(thread, symbols)}"
                return lambda thread, symbols: "barrier"
            case "membar" | "fence" | "prefetch" | "griddepcontrol" | "setmaxnreg":
                return lambda thread, symbols: None
            case "call":
                return steps.call(rest)
            case "tex":
                return steps.texture_step(operands)
            case "cp" if "tensor" in parts:
                return bulk.box_step(parts, operands)
            case "cp" if parts[2] == "mbarrier":
                return bulk.copied_step(parts, operands)
            case "cp":
                return steps.copy_step(parts, operands)
            case "mapa":
                return steps.assign(operands[0], lambda address, rank: address + (rank + 1) * SHARED_WINDOW, operands[1:])
            case "isspacep":
                window = WINDOW[parts[1]]
                return steps.assign(operands[0], lambda a: int(window <= a < window + (1 << 32)), operands[1:])
        if operands[0].startswith("{") and parts[0] == "mov":
            return steps.unpack(operands, bits_of(parts[-1]))
        function = None if operands[0].startswith("{") else compute(parts)
        if function is None:
            raise UnsupportedInstructionError(statement)
        return steps.assign(operands[0], function, operands[1:], bits_of(parts[-1]) if parts[-1] != "pred" else 1)


def _parameters(text: str) -> list[tuple[str, int, int]]:
    found = []
    for _, kind, name, count in _PARAMETER.findall(text):
        found.append((name, bits_of(kind) // 8 * int(count or 1), bits_of(kind) // 8))
    return found


def _initial(values: str | None, item: int, size: int, symbols: Mapping[str, int]) -> bytes:
    """The bytes of a variable; what is given by name is the address of a variable before it."""

    def number(value: str) -> int:
        if match := re.fullmatch(r"(generic\()?([A-Za-z_$][\w$]*)\)?(?:\+(\d+))?", value):
            address = symbols[match[2]] + int(match[3] or 0)
            return address + WINDOW["const"] if match[1] and address < GLOBAL_BASE else address
        return int(value[2:], 16) if value[:2].lower() in ("0f", "0d") else int(value, 0)  # floating point is given by its bits

    numbers = (number(value) for value in (values or "").replace(" ", "").split(",") if value)
    return b"".join((n & ((1 << 8 * item) - 1)).to_bytes(item, "little") for n in numbers).ljust(size, b"\0")
