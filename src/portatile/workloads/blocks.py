"""Building blocks of blocked algorithms: sub-matrices by their layout, products of them as steps of a plan, arguments of launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from portatile.capabilities import MOST_GROUPS
from portatile.errors import ArgumentError
from portatile.records import Arg, Call, DeviceInfo, Launch, Layout, Plan, Problem, Role, Value
from portatile.workloads import get, precisions
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.extras import Extras, Triangle
from portatile.workloads.gemm.forms.gpu import default
from portatile.workloads.gemm.forms.gpu.default import alone, in_stacks
from portatile.workloads.gemm.forms.gpu.estimate import Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.plan import build
from portatile.workloads.gemm.reals import computed
from portatile.workloads.gemm.storage import Batch

_STACK_GROUPS = 1024  # work-groups of a launch for a whole stack, at most: more would only cost time on a processor
Factor = float | str
Operands = Mapping[str, tuple[str, Layout]]
"""The memory (operand or temporary) and the layout of each operand of a product."""


@dataclass(frozen=True)
class BlockProduct:
    """c = factors[0] op(a) op(b) + factors[1] c: ``sizes`` are m, n, k, and ``trans`` are the letters of op for a and b."""

    sizes: tuple[int, int, int]
    operands: Operands
    trans: tuple[str, str]
    factors: tuple[Factor, Factor]


def check(problem: Problem) -> None:
    """Raise ArgumentError for an operand whose rows are not contiguous."""
    for name, layout in problem.layout.items():
        if layout.strides[1] != 1:
            message = f"{problem.workload}: the elements of a row of operand {name} lie {layout.strides[1]} apart; copy or transpose it"
            raise ArgumentError(message)


def precision(problem: Problem) -> str:
    """The precision of the products of which a problem consists."""
    return str(problem.options.get("precision", precisions.NATIVE))


def natively(problem: Problem) -> Problem:
    """The problem with its products in their type's own precision."""
    return replace(problem, options={name: value for name, value in problem.options.items() if name != "precision"})


def part(layout: Layout, row: int, column: int) -> Layout:
    """The layout of the sub-matrix that begins at (row, column)."""
    return Layout(layout.strides, layout.offset + row * layout.strides[0] + column, layout.alignment)


def product(problem: Problem, asked: BlockProduct, batch: int | None = None) -> Call:
    """The product as a call, or with ``batch`` that of stacks of so many matrices, in the problem's precision."""
    layouts = {name: layout for name, (_, layout) in asked.operands.items()}
    name, stacked = ("gemm", {}) if batch is None else ("gemm_batched", {"batch": batch})
    computed = precisions.computed(precision(problem), name, problem.dtype)
    sizes = {**stacked, **dict(zip("mnk", asked.sizes, strict=True))}
    return _call(asked, get(computed.workload).problem(sizes, computed.dtype, _letters(asked), layouts))


def whole(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo) -> Plan:
    """The product in one launch that skips ``triangle``, natively, on devices that ``zeros.skips_zeros``. A processor packs the operands
    first, so ``c`` may be one of them there.
    """
    called = product(problem, asked)
    point, sharing = zeros.shared(called.problem, device, triangle)
    return _bound(problem, called, build(called.problem, point, device, Extras(triangle=triangle, sharing=sharing)))


def mirrored(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo) -> Plan:
    """The product in one launch that reads the stored triangle of a symmetric operand, natively, on NVIDIA's GPUs."""
    called = product(problem, asked)
    tile = in_stacks(computed(called.problem), device, Structure(mirrored=triangle.operand)).mirroring(triangle.operand)
    return _bound(problem, called, build(called.problem, tile, device, Extras(triangle=triangle)))


def doubled(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo) -> Plan:
    """op(A) op(B) + op(B) op(A) in one launch that skips ``triangle``, if ``zeros.doubled`` finds a configuration for it."""
    called = product(problem, asked)
    found = zeros.doubled(called.problem, device)
    assert found is not None
    point, sharing = found
    return _bound(problem, called, build(called.problem, point, device, Extras(triangle=triangle, sharing=sharing)))


def stack(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo, count: int) -> Plan:
    """As ``whole``, for a stack of ``count`` products without transposition, on NVIDIA's GPUs: with the tile for all rows of the stack
    together.
    """
    one = _first(problem, asked)
    every_row = computed(replace(one, sizes={**one.sizes, "m": count * one.sizes["m"]}))
    return _stacked(problem, asked, triangle, device, alone(every_row, device, Structure(triangle.operand)), count)


def small_stack(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo, count: int) -> Plan:
    """As ``stack``, with transpositions, and with the tile of a stack of small products, which small matrices fill."""
    operand = triangle.operand
    structure = Structure(mirrored=operand, count=count) if triangle.symmetric else Structure(operand, count=count)
    tile = in_stacks(computed(_first(problem, asked)), device, structure)
    return _stacked(problem, asked, triangle, device, tile.mirroring(operand) if triangle.symmetric else tile, count)


def reads_triangle(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo, count: int) -> bool:
    """Whether ``mirrored`` (for a stack, ``small_stack`` with a symmetric ``triangle``) is estimated to be faster than expanding the
    matrices.
    """
    return default.reads_triangle(computed(product(problem, asked).problem), device, count, triangle.operand)


