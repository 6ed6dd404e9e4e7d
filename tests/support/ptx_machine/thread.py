"""What a running thread sees: registers, its block, the machine's memories."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from portatile.images import ImageForm
from portatile.records import TensorMap

WARP = 32
UNDEFINED = 0xCBCBCBCB
# Generic addresses: each space has a window of its own, global addresses are themselves.
WINDOW = {"shared": 0x7000_0000_0000, "local": 0x7100_0000_0000, "const": 0x7200_0000_0000, "param": 0x7300_0000_0000}
GLOBAL_BASE = 0x10_0000_0000
"""Beyond the heap, which begins anywhere in the first GiB where the interpreter of Python is not position-independent, as Debian's."""
SHARED_WINDOW = 1 << 24
"""Shared addresses of a block itself lie below it; those of block r of its cluster from r + 1 times as much on."""


class UnsupportedInstructionError(Exception):
    """The machine does not know an instruction."""


class TooLongError(Exception):
    """A launch took more instructions than ``Machine.limit``."""


class GlobalMemory:
    """What all modules share: bytes at addresses, and the images among them."""

    def __init__(self) -> None:
        self.bytes = bytearray(GLOBAL_BASE & 0xFFF)
        self.textures: list[tuple[int, ImageForm, int]] = []
        """Address, form, and bytes from row to row."""
        self.maps: list[tuple[int, TensorMap]] = []
        """Address and form of what tensor maps show, by their numbers."""

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

    def texture(self, address: int, form: ImageForm) -> bytes:
        """The structure that stands for an image whose pixels lie packed at ``address``."""
        row = form.width * form.pixel
        if form.type not in ("image2d_t", "image1d_buffer_t"):
            return struct.pack("<QQiiiiiI", 0, address, form.width, form.height, row, form.code, form.depth, row * form.height)
        self.textures.append((address, form, row))
        plane = struct.pack("<QQiiii", len(self.textures) - 1, address, form.width, form.height, row, form.code)
        return plane if form.type == "image2d_t" else plane + struct.pack("<iI", form.depth, 0)


class Host(Protocol):
    """The machine, as far as instructions need it."""

    memory: GlobalMemory

    def access(self, thread: Thread, space: str, address: int) -> tuple[bytearray, int]:
        """The memory and the offset in it of an address in ``space``."""
        ...


class Registers(dict[str, int]):
    """Bit patterns; a register without a value may be read where the result is not used, but for a predicate."""

    def __missing__(self, name: str) -> int:
        if name.startswith("%p"):
            raise KeyError(name)
        return UNDEFINED


class Thread:
    """Registers and private memory of one work-item."""

    def __init__(self, machine: Host, block: Block, tid: tuple[int, int, int], linear: int) -> None:
        self.machine, self.block, self.linear = machine, block, linear
        self.lane = linear % WARP
        self.registers = Registers({f"%tid.{a}": n for a, n in zip("xyz", tid, strict=True)} | block.special)
        self.registers["%laneid"] = self.lane
        self.parameters: dict[str, bytes | bytearray] = {}
        self.local = bytearray()
        self.turn = 0
        self.resume: Callable[[Thread], None] | None = None


class Block:
    """A block's memory; ``cluster`` are the blocks that see each other's."""

    def __init__(self, special: dict[str, int], shared: bytearray, cluster: Sequence[Block] = ()) -> None:
        self.special, self.shared, self.cluster = special, shared, cluster
        self.exchange: dict[tuple[int, int], Any] = {}
        self.products: dict[tuple[int, int], list[list[int]]] = {}
        """What the lanes of a warp, by its first, have multiplied together."""
        self.barriers: dict[int, Any] = {}
        """Barriers that count arrivals and bytes, by their addresses."""
        self.arrived: dict[str, int] = {}
        """How many have come to a barrier, by its name, and went on."""

    def arrive(self, barrier: str) -> None:
        """One more has come to a barrier, at which others wait."""
        self.arrived[barrier] = self.arrived.get(barrier, 0) + 1
