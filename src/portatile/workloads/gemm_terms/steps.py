"""The steps of a float32 product from terms of 16 bits: largest elements, terms, the product of terms, and what these cannot give."""

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

_TILE = 64  # rows of an operand that a group splits, steps of k at a time
_CHUNK = 512  # steps of k, of which a group finds the largest elements
_CHUNKS = 64  # at most, because every group reads what all found
_DEPTH = 256  # steps of k that a group splits
_GROUPS = 4  # of the native product, whose work-items have 8 x 8 elements of C or 4 x 4, for each compute unit


def native(problem: Problem) -> Plan:
    """The native product, whose configuration is selected as for any other."""
    callee = workloads.get("gemm").problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    return Plan((Call(callee, {name: name for name in "abc"}, {"alpha": "alpha", "beta": "beta"}),))


def build(problem: Problem, point: Terms, device: DeviceInfo) -> Plan:
    """Four launches, one more where groups share the k of a tile. No host looks at what the operands hold: the last one, the native
    product of rows and columns that the terms do not give, ends at once where there are none.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    pitch = ceil_div(k, _TILE) * _TILE
    chunk = ceil_div(max(_CHUNK, ceil_div(k, _CHUNKS)), _TILE) * _TILE
    chunks, strips = ceil_div(k, chunk), ceil_div(max(m, n), _TILE)
    facts: dict[str, Value] = {f"{name.upper()}_FAST": int(k_fast(problem, name)) for name in "ab"}
    splitting = load(__file__, "terms.cl", {}, **facts, miss=repr(error.missed(k)), DEPTH=_DEPTH)
    alpha, scales, maxima = factor(problem, "alpha"), Arg("scales", role="temporary"), Arg("maxima", role="temporary")
    given = tuple(arg for name in "ab" for arg in matrix(name, "in", problem.layout[name]))
    sizes = tuple(scalar(name, value) for name, value in (("m", m), ("n", n), ("k", k)))
    largest = Launch(
        splitting,
        "terms_maxima",
        (chunks * _TILE, strips * 4, 2),
        (_TILE, 4, 1),
        (*sizes, scalar("chunk", chunk), alpha, *given, maxima, scales),
    )
    split = Launch(
        splitting,
        "terms_split",
        (ceil_div(pitch, _DEPTH) * _TILE, strips * 4, 2),
        (_TILE, 4, 1),
        (
            *sizes,
            scalar("pitch", pitch),
            scalar("chunks", chunks),
            alpha,
            *given,
            maxima,
            scales,
            *(Arg(f"{name}_terms", role="temporary") for name in "ab"),
        ),
    )
    each = 8 if device.kind == "gpu" and min(m, n) > _TILE else 4
    groups = min(_GROUPS * device.compute_units, ceil_div(m, 16 * each) * ceil_div(n, 16 * each))
    rest = Launch(
        load(__file__, "native.cl", {}, **facts, EACH=each),
        "terms_native",
        (groups * 16, 16, 1),
        (16, 16, 1),
        (*sizes, alpha, factor(problem, "beta"), *given, *matrix("c", "inout", problem.layout["c"]), scales),
    )
    product = _product(problem, point, device, pitch)
    temporaries = (
        Temporary("maxima", 4 * chunks * (m + n)),
        Temporary("scales", 4 * (2 * (m + n) + 1)),
        Temporary("a_terms", 4 * m * pitch),
        Temporary("b_terms", 4 * n * pitch),
        *product.temporaries,
    )
    return Plan((largest, split, *product.steps, rest), temporaries)


def _product(problem: Problem, point: Terms, device: DeviceInfo, pitch: int) -> Plan:
    """The product of the terms: one of float16 with sums and results of float32, whose operands lie along k."""
    lines = {name: Layout((pitch, 1)) for name in "ab"}
    sizes = {**problem.sizes, "k": pitch}
    options: dict[str, Value] = {"trans_a": "N", "trans_b": "T"}
    halves = workloads.get("gemm").problem(sizes, "float16:float32", options, {**lines, "c": problem.layout["c"]})
    found = plan.build(halves, point, device)
    return Plan(tuple(_renamed(step) for step in found.steps if isinstance(step, Launch)), found.temporaries)


def _renamed(step: Launch) -> Launch:
    """The launch with the terms in place of the operands."""
    terms = {name: Arg(f"{name}_terms", role="temporary") for name in "ab"}
    return msgspec.structs.replace(step, args=tuple(terms.get(arg.name, arg) if arg.kind == "buffer" else arg for arg in step.args))
