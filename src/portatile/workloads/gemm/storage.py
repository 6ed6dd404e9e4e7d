"""Layouts of a product's operands in memory, and the loads that they allow a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portatile.records import Problem, Value
from portatile.workloads.gemm.reals import in_place


@dataclass(frozen=True)
class Batch:
    """``count`` problems of one shape in one launch. ``a``, ``b``, ``c``: elements from one problem's A, B, C to the next's (0: shared)."""

    count: int
    a: int
    b: int
    c: int


def k_fast(problem: Problem, name: str) -> bool:
    """Whether neighbours along k are contiguous in the storage of A or B."""
    return (problem.options["trans_a"] == "N") if name == "a" else (problem.options["trans_b"] == "T")


def takes_vectors(problem: Problem, name: str, nbytes: int = 16) -> bool:
    """Whether A or B can be copied to local memory so many bytes at a time as it lies: k slow, rows aligned and whole vectors long."""
    width = nbytes // problem.itemsize
    across = problem.sizes["m" if name == "a" else "n"]
    if not in_place(problem, name):
        return False
    return not k_fast(problem, name) and across % width == 0 and problem.layout[name].vector_width(problem.itemsize) >= width


def takes_vectors_along_k(problem: Problem, name: str, nbytes: int = 16) -> bool:
    """Whether A or B has k fast and can be read so many bytes at a time along it."""
    width = nbytes // problem.itemsize
    if not in_place(problem, name):
        return False
    return k_fast(problem, name) and problem.sizes["k"] % width == 0 and problem.layout[name].vector_width(problem.itemsize) >= width


def transposed(problem: Problem) -> Problem:
    """C^T = op(B)^T op(A)^T, but for the layout of C, which stays as it is: what a kernel computes that stores its tiles transposed."""
    other = {"N": "T", "T": "N"}
    sizes = {**problem.sizes, "m": problem.sizes["n"], "n": problem.sizes["m"]}
    options: dict[str, Value] = {"trans_a": other[str(problem.options["trans_b"])], "trans_b": other[str(problem.options["trans_a"])]}
    options = {**problem.options, **options}
    if "conjugated" in options:
        options["conjugated"] = "".join({"a": "b", "b": "a"}[name] for name in str(options["conjugated"]))
    layout = {**problem.layout, "a": problem.layout["b"], "b": problem.layout["a"]}
    return replace(problem, sizes=sizes, options=options, layout=layout)
