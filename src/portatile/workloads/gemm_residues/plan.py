"""The steps of a product by residues: A and B as bytes, one stack of products of bytes, the sums put together; pieces of bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portatile import workloads
from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Role, Source, Temporary
from portatile.template import load
from portatile.workloads.gemm import plan as native
from portatile.workloads.gemm.passing import ceil_div, long_scalar, scalar
from portatile.workloads.gemm_residues.numbers import LARGEST, LONGEST, MARGIN, PRECISION, Numbers, numbers

_WORKSPACE = 1 << 31  # bytes of an operand's residues, and of the sums of bytes, at a time
_LINE = 128  # steps of k to which rows of bytes are rounded up where k is long, and a shorter step
_SHORT = 16
_TILE = 16  # rows and columns of C that a group computes again


@dataclass(frozen=True)
class Piece:
    """A part of a problem: rows, columns and steps of k from the first on."""

    first: tuple[int, int, int]
    sizes: tuple[int, int, int]


def build(problem: Problem, config: Config, device: DeviceInfo) -> Plan:
    """The plan; raises ArgumentError for layouts that kernels do not index."""
    native.check(problem)
    m, n, k = (problem.sizes[s] for s in "mnk")
    if m == 0 or n == 0:
        return Plan(())
    if k == 0:
        return Plan((_native(problem),))
    return _Steps(problem, config, device.kind != "cpu").plan()


def padded(k: int) -> int:
    """Bytes of a row along k."""
    step = _LINE if k > _LINE else _SHORT
    return ceil_div(k, step) * step


def _native(problem: Problem) -> Call:
    """A product without terms."""
    callee = workloads.get("gemm").problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    return Call(callee, {name: name for name in "abc"}, {"alpha": "alpha", "beta": "beta"})


class _Steps:
    """What the steps of one plan share."""

    def __init__(self, problem: Problem, config: Config, unrolled: bool) -> None:
        self.problem, self.dtype, self.unrolled = problem, problem.dtype, unrolled
        self.slab, self.lanes, self.rows, self.wgs = (int(config[name]) for name in ("SLAB", "LANES", "ROWS", "WGS"))
        self.m, self.n, self.k = (problem.sizes[s] for s in "mnk")
        self.types: dict[str, Any] = {"REAL": "double" if problem.dtype == "float64" else "float", "LARGEST": LARGEST[problem.dtype]}
        self.sizes: dict[str, int] = {}

    def plan(self) -> Plan:
        """All steps in order: of k, of rows, of columns."""
        planes = len(numbers(self.dtype, 1).moduli) + 1
        depth = padded(min(self.k, LONGEST))
        rows = _share(self.m, planes * depth)
        columns = min(_share(self.n, planes * depth), _share(self.n, 4 * planes * rows))
        steps: list[Launch | Call] = []
        for h in range(0, self.k, LONGEST):
            for i in range(0, self.m, rows):
                for j in range(0, self.n, columns):
                    sizes = min(rows, self.m - i), min(columns, self.n - j), min(LONGEST, self.k - h)
                    steps += self._piece(Piece((i, j, h), sizes), j == 0, columns < self.n or (i == 0))
        return Plan(tuple(steps), tuple(Temporary(name, size) for name, size in self.sizes.items()))

    def _piece(self, piece: Piece, new_rows: bool, new_columns: bool) -> list[Launch | Call]:
        """The steps of a piece; rows or columns that the piece before had are still there as bytes."""
        found = numbers(self.dtype, piece.sizes[2])
        steps: list[Launch | Call] = []
        if new_rows:
            steps += self._bytes("a", piece, found)
        if new_columns:
            steps += self._bytes("b", piece, found)
        return [*steps, self._products(piece, found), *self._sums(piece, found)]

    def _temporary(self, name: str, size: int) -> str:
        self.sizes[name] = max(self.sizes.get(name, 0), size)
        return name

    def _operand(self, name: str, piece: Piece, role: Role = "in") -> tuple[Arg, ...]:
        """A part of A, B or C: memory, offset, row stride."""
        i, j, h = piece.first
        row, column = {"a": (i, h), "b": (h, j), "c": (i, j)}[name]
        if self.problem.options.get(f"trans_{name}") == "T":
            row, column = column, row
        layout = self.problem.layout[name]
        step = layout.strides[0]
        return Arg(name, "buffer", role), long_scalar("offset", layout.offset + row * step + column), long_scalar("ld", step)

    def _factor(self, name: str, value: float | None = None) -> Arg:
        return Arg(name, "scalar", dtype=self.dtype, value=value)

    def _bytes(self, name: str, piece: Piece, found: Numbers) -> list[Launch | Call]:
        """The rows of op(A) or the columns of op(B) as bytes, and what is to be known of each."""
        across, k = piece.sizes[0 if name == "a" else 1], piece.sizes[2]
        depth = padded(k)
        slabs = ceil_div(depth, self.slab)
        source = self._cut(name, found)
        peaks = Arg(self._temporary("peaks", 4 * slabs * across), role="temporary")
        sums = Arg(self._temporary("sums", 4 * slabs * across), role="temporary")
        facts = Arg(self._temporary(f"facts_{name}", 8 * across), role="temporary")
        planes = Arg(self._temporary(f"bytes_{name}", (len(found.moduli) + 1) * across * depth), role="temporary")
        size = (slabs * self.lanes, ceil_div(across, self.rows) * self.rows, 1)
        group = (self.lanes, self.rows, 1)
        read = self._operand(name, piece)
        alpha, length = self._factor("alpha"), scalar("length", self.slab)
        given = (scalar("across", across), scalar("k", k))
        more = (scalar("depth", depth), scalar("slabs", slabs), length, scalar("keep", found.bits), alpha)
        items = self.lanes * self.rows
        folded = (scalar("across", across), scalar("slabs", slabs), peaks, sums, facts)
        return [
            Launch(source, "residues_scan", size, group, (*given, length, alpha, *read, peaks)),
            Launch(source, "residues_cut", size, group, (*given, *more, *read, peaks, sums, planes)),
            Launch(source, "residues_fold", (ceil_div(across, items) * items, 1, 1), (items, 1, 1), folded),
        ]

    def _cut(self, name: str, found: Numbers) -> Source:
        fast = (self.problem.options[f"trans_{name}"] == "N") == (name == "a")
        defines = {"LANES": self.lanes, "ROWS": self.rows, "K_FAST": fast, **self.types}
        defines["PRECISION"] = PRECISION[self.dtype]
        numbers_of = {name: found.tables[name] for name in ("divisors", "reciprocals", "weights")}
        return load(__file__, "cut.cl", defines, moduli=found.moduli, limbs=found.digits, numbers=numbers_of, unrolled=self.unrolled)

    def _products(self, piece: Piece, found: Numbers) -> Call:
        """The stack of products of bytes: one for each modulus, and one of the leading bits."""
        m, n, k = piece.sizes
        depth, count = padded(k), len(found.moduli) + 1
        sums = self._temporary("products", 4 * count * m * n)
        layout = {"a": Layout((m * depth, depth, 1)), "b": Layout((n * depth, depth, 1)), "c": Layout((m * n, n, 1))}
        sizes = {"batch": count, "m": m, "n": n, "k": depth}
        callee = workloads.get("gemm_batched").problem(sizes, "int8", {"trans_a": "N", "trans_b": "T"}, layout)
        return Call(callee, {"a": "bytes_a", "b": "bytes_b", "c": sums}, {"alpha": 1.0, "beta": 0.0})

    def _sums(self, piece: Piece, found: Numbers) -> list[Launch]:
        """The elements of C, and those among them that are computed again."""
        m, n, _ = piece.sizes
        trans = {f"TRANS_{name.upper()}": self.problem.options[f"trans_{name}"] == "T" for name in "ab"}
        defines = {"WGS": self.wgs, **self.types, **trans}
        tables = {name: row for name, row in found.tables.items() if name != "weights"}
        values = {"margin": MARGIN, "product": found.product, "wide": found.wide, "unrolled": self.unrolled}
        source = load(__file__, "join.cl", defines, moduli=found.moduli, numbers=tables, **values)
        marks = Arg(self._temporary("marks", m * n), role="temporary")
        beta = self._factor("beta", None if piece.first[2] == 0 else 1.0)
        sizes = tuple(scalar(label, value) for label, value in zip("mnk", piece.sizes, strict=True))
        factors = self._factor("alpha"), beta
        joined = (Arg(name, role="temporary") for name in ("products", "facts_a", "facts_b"))
        c = self._operand("c", piece, "inout")
        mended = (*sizes, *factors, *self._operand("a", piece), *self._operand("b", piece), *c, marks)
        groups = (ceil_div(n, _TILE) * _TILE, ceil_div(m, _TILE) * _TILE, 1)
        joining = (*sizes, scalar("keep", found.bits), scalar("slack", found.slack), *factors, *joined, *c, marks)
        return [
            Launch(source, "residues_join", (ceil_div(n, self.wgs) * self.wgs, m, 1), (self.wgs, 1, 1), joining),
            Launch(source, "residues_mend", groups, (_TILE, _TILE, 1), mended),
        ]


def _share(count: int, nbytes: int) -> int:
    """How many of ``count`` rows of so many bytes are done at a time: all of them, or even parts, in sixteens."""
    parts = ceil_div(count * nbytes, _WORKSPACE)
    return count if parts == 1 else min(count, max(ceil_div(ceil_div(count, parts), _TILE) * _TILE, _TILE))
