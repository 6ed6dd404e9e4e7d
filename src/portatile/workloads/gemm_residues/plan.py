"""The steps of a product by residues: A and B as bytes, one stack of products of bytes, the sums put together; pieces of bounded memory.

Predicted, not measured, for an H200 that multiplies bytes at 1441 T/s and moves 4 TB/s, float64 and squares of 4096 / 8192 / 16384, in ms:
products 1.45 / 11.6 / 93, scan and cut 0.4 / 1.5 / 5.8, join 0.3 / 1.2 / 5.0: 64 / 77 / 85 Tflop/s. Likewise float32 126 / 156 / 175,
complex128 88 / 104 / 115, complex64 186 / 221 / 244 Tflop/s. Remainders in place of sums (REDUCE) save six bytes for each plane and element
of C, which is 90 of float64 and 270 of complex128: 0.4 / 1.5 / 6.0 ms of float64.
"""

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
from portatile.workloads.gemm.passing import ceil_div, long_scalar, scalar
from portatile.workloads.gemm_residues.numbers import LARGEST, LONGEST, MARGIN, PRECISION, STRETCH, TURN, Numbers, numbers

_WORKSPACE = 1 << 31  # bytes of an operand's residues, and of the sums of bytes, at a time
_LINE = 128  # steps of k to which rows of bytes are rounded up where k is long, and a shorter step
_SHORT = 16
_LONG = 1024
_TILE = 16  # what rows and columns of a piece are a multiple of
_AGAIN = {1: (64, 64), 2: (32, 32)}  # rows and columns of C that 16 x 16 work-items compute again, real and complex


@dataclass(frozen=True)
class Piece:
    """A part of a problem: rows, columns and steps of k from the first on."""

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
    """Bytes of a row along k."""
    step = _LINE if k > _LINE else _SHORT
    return ceil_div(k, step) * step


def sampled(depth: int) -> int:
    """Bytes of a row of leading bits: of long rows every fourth, since a part of |A| |B| bounds it from below too."""
    return depth // 4 if depth >= _LONG else depth


def planes(dtype: str) -> int:
    """Products of bytes for each product: one of each modulus, of complex numbers three."""
    return len(numbers(dtype).moduli) * (3 if product(dtype).complex else 1)