def _first(problem: Problem, asked: BlockProduct) -> Problem:
    """The first product of a stack."""
    layouts = {name: replace(layout, strides=layout.strides[1:]) for name, (_, layout) in asked.operands.items()}
    return get("gemm").problem(dict(zip("mnk", asked.sizes, strict=True)), problem.dtype, _letters(asked), layouts)


def _stacked(problem: Problem, asked: BlockProduct, triangle: Triangle, device: DeviceInfo, tile: Gpu, count: int) -> Plan:
    """The launches of a stack of ``count`` products with this tile, without split k."""
    one = _first(problem, asked)
    strides = {name: layout.strides[0] for name, (_, layout) in asked.operands.items()}
    plan = build(one, replace(tile, SPLIT_K=1, JOIN=False, CLUSTER=1, TAIL=0), device, Extras(Batch(count, **strides), triangle))
    return _bound(problem, _call(asked, one), plan)


def added(problem: Problem, asked: BlockProduct, addend: tuple[str, Layout], device: DeviceInfo) -> Plan:
    """c = factors[0] op(a) op(b) + factors[1] addend, natively in one launch, on NVIDIA's GPUs."""
    memory, layout = addend
    called = product(problem, asked)
    plan = build(called.problem, alone(computed(called.problem), device), device, Extras(addend=layout))
    return _bound(problem, msgspec.structs.replace(called, operands={**called.operands, "d": memory}), plan)


def _letters(asked: BlockProduct) -> dict[str, Value]:
    """The transposition options of the product."""
    return {"trans_a": asked.trans[0], "trans_b": asked.trans[1]}


def _call(asked: BlockProduct, callee: Problem) -> Call:
    """The product as a call of ``callee``."""
    names = {name: memory for name, (memory, _) in asked.operands.items()}
    return Call(callee, names, {"alpha": asked.factors[0], "beta": asked.factors[1]})


def _bound(problem: Problem, called: Call, plan: Plan) -> Plan:
    """The launches of a product's plan, with the caller's operands and factors bound to their arguments."""
    target = called.operands["c"]

    def bind(arg: Arg) -> Arg:
        if arg.kind == "scalar":
            factor = called.scalars.get(arg.name) if arg.value is None else None
            return arg if factor is None else replace(arg, name=factor) if isinstance(factor, str) else replace(arg, value=factor)
        name = called.operands.get(arg.name, arg.name)
        role: Role = "temporary" if name not in problem.layout else "inout" if name == target else arg.role
        return replace(arg, name=name, role=role)

    launches = [
        msgspec.structs.replace(step, args=tuple(bind(arg) for arg in step.args)) for step in plan.steps if isinstance(step, Launch)
    ]
    return Plan(tuple(launches), plan.temporaries)


def types(problem: Problem) -> dict[str, Value]:
    """The definitions of the element type for a kernel text; a complex number is a vector of two."""
    real: dict[str, Value] = {"REAL": "float"} if problem.dtype in ("float32", "complex64") else {"REAL": "double", "DOUBLE": True}
    return {**real, "REAL": f"{real['REAL']}2"} if is_complex(problem) else real


def is_complex(problem: Problem) -> bool:
    """Whether the elements are complex."""
    return problem.dtype.startswith("complex")


def transposed(trans: str, hermitian: bool) -> str:
    """The letter (N, T, C conjugate transpose, R conjugate) of op's transpose, or of its conjugate transpose if ``hermitian``."""
    return {"N": "C", "T": "R", "C": "N", "R": "T"}[trans] if hermitian else {"N": "T", "T": "N", "C": "R", "R": "C"}[trans]


def matrix(problem: Problem, name: str, role: Role) -> tuple[Arg, ...]:
    """An operand, its offset and its leading dimension."""
    layout = problem.layout[name]
    return Arg(name, role=role), long_integer(f"{name}_offset", layout.offset), long_integer(f"ld{name}", layout.strides[0])


def scalar(problem: Problem, name: str) -> Arg:
    """A scalar that the caller passes, of the problem's type."""
    return Arg(name, "scalar", dtype=problem.dtype)


def integer(name: str, value: int) -> Arg:
    """A 32-bit literal."""
    return Arg(name, "scalar", dtype="int32", value=value)


def long_integer(name: str, value: int) -> Arg:
    """A 64-bit literal."""
    return Arg(name, "scalar", dtype="int64", value=value)


def stacked(problem: Problem) -> bool:
    """Whether the problem is a stack; the third dimension of its launches then counts the matrices."""
    return "batch" in problem.sizes


def lines(problem: Problem, rows: int, columns: int, group: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(global size, local size) of a kernel whose work-groups take ``group`` columns of a row, and several rows if there are many."""
    most = max(1, _STACK_GROUPS // problem.sizes["batch"]) if stacked(problem) else MOST_GROUPS
    return (-(-columns // group) * group, min(rows, most), 1), (group, 1, 1)


def padded(columns: int) -> int:
    """The leading dimension of a workspace with ``columns`` columns, which allows products to read and write vectors."""
    return -(-columns // 32) * 32
