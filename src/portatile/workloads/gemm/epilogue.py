"""The epilogue of a product: scales, a bias and an activation, applied to a sum before it is stored."""

from __future__ import annotations

from portatile.dtypes import ProductTypes
from portatile.records import Arg, Layout, Problem, Value

VECTORS = ("bias", "scale_a", "scale_b")
"""The operands that are vectors: what is added, factors of the rows of op(A), of the columns of op(B)."""
CHOICES: dict[str, tuple[Value, ...]] = {
    "bias": ("none", "rows", "columns"),
    "scale_a": ("none", "rows"),
    "scale_b": ("none", "columns"),
    "activation": ("none", "relu", "gelu", "gelu_tanh", "silu"),
    "narrow": ("none", "bias"),
}
"""The options: which vectors there are, and along which side of C they go; what is applied to the sum; which vector has C's type of 16 bits
rather than that of the sums."""
LIPSCHITZ = 1.2
"""The largest slope of an activation: GELU's is 1.129, SiLU's 1.0998."""
FUNCTION = 48
"""Units in the last place of its argument that an activation rounds by: OpenCL allows erf 16, tanh 5 and exp 3, and all are multiplied."""
ROUNDED = ("gelu", "gelu_tanh", "silu")
"""The activations that round."""


def block_of(problem: Problem) -> int:
    """Steps of k that share a factor of each row of op(A) and one of each column of op(B); 0 where there are no such factors."""
    return int(problem.options.get("block", 0))


def block_arguments(problem: Problem, name: str) -> tuple[Arg, ...]:
    """The factors of A's or B's blocks, as kernels take them: of A a row for each row of op(A), of B a row for each block."""
    layout: Layout = problem.layout[f"scale_{name}"]
    return (
        Arg(f"scale_{name}"),
        Arg(f"scale_{name}_offset", "scalar", dtype="int64", value=layout.offset),
        Arg(f"scale_{name}_ld", "scalar", dtype="int32", value=layout.strides[0]),
    )


def options_of(problem: Problem) -> dict[str, Value]:
    """The options of a problem's epilogue; of a problem without one nothing."""
    return {name: problem.options[name] for name in CHOICES if problem.options.get(name, "none") != "none"}


def real(types: ProductTypes) -> str:
    """The dtype of the vectors: that of the sums, float32 for those of integers."""
    return "float64" if types.real == "float64" else "float32"


def element(name: str, types: ProductTypes, narrow: Value) -> str:
    """The dtype of a vector, where ``narrow`` names those that have C's."""
    return types.result.name if name == narrow and types.result.itemsize == 2 else real(types)


def arguments(problem: Problem) -> tuple[Arg, ...]:
    """The vectors that kernels take, each with its offset, in the order of ``VECTORS``."""
    passed: list[Arg] = []
    for name in VECTORS:
        if problem.options.get(name, "none") != "none":
            layout: Layout = problem.layout[name]
            passed += [Arg(name), Arg(f"{name}_offset", "scalar", dtype="int64", value=layout.offset)]
    return tuple(passed)
