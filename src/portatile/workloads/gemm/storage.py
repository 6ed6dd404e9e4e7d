"""The layouts of a product's operands in memory, and the vector loads that they allow a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portatile.records import Problem, Value
from portatile.workloads.gemm.reals import in_place


@dataclass(frozen=True)
class Batch:
    """``count`` problems of one shape in one launch.

    ``a``, ``b``, ``c``: elements from A, B, C of one problem to those of the next; 0 if all problems share one.
    """

    count: int
    a: int
    b: int
    c: int


def k_fast(problem: Problem, name: str) -> bool:
    """Whether A or B is contiguous along k ("k fast"); otherwise it is contiguous across k ("k slow")."""
    return (problem.options["trans_a"] == "N") if name == "a" else (problem.options["trans_b"] == "T")


def takes_vectors(problem: Problem, name: str, nbytes: int = 16) -> bool:
    """Whether A or B has k slow and can be copied ``nbytes`` at a time without a change of order: its rows are aligned and whole vectors
    long.
    """
    width = nbytes // problem.itemsize
    across = problem.sizes["m" if name == "a" else "n"]
    if not in_place(problem, name):
        return False
    return not k_fast(problem, name) and across % width == 0 and problem.layout[name].vector_width(problem.itemsize) >= width


def takes_vectors_along_k(problem: Problem, name: str, nbytes: int = 16) -> bool:
    """Whether A or B has k fast and can be read ``nbytes`` at a time along k."""
    width = nbytes // problem.itemsize
    if not in_place(problem, name):
        return False
    return k_fast(problem, name) and problem.sizes["k"] % width == 0 and problem.layout[name].vector_width(problem.itemsize) >= width


def transposed(problem: Problem) -> Problem:
    """C^T = op(B)^T op(A)^T, with the layout of C unchanged: the problem of a kernel that stores its tiles transposed."""
    other = {"N": "T", "T": "N"}
    sizes = {**problem.sizes, "m": problem.sizes["n"], "n": problem.sizes["m"]}
    options: dict[str, Value] = {"trans_a": other[str(problem.options["trans_b"])], "trans_b": other[str(problem.options["trans_a"])]}
    options = {**problem.options, **options}
    if "conjugated" in options:
        options["conjugated"] = "".join({"a": "b", "b": "a"}[name] for name in str(options["conjugated"]))
    layout = {**problem.layout, "a": problem.layout["b"], "b": problem.layout["a"]}
    return replace(problem, sizes=sizes, options=options, layout=layout)
