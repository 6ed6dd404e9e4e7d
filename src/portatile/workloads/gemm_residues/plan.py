"""The launches of a product by residues: A and B to bytes, products of bytes, sums from remainders; in pieces of bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from portatile import workloads
from portatile.dtypes import REMAINDERS, product
from portatile.errors import ArgumentError
from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Role, Source, Temporary, Value
from portatile.template import load
from portatile.workloads import blocks
from portatile.workloads.gemm import forms
from portatile.workloads.gemm import plan as native
from portatile.workloads.gemm.capabilities import matrix_shapes
from portatile.workloads.gemm.extras import Extras
from portatile.workloads.gemm.passing import ceil_div, long_scalar, scalar
from portatile.workloads.gemm.storage import Batch
from portatile.workloads.gemm_residues.numbers import DIGIT, LARGEST, LONGEST, MARGIN, PRECISION, SHARES, STRETCH, numbers

_WORKSPACE = 1 << 31  # bytes of an operand's residues, and of the sums of bytes, at a time
_LINE = 128  # steps of k to which rows of bytes are rounded up where k is long, and a shorter step
_SHORT = 16
_SPACINGS = (4096, 3), (1024, 2)  # (steps of k, spacing): from so many steps on, leading bits of only one step in 2**spacing are multiplied
_TILE = 16  # rows and columns of a piece are a multiple of this
_STORED: Mapping[str, Value] = {"trans_a": "N", "trans_b": "T"}  # bytes of A and of B lie along k
_RESIDENT = {1: 1024, 2: 768}  # work-items on a multiprocessor in the kernel that converts to bytes; real and complex
_LOTS = 160  # bytes of local memory in which the facts of a row are reduced
_WIDE = {1: 4, 2: 2}  # neighbours in a row of C that a work-item reconstructs where the row's length is a multiple; real and complex
_DOWN = {1: 8, 2: 4}  # rows of C that a work-item reconstructs
_RESERVE = 7  # roundings beside those to integers: two for an element of each operand, two for a sum, one for its factor
_FACTS = 32  # bytes of line_facts (facts.cl)
_NEVER = 1 << 20  # above every place of a bit
_AGAIN = {1: (64, 64), 2: (32, 32)}  # rows and columns of C that 16 x 16 work-items compute again, real and complex
_UNITS = {1: (128, 128), 2: (64, 64)}  # 16 x 32 by matrix units


@dataclass(frozen=True)
class Piece:
    """A part of a problem: ``sizes`` rows, columns and steps of k, from the row, column and step ``first`` on."""

    first: tuple[int, int, int]
    sizes: tuple[int, int, int]


def build(problem: Problem, config: Config, device: DeviceInfo) -> Plan:
    """The plan; raises ArgumentError for layouts that kernels do not index, and where the device has no float64."""
    native.check(problem)
    if not device.fp64:
        raise ArgumentError(f"{device.name} has no double precision, which puts sums of residues together: leave precision out")
    m, n, k = (problem.sizes[s] for s in "mnk")
    if m == 0 or n == 0:
        return Plan(())
    if k == 0:
        return Plan((_native(problem),))
    return _Steps(problem, config, device).plan()


def padded(k: int) -> int:
    """``k`` rounded up to the length of a row of bytes."""
    step = _LINE if k > _LINE else _SHORT
    return ceil_div(k, step) * step


def sampled(depth: int) -> int:
    """Bytes of a row of leading bits for rows of ``depth`` bytes."""
    return depth >> spacing(depth)


def spacing(depth: int) -> int:
    """The spacing s with which leading bits of one step in 2**s are multiplied: a part of |A| |B| is a lower bound of it, too."""
    return next((bits for least, bits in _SPACINGS if depth >= least), 0)


def planes(dtype: str) -> int:
    """The number of products of bytes: one for each modulus, three for complex numbers."""
    return len(numbers(dtype).moduli) * (3 if product(dtype).complex else 1)


def local_bytes(problem: Problem) -> tuple[int, int]:
    """Bytes of local memory for each row of a work-group that converts to bytes: for each work-item along k, and for the row itself."""
    precision, parts = PRECISION[problem.dtype], 2 if product(problem.dtype).complex else 1
    size = parts * (8 if precision == 53 else 4)
    return 4 * size, 17 * size + _LOTS + _FACTS


def shares(problem: Problem, reduced: bool = False) -> tuple[int, int]:
    """Rows and columns of C in a piece; ``reduced``: the products of bytes write remainders (REDUCE)."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    count = planes(problem.dtype)
    line = count * padded(min(k, LONGEST))
    rows = _share(m, line)
    return rows, min(_share(n, line), _share(n, (1 if reduced else 4) * count * rows))