def shares(problem: Problem, reduced: bool = False) -> tuple[int, int]:
    """Rows and columns of C that are done at a time."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    count = planes(problem.dtype)
    line = count * padded(min(k, LONGEST))
    rows = _share(m, line)
    return rows, min(_share(n, line), _share(n, (1 if reduced else 4) * count * rows))


def _native(problem: Problem) -> Call:
    """A product without terms."""
    callee = workloads.get("gemm").problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    return Call(callee, {name: name for name in "abc"}, {"alpha": "alpha", "beta": "beta"})


class _Steps:
    """What the steps of one plan share."""

    def __init__(self, problem: Problem, config: Config, device: DeviceInfo) -> None:
        self.problem, self.dtype, self.device, self.unrolled = problem, problem.dtype, device, device.kind != "cpu"
        self.reduced = config.get("REDUCE", 0) == 1
        self.sum_bytes = 1 if self.reduced else 4
        self.parts = 2 if blocks.is_complex(problem) else 1
        self.slab, self.lanes, self.rows, self.wgs = (int(config[name]) for name in ("SLAB", "LANES", "ROWS", "WGS"))
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
        """All steps in order: of k, of rows, of columns."""
        rows, columns = shares(self.problem, self.reduced)
        steps: list[Launch | Call] = []
        for h in range(0, self.k, LONGEST):
            for i in range(0, self.m, rows):
                for j in range(0, self.n, columns):
                    sizes = min(rows, self.m - i), min(columns, self.n - j), min(LONGEST, self.k - h)
                    steps += self._piece(Piece((i, j, h), sizes), j == 0, columns < self.n or i == 0)
        return Plan(tuple(steps), tuple(Temporary(name, size, zeroed=name in self.zeroed) for name, size in self.sizes.items()))

    def _piece(self, piece: Piece, new_rows: bool, new_columns: bool) -> list[Launch | Call]:
        """The steps of a piece; rows or columns that the piece before had are still there as bytes."""
        moduli = self.numbers
        steps: list[Launch | Call] = []
        if new_rows:
            steps += self._bytes("a", piece, moduli)
        if new_columns:
            steps += self._bytes("b", piece, moduli)
        return [*steps, *self._products(piece), *self._sums(piece, moduli)]

    def _temporary(self, name: str, size: int) -> Arg:
        self.sizes[name] = max(self.sizes.get(name, 0), size)
        return Arg(name, role="temporary")

    def _operand(self, name: str, piece: Piece, role: Role = "in") -> tuple[Arg, ...]:
        """A part of A, B or C: memory, offset, row stride."""
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

    def _bytes(self, name: str, piece: Piece, moduli: Numbers) -> list[Launch | Call]:
        """The rows of op(A) or the columns of op(B) as bytes, and what is to be known of each."""
        across, k = piece.sizes[0 if name == "a" else 1], piece.sizes[2]
        depth = padded(k)
        slabs = ceil_div(depth, self.slab)
        source = self._cut(name, moduli)
        stretches = ceil_div(k, STRETCH)
        peaks, squares = (self._temporary(label, 4 * stretches * across) for label in ("peaks", "squares"))
        sums = self._temporary("sums", 4 * slabs * across)
        facts = self._temporary(f"facts_{name}", 16 * across)
        planes = self._temporary(f"bytes_{name}", self.planes * across * depth)
        tops = self._temporary(f"tops_{name}", across * sampled(depth))
        down = ceil_div(across, self.rows) * self.rows
        group = (self.lanes, self.rows, 1)
        read = (self._factor("alpha"), *self._operand(name, piece))
        given, length = (scalar("across", across), scalar("k", k)), scalar("length", self.slab)
        facts_of = {"keep": moduli.bits, "sampled": int(sampled(depth) < depth), "conjugate": int(self._conjugated(name))}
        asked = tuple(scalar(label, value) for label, value in facts_of.items())
        cutting = (*given, scalar("depth", depth), length, *asked, *read, facts, sums, planes, tops)
        items = self.lanes * self.rows
        lines = (ceil_div(across, items) * items, 1, 1), (items, 1, 1)
        norms = (scalar("across", across), scalar("stretches", stretches), peaks, squares, facts)
        return [
            Launch(source, "residues_scan", (stretches * self.lanes, down, 1), group, (*given, *read, peaks, squares)),
            Launch(source, "residues_norm", *lines, norms),
            Launch(source, "residues_cut", (slabs * self.lanes, down, 1), group, cutting),
            Launch(source, "residues_fold", *lines, (scalar("across", across), scalar("slabs", slabs), sums, facts)),
        ]

    def _load(self, name: str, moduli: Numbers, defines: Mapping[str, Value], tables: tuple[str, ...], **values: Any) -> Source:
        """A text with the numbers of each modulus."""
        chosen = {table: moduli.tables[table] for table in ("divisors", "reciprocals", *tables)}
        spelled = {"parts": self.parts, "COMPLEX": self.parts == 2, "HERMITIAN": False, "unrolled": self.unrolled}
        return load(__file__, name, {**self.types, **defines}, count=self.count, numbers=chosen, **spelled, **values)

    def _cut(self, name: str, moduli: Numbers) -> Source:
        defines: dict[str, Value] = {"LANES": self.lanes, "ROWS": self.rows, "K_FAST": self._transposed(name) == (name == "b")}
        defines["PRECISION"] = PRECISION[self.dtype]
        return self._load("cut.cl", moduli, defines, ("weights",), limbs=moduli.digits, stretch=STRETCH)

    def _products(self, piece: Piece) -> list[Launch | Call]:
        """The stack of products of bytes, and that of the leading bits."""
        m, n, k = piece.sizes
        depth, fewer = padded(k), sampled(padded(k))
        self._temporary("products", self.sum_bytes * self.planes * m * n)
        self._temporary("terms", 4 * m * n)
        layout = {"a": Layout((m * depth, depth, 1)), "b": Layout((n * depth, depth, 1)), "c": Layout((m * n, n, 1))}
        options: dict[str, Value] = {"trans_a": "N", "trans_b": "T"}
        leading = workloads.get("gemm").problem({"m": m, "n": n, "k": fewer}, "int8", options)
        factors: dict[str, float | str] = {"alpha": 1.0, "beta": 0.0}
        bounding = Call(leading, {"a": "tops_a", "b": "tops_b", "c": "terms"}, factors)
        names = {"a": "bytes_a", "b": "bytes_b", "c": "products"}
        if self.reduced:
            return [bounding, *self._remainders((m, n, depth), names)]
        stack = workloads.get("gemm_batched").problem({"batch": self.planes, "m": m, "n": n, "k": depth}, "int8", options, layout)
        return [bounding, Call(stack, names, factors)]

    def _remainders(self, sizes: tuple[int, int, int], names: Mapping[str, str]) -> list[Launch]:
        """The launches of the stack that store each sum modulo its plane's number, in the default configuration for such products."""
        m, n, depth = sizes
        options: dict[str, Value] = {"trans_a": "N", "trans_b": "T"}
        layout = {"a": Layout((depth, 1)), "b": Layout((depth, 1)), "c": Layout((n, 1))}
        single = workloads.get("gemm").problem({"m": m, "n": n, "k": depth}, "int8", options, layout)
        moduli = " ".join(str(p) for p in self.numbers.moduli for _ in range(self.planes // self.count))
        single = replace(single, dtype=REMAINDERS, options={**single.options, "moduli": moduli})
        point = forms.default(single, self.device, self.planes)
        inner = native.build(single, point, self.device, native.Batch(self.planes, m * depth, n * depth, m * n))
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

    def _sums(self, piece: Piece, moduli: Numbers) -> list[Launch]:
        """The elements of C, and those among them that are computed again."""
        m, n, _ = piece.sizes
        defines: dict[str, Value] = {"WGS": self.wgs}
        if self.parts == 2:
            defines["CONJUGATE_A"], defines["CONJUGATE_B"] = (-1 if self._conjugated(name) else 1 for name in "ab")
        tables = ("idempotents", "shares") if self.reduced else ("inverses", "cofactors")
        tile, fast = _AGAIN[self.parts], {"a_fast": not self._transposed("a"), "b_fast": self._transposed("b")}
        form = {
            "product": moduli.product,
            "wide": moduli.wide,
            "reduced": self.reduced,
            "turn": TURN,
            "tile": tile,
            "stretch": STRETCH,
            **fast,
        }
        source = self._load("join.cl", moduli, defines, tables, margin=MARGIN, **form)
        marks = self._temporary("marks", m * n)
        sizes = tuple(scalar(label, value) for label, value in zip("mnk", piece.sizes, strict=True))
        factors = self._factor("alpha"), self._factor("beta", None if piece.first[2] == 0 else 1.0)
        facts = tuple(Arg(f"facts_{name}", role="temporary") for name in "ab")
        joined = (Arg(name, role="temporary") for name in ("products", "terms"))
        c = self._operand("c", piece, "inout")
        joining = (*sizes, scalar("keep", moduli.bits), scalar("slack", moduli.slack), *factors, *joined, *facts, *c, marks)
        mended = (*sizes, *factors, *self._operand("a", piece), *self._operand("b", piece), *c, marks, *facts)
        groups = (ceil_div(n, tile[1]) * 16, ceil_div(m, tile[0]) * 16, 1)
        return [
            Launch(source, "residues_join", (ceil_div(n, self.wgs) * self.wgs, m, 1), (self.wgs, 1, 1), joining),
            Launch(source, "residues_mend", groups, (16, 16, 1), mended),
        ]


def _share(count: int, nbytes: int) -> int:
    """How many of ``count`` rows of so many bytes are done at a time: all of them, or even parts, in sixteens."""
    parts = ceil_div(count * nbytes, _WORKSPACE)
    return count if parts == 1 else min(count, max(ceil_div(ceil_div(count, parts), _TILE) * _TILE, _TILE))
