"""How the operands of a product lie in memory, and what a kernel may do with them for that."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from portatile.records import Problem, Value
from portatile.workload import packed_layout
from portatile.workloads.gemm.point import Point


def k_fast(problem: Problem, name: str) -> bool:
    """Whether neighbours along k are contiguous in the storage of A or B."""
    return (problem.options["trans_a"] == "N") if name == "a" else (problem.options["trans_b"] == "T")


def takes_vectors(problem: Problem, name: str) -> bool:
    """Whether A or B can be copied to local memory 16 bytes at a time as it lies: k slow, rows aligned and whole vectors long."""
    width = 16 // problem.itemsize
    across = problem.sizes["m" if name == "a" else "n"]
    return not k_fast(problem, name) and across % width == 0 and problem.layout[name].vector_width(problem.itemsize) >= width


def takes_vectors_along_k(problem: Problem, name: str) -> bool:
    """Whether A or B has k fast and can be read 16 bytes at a time along it."""
    width = 16 // problem.itemsize
    return k_fast(problem, name) and problem.sizes["k"] % width == 0 and problem.layout[name].vector_width(problem.itemsize) >= width


def turned(problem: Problem) -> Problem:
    """C^T = op(B)^T op(A)^T, but for the layout of C, which stays as it is: what a kernel computes that stores its tiles transposed."""
    other = {"N": "T", "T": "N"}
    sizes = {**problem.sizes, "m": problem.sizes["n"], "n": problem.sizes["m"]}
    options: dict[str, Value] = {"trans_a": other[str(problem.options["trans_b"])], "trans_b": other[str(problem.options["trans_a"])]}
    layout = {**problem.layout, "a": problem.layout["b"], "b": problem.layout["a"]}
    return replace(problem, sizes=sizes, options=options, layout=layout)


def staging(problem: Problem, point: Point, split: bool) -> dict[str, Value]:
    """Where gpu.cl takes its tiles from (see tiles.cl), and whether the tiles divide the operands; ``split`` where it stores bare sums."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    facts: dict[str, Value] = {}
    for name, across, packed, tile in (("a", m, point.PACK_A, point.rows), ("b", n, point.PACK_B, point.columns)):
        if packed:
            source = "panel"
        elif k_fast(problem, name) and (point.MMA or point.KEEP):
            source = "lines" if takes_vectors_along_k(problem, name) else "dots"
        elif k_fast(problem, name):
            source = "turned" if point.TURN and takes_vectors_along_k(problem, name) else "columns"
        else:
            source = "vectors" if takes_vectors(problem, name) else "elements"
        facts[f"{name.upper()}_FROM"] = source
        facts[f"{name.upper()}_EDGE"] = not packed and across % tile != 0
    target = packed_layout((m, n)) if split else problem.layout["c"]
    facts["C_VECTORS"] = n % point.VL == 0 and target.vector_width(problem.itemsize) >= point.VL
    facts["C_EDGE"] = m % point.rows != 0 or n % point.columns != 0
    facts["K_EDGE"] = k % point.KB != 0 and not (point.PACK_A and point.PACK_B)
    return facts


def reading(problem: Problem, point: Point) -> dict[str, Value]:
    """How thin.cl reads its operands, what it has in local memory, and how many sums its group adds at a time."""
    itemsize, a, b = problem.itemsize, problem.layout["a"], problem.layout["b"]
    along, fast = k_fast(problem, "a"), k_fast(problem, "b")
    widest = min(point.VL, point.VL if along else point.TR, 16 // itemsize if point.STAGES > 1 else point.VL)
    width = a.vector_width(itemsize, widest)
    if not fast and problem.sizes["n"] == 1 and b.strides[0] == 1:  # a column of which one row follows the other lies as a row does
        fast, b = True, replace(b, strides=(0, 1))
    together = point.together(itemsize)
    return {
        "K_FAST": along,
        "W": width if along else gcd(width, problem.sizes["m"]),
        "B_FAST": fast,
        "B_WIDTH": b.vector_width(itemsize) if fast else 1,
        "together": together,
        "adders": min(point.adders, max(point.items // (together * point.TBR), 1)),
        "space": point.local_bytes(itemsize, along) // itemsize,
    }
