"""The steps of a float32 product from terms of 16 bits: largest elements, terms, the product of terms, and the rows that need more."""

from __future__ import annotations

import msgspec

from portatile import workloads
from portatile.records import Arg, Call, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.template import load
from portatile.workloads.gemm import plan
from portatile.workloads.gemm.passing import ceil_div, factor, matrix, scalar
from portatile.workloads.gemm.storage import k_fast
from portatile.workloads.gemm_terms import error
from portatile.workloads.gemm_terms.points import Terms

_TILE = 64  # rows of an operand that a work-group splits, and steps of k at a time
_CHUNK = 512  # steps of k in which a work-group finds the largest elements
_CHUNKS = 64  # chunks, at most, because every work-group reads the results of all
_DEPTH = 256  # steps of k that a work-group splits
_GROUPS = 4  # work-groups of the native product for each compute unit; a work-item has 8 x 8 or 4 x 4 elements of C

_SCALES = Arg("scales", role="temporary")


def native(problem: Problem) -> Plan:
    """The native product, whose configuration is selected as for any other."""
    callee = workloads.get("gemm").problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    return Plan((Call(callee, {name: name for name in "abc"}, {"alpha": "alpha", "beta": "beta"}),))


def build(problem: Problem, point: Terms, device: DeviceInfo) -> Plan:
    """Four launches, and one more with split k. The host does not examine the operands: the last launch, the native product of rows and
    columns that terms cannot represent, ends at once if there are none.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    pitch = ceil_div(k, _TILE) * _TILE
    chunk = ceil_div(max(_CHUNK, ceil_div(k, _CHUNKS)), _TILE) * _TILE
    product = _product(problem, point, device, pitch)
    steps = (*_splitting(problem, pitch, chunk), *product.steps, _rest(problem, device))
    temporaries = (
        Temporary("maxima", 4 * ceil_div(k, chunk) * (m + n)),
        Temporary("scales", 4 * (2 * (m + n) + 1)),
        Temporary("a_terms", 4 * m * pitch),
        Temporary("b_terms", 4 * n * pitch),
        *product.temporaries,
    )
    return Plan(steps, temporaries)


def _splitting(problem: Problem, pitch: int, chunk: int) -> tuple[Launch, Launch]:
    """The launches that find the largest elements of rows of op(A) and columns of op(B), ``chunk`` steps of k at a time, and that write the
    terms in rows of ``pitch``.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    chunks, strips = ceil_div(k, chunk), ceil_div(max(m, n), _TILE)
    text = load(__file__, "terms.cl", {}, **_facts(problem), miss=repr(error.dropped_share(k)), DEPTH=_DEPTH)
    read = (factor(problem, "alpha"), *_read(problem), Arg("maxima", role="temporary"), _SCALES)
    written = tuple(Arg(f"{name}_terms", role="temporary") for name in "ab")
    find = (*_sizes(problem), scalar("chunk", chunk), *read)
    split = (*_sizes(problem), scalar("pitch", pitch), scalar("chunks", chunks), *read, *written)
    return (
        Launch(text, "terms_maxima", (chunks * _TILE, strips * 4, 2), (_TILE, 4, 1), find),
        Launch(text, "terms_split", (ceil_div(pitch, _DEPTH) * _TILE, strips * 4, 2), (_TILE, 4, 1), split),
    )


def _rest(problem: Problem, device: DeviceInfo) -> Launch:
    """The native product of the rows and columns that terms cannot represent."""
    m, n = problem.sizes["m"], problem.sizes["n"]
    each = 8 if device.kind == "gpu" and min(m, n) > _TILE else 4
    groups = min(_GROUPS * device.compute_units, ceil_div(m, 16 * each) * ceil_div(n, 16 * each))
    text = load(__file__, "native.cl", {}, **_facts(problem), EACH=each)
    c = matrix("c", "inout", problem.layout["c"])
    passed = (*_sizes(problem), factor(problem, "alpha"), factor(problem, "beta"), *_read(problem), *c, _SCALES)
    return Launch(text, "terms_native", (groups * 16, 16, 1), (16, 16, 1), passed)


def _facts(problem: Problem) -> dict[str, Value]:
    """Whether each operand is contiguous along k."""
    return {f"{name.upper()}_FAST": int(k_fast(problem, name)) for name in "ab"}


def _sizes(problem: Problem) -> tuple[Arg, ...]:
    return tuple(scalar(name, problem.sizes[name]) for name in "mnk")


def _read(problem: Problem) -> tuple[Arg, ...]:
    """The arguments for A and B."""
    return tuple(arg for name in "ab" for arg in matrix(name, "in", problem.layout[name]))


def _product(problem: Problem, point: Terms, device: DeviceInfo, pitch: int) -> Plan:
    """The product of the terms, of float16 with sums and results in float32; the terms are contiguous along k."""
    lines = {name: Layout((pitch, 1)) for name in "ab"}
    sizes = {**problem.sizes, "k": pitch}
    options: dict[str, Value] = {"trans_a": "N", "trans_b": "T"}
    halves = workloads.get("gemm").problem(sizes, "float16:float32", options, {**lines, "c": problem.layout["c"]})
    product = plan.build(halves, point, device)
    return Plan(tuple(_renamed(step) for step in product.steps if isinstance(step, Launch)), product.temporaries)


def _renamed(step: Launch) -> Launch:
    """The launch with the terms in place of A and B."""
    terms = {name: Arg(f"{name}_terms", role="temporary") for name in "ab"}
    return msgspec.structs.replace(step, args=tuple(terms.get(arg.name, arg) if arg.kind == "buffer" else arg for arg in step.args))
