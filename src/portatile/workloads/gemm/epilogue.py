"""The epilogue of a product: scales, bias and activation, applied to a sum before it is stored."""

from __future__ import annotations

from portatile.dtypes import ProductTypes
from portatile.records import Arg, Layout, Problem, Value

VECTORS = ("bias", "scale_a", "scale_b")
"""The vector operands: the bias that is added, the factors of the rows of op(A), and the factors of the columns of op(B)."""
CHOICES: dict[str, tuple[Value, ...]] = {
    "bias": ("none", "rows", "columns"),
    "scale_a": ("none", "rows"),
    "scale_b": ("none", "columns"),
    "activation": ("none", "relu", "gelu", "gelu_tanh", "silu"),
    "narrow": ("none", "bias"),
}
"""The options: which vectors are present, and along which side of C they run; the activation; and, if C has a 16-bit type, which vector has
that type rather than the type of the sums."""
LIPSCHITZ = 1.2
"""The largest slope of an activation: GELU's is 1.129, SiLU's 1.0998."""
FUNCTION = 48
"""The rounding error of an activation, in units in the last place of its argument: OpenCL allows erf 16, tanh 5 and exp 3, and each result
is multiplied."""
ROUNDED = ("gelu", "gelu_tanh", "silu")
"""The activations that have a rounding error."""


def block_of(problem: Problem) -> int:
    """Steps of k in a block that has one scale for each row of op(A) and each column of op(B); 0 if there are no block scales."""
    return int(problem.options.get("block", 0))


def block_arguments(problem: Problem, name: str) -> tuple[Arg, ...]:
    """The kernel arguments for the block scales of A (a row for each row of op(A)) or of B (a row for each block)."""
    layout: Layout = problem.layout[f"scale_{name}"]
    return (
        Arg(f"scale_{name}"),
        Arg(f"scale_{name}_offset", "scalar", dtype="int64", value=layout.offset),
        Arg(f"scale_{name}_ld", "scalar", dtype="int32", value=layout.strides[0]),
    )


def options_of(problem: Problem) -> dict[str, Value]:
    """The options of a problem's epilogue; empty if it has none."""
    return {name: problem.options[name] for name in CHOICES if problem.options.get(name, "none") != "none"}


def real(types: ProductTypes) -> str:
    """The dtype of the vectors: that of the sums, or float32 if the sums are integers."""
    return "float64" if types.real == "float64" else "float32"


def element(name: str, types: ProductTypes, narrow: Value) -> str:
    """The dtype of the vector called ``name``: that of C if ``narrow`` names it, else that of the sums."""
    return types.result.name if name == narrow and types.result.itemsize == 2 else real(types)


def arguments(problem: Problem) -> tuple[Arg, ...]:
    """The kernel arguments for the vectors, each with its offset, in the order of ``VECTORS``."""
    passed: list[Arg] = []
    for name in VECTORS:
        if problem.options.get(name, "none") != "none":
            layout: Layout = problem.layout[name]
            passed += [Arg(name), Arg(f"{name}_offset", "scalar", dtype="int64", value=layout.offset)]
    return tuple(passed)