def _native(problem: Problem) -> Call:
    """The native product, for k = 0."""
    callee = workloads.get("gemm").problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    return Call(callee, {name: name for name in "abc"}, {"alpha": "alpha", "beta": "beta"})


class _Steps:
    """Builds the steps of one plan, and collects the temporaries that they need."""

    def __init__(self, problem: Problem, config: Config, device: DeviceInfo) -> None:
        self.problem, self.dtype, self.device, self.unrolled = problem, problem.dtype, device, device.kind != "cpu"
        self.reduced = config.get("REDUCE", 0) == 1
        self.sum_bytes = 1 if self.reduced else 4
        self.parts = 2 if blocks.is_complex(problem) else 1
        self.lanes, self.rows, self.wgs = (int(config[name]) for name in ("LANES", "ROWS", "WGS"))
        self.m, self.n, self.k = (problem.sizes[s] for s in "mnk")
        wide = PRECISION[self.dtype] == 53
        self.types: dict[str, Value] = {"REAL": "double" if wide else "float", "LARGEST": LARGEST[self.dtype]}
        self.types["SCALAR"] = f"{self.types['REAL']}{2 if self.parts == 2 else ''}"
        self.numbers = numbers(self.dtype)
        self.count = len(self.numbers.moduli)
        self.planes = planes(self.dtype)
        self.sizes: dict[str, int] = {}
        self.zeroed: set[str] = set()

    def plan(self) -> Plan:
        """All steps: for each piece of k, for its pieces of rows, for their pieces of columns."""
        rows, columns = shares(self.problem, self.reduced)
        steps: list[Launch | Call] = []
        for h in range(0, self.k, LONGEST):
            for i in range(0, self.m, rows):
                for j in range(0, self.n, columns):
                    sizes = min(rows, self.m - i), min(columns, self.n - j), min(LONGEST, self.k - h)
                    steps += self._piece(Piece((i, j, h), sizes), j == 0, columns < self.n or i == 0)
        return Plan(tuple(steps), tuple(Temporary(name, size, zeroed=name in self.zeroed) for name, size in self.sizes.items()))

    def _piece(self, piece: Piece, new_rows: bool, new_columns: bool) -> list[Launch | Call]:
        """The steps of a piece; rows or columns that the piece before had, too, are not converted again."""
        steps: list[Launch | Call] = []
        if new_rows:
            steps += self._bytes("a", piece)
        if new_columns:
            steps += self._bytes("b", piece)
        return [*steps, *self._products(piece), *self._sums(piece)]

    def _temporary(self, name: str, size: int) -> Arg:
        self.sizes[name] = max(self.sizes.get(name, 0), size)
        return Arg(name, role="temporary")

    def _operand(self, name: str, piece: Piece, role: Role = "in") -> tuple[Arg, ...]:
        """The arguments for a piece's part of A, B or C: memory, offset, row stride."""
        i, j, h = piece.first
        row, column = {"a": (i, h), "b": (h, j), "c": (i, j)}[name]
        if self._transposed(name):
            row, column = column, row
        layout = self.problem.layout[name]
        step = layout.strides[0]
        return Arg(name, "buffer", role), long_scalar("offset", layout.offset + row * step + column), long_scalar("ld", step)

    def _transposed(self, name: str) -> bool:
        return self.problem.options.get(f"trans_{name}") in ("T", "C")

    def _conjugated(self, name: str) -> bool:
        return self.problem.options[f"trans_{name}"] in ("C", "R")

    def _factor(self, name: str, value: float | None = None) -> Arg:
        return Arg(name, "scalar", dtype=self.dtype, value=value)

    def _bytes(self, name: str, piece: Piece) -> list[Launch | Call]:
        """The launch that converts rows of op(A) or columns of op(B) to bytes, and writes their facts and leading bits."""
        across, k = piece.sizes[0 if name == "a" else 1], piece.sizes[2]
        depth = padded(k)
        facts = self._temporary(f"facts_{name}", _FACTS * across)
        planes = self._temporary(f"bytes_{name}", self.planes * across * depth)
        tops = self._temporary(f"tops_{name}", across * sampled(depth))
        given = scalar("across", across), scalar("k", k), scalar("depth", depth)
        asked = scalar("spacing", spacing(depth)), scalar("conjugate", int(self._conjugated(name)))
        args = (*given, *asked, self._factor("alpha"), *self._operand(name, piece), facts, planes, tops)
        lanes, rows = self._group(name, depth)
        items = (lanes, ceil_div(across, rows) * rows, 1)
        return [Launch(self._cut(name, lanes, rows), "residues_cut", items, (lanes, rows, 1), args)]

    def _group(self, name: str, depth: int) -> tuple[int, int]:
        """Work-items along k, and rows, of a group that converts to bytes. Where k is fast the group has few long rows, which are still in
        the cache when they are read again; otherwise it has neighbouring rows, which memory reads together.
        """
        if not self._along(name) or not self.unrolled:
            return self.lanes, self.rows
        lanes = self.lanes
        while lanes < min(SHARES, self.lanes * self.rows) and 4 * lanes < depth:
            lanes *= 2
        return lanes, max(min(self.rows, SHARES // lanes), 1)

    def _along(self, name: str) -> bool:
        """Whether rows of op(A) or columns of op(B) lie along k."""
        return self._transposed(name) == (name == "b")

    def _load(self, name: str, defines: Mapping[str, Value], tables: tuple[str, ...], **values: Any) -> Source:
        """The text ``name`` with these ``tables`` of ``Numbers``."""
        chosen = {table: self.numbers.tables[table] for table in tables}
        precision = PRECISION[self.dtype]
        spelled: dict[str, Any] = {
            "parts": self.parts,
            "COMPLEX": self.parts == 2,
            "HERMITIAN": False,
            "unrolled": self.unrolled,
            "stretch": STRETCH,
        }
        spelled |= {"count": self.count, "numbers": chosen, "precision": precision, "largest": LARGEST[self.dtype]}
        return load(__file__, name, {**self.types, **defines}, **spelled, **values)

    def _cut(self, name: str, lanes: int, rows: int) -> Source:
        precision = PRECISION[self.dtype]
        defines: dict[str, Value] = {"LANES": lanes, "ROWS": rows, "K_FAST": self._along(name)}
        defines["PRECISION"] = precision
        form: dict[str, Any] = {"words": self.numbers.words, "digit": DIGIT, "limit": self.numbers.limit, "margin": MARGIN}
        form |= {"head": precision - 32 if precision > 32 else precision, "one": LARGEST[self.dtype] // 2, "never": _NEVER}
        form |= {"shares": SHARES, "groups": max(_RESIDENT[self.parts] // (lanes * rows), 1)}
        unspilled = self.dtype != "complex128"  # its kernel has no registers left for quotients in float64
        form["doubles"] = self.numbers.doubles() if self.unrolled and unspilled and self._units() else {}
        return self._load("cut.cl", defines, ("divisors", "reciprocals", "shifts", "starts", "weights"), **form)

    def _products(self, piece: Piece) -> list[Launch | Call]:
        """The stack of products of bytes, and the product of leading bits."""
        m, n, k = piece.sizes
        depth, fewer = padded(k), sampled(padded(k))
        self._temporary("products", self.sum_bytes * self.planes * m * n)
        self._temporary("terms", self.sum_bytes * m * n)
        tops, bytes_of = ({"a": f"{name}_a", "b": f"{name}_b"} for name in ("tops", "bytes"))
        tops, bytes_of = {**tops, "c": "terms"}, {**bytes_of, "c": "products"}
        if self.reduced:
            moduli = tuple(p for p in self.numbers.moduli for _ in range(self.planes // self.count))
            return [*self._remainders((m, n, fewer), tops, (0,)), *self._remainders((m, n, depth), bytes_of, moduli)]
        layout = {"a": Layout((m * depth, depth, 1)), "b": Layout((n * depth, depth, 1)), "c": Layout((m * n, n, 1))}
        leading = workloads.get("gemm").problem({"m": m, "n": n, "k": fewer}, "int8", _STORED)
        factors: dict[str, float | str] = {"alpha": 1.0, "beta": 0.0}
        stack = workloads.get("gemm_batched").problem({"batch": self.planes, "m": m, "n": n, "k": depth}, "int8", _STORED, layout)
        return [Call(leading, tops, factors), Call(stack, bytes_of, factors)]

    def _remainders(self, sizes: tuple[int, int, int], names: Mapping[str, str], moduli: tuple[int, ...]) -> list[Launch]:
        """The launches of a stack of products of bytes in its default configuration. Each sum is stored modulo its plane's modulus, or as
        its leading bits where the modulus is 0.
        """
        m, n, depth = sizes
        layout = {"a": Layout((depth, 1)), "b": Layout((depth, 1)), "c": Layout((n, 1))}
        single = workloads.get("gemm").problem({"m": m, "n": n, "k": depth}, "int8", _STORED, layout)
        single = replace(single, dtype=REMAINDERS, options={**single.options, "moduli": " ".join(map(str, moduli))})
        point = forms.default(single, self.device, len(moduli))
        inner = native.build(single, point, self.device, Extras(Batch(len(moduli), m * depth, n * depth, m * n)))
        for temporary in inner.temporaries:
            self._temporary(temporary.name, temporary.nbytes)
            self.zeroed |= {temporary.name} if temporary.zeroed else set()
        fixed = {"alpha": 1, "beta": 0}

        def bound(arg: Arg) -> Arg:
            if arg.name in names and arg.kind != "scalar":
                return replace(arg, name=names[arg.name], role="temporary")
            return replace(arg, value=fixed[arg.name]) if arg.name in fixed and arg.value is None else arg

        launches = (step for step in inner.steps if isinstance(step, Launch))
        return [msgspec.structs.replace(step, args=tuple(bound(arg) for arg in step.args)) for step in launches]

    def _sums(self, piece: Piece) -> list[Launch]:
        """The launch that reconstructs the elements of C, and the one that computes marked elements again."""
        m, n, k = piece.sizes
        sizes = scalar("m", m), scalar("n", n), scalar("k", k)
        factors = self._factor("alpha"), self._factor("beta", None if piece.first[2] == 0 else 1.0)
        facts = tuple(Arg(f"facts_{name}", role="temporary") for name in "ab")
        joined = (Arg(name, role="temporary") for name in ("products", "terms"))
        c, marks = self._operand("c", piece, "inout"), self._temporary("marks", m * n)
        tile, wide = (_UNITS if self._units() else _AGAIN)[self.parts], next(wide for wide in (_WIDE[self.parts], 2, 1) if n % wide == 0)
        flags = self._temporary("flags", 4 * ceil_div(m, tile[0]) * ceil_div(n, tile[1]))
        self.zeroed |= {"flags", "marks"}
        joining = (*sizes, *factors, *joined, *facts, *c, marks, flags)
        mended = (*sizes, *factors, *self._operand("a", piece), *self._operand("b", piece), *c, marks, *facts, flags)
        items = (ceil_div(ceil_div(n, wide), self.wgs) * self.wgs, ceil_div(m, _DOWN[self.parts]), 1)
        down = 32 if self._units() else 16
        groups = (ceil_div(n, tile[1]) * 16, ceil_div(m, tile[0]) * down, 1)
        return [
            Launch(self._join(wide, tile), "residues_join", items, (self.wgs, 1, 1), joining),
            Launch(self._mend(tile), "residues_mend", groups, (16, down, 1), mended),
        ]

    def _join(self, wide: int, tile: tuple[int, int]) -> Source:
        """The text that reconstructs sums, ``wide`` neighbours of C at a time; ``tile``: that of ``_mend``, which shares its flags."""
        real, layout = self.types["REAL"], self.problem.layout["c"]
        found = self.numbers
        form = {"product": found.product, "wide": found.wide, "turn": found.turn, "reduced": self.reduced, "reserve": _RESERVE}
        pairs = layout.vector_width(PRECISION[self.dtype] // 24 * 4) >= 2
        tables = ("joined", "idempotents") if self.reduced else ("joined", "idempotents", "inverses")
        return self._load(
            "join.cl",
            {"WGS": self.wgs, "PAIR": f"{real}2"},
            tables,
            rows=_DOWN[self.parts],
            wide_items=wide,
            tile=tile,
            pairs_of_c=pairs,
            **form,
        )

    def _mend(self, tile: tuple[int, int]) -> Source:
        """The text that computes marked elements again, in tiles of so many rows and columns."""
        defines: dict[str, Value] = {}
        if self.parts == 2:
            defines["CONJUGATE_A"], defines["CONJUGATE_B"] = (-1 if self._conjugated(name) else 1 for name in "ab")
        fast = {"a_fast": not self._transposed("a"), "b_fast": self._transposed("b")}
        return self._load("mend.cl", defines, (), tile=tile, units=self._units(), **fast)

    def _units(self) -> str:
        """The shape of the float64 matrix instruction by which elements are computed again; empty where the device has none."""
        shapes = matrix_shapes(self.device)
        return next((shape for shape in ("16x8x4", "8x8x4") if shape in shapes), "")


def _share(count: int, nbytes: int) -> int:
    """How many of ``count`` rows of ``nbytes`` each are in a piece: all of them, or equal parts rounded up to a multiple of ``_TILE``."""
    parts = ceil_div(count * nbytes, _WORKSPACE)
    return count if parts == 1 else min(count, max(ceil_div(ceil_div(count, parts), _TILE) * _TILE, _TILE))
