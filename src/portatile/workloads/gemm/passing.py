"""The arguments of a product's kernels: operands with offset and row stride, factors, literals. Also shapes of
operands, and rounding up.
"""

from __future__ import annotations

from portatile.records import Arg, Layout, Problem, Role
from portatile.workloads.gemm.reals import types_of


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def operand_shapes(problem: Problem) -> dict[str, tuple[int, int]]:
    """The shapes of A, B and C as stored."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return {
        "a": (m, k) if problem.options["trans_a"] in ("N", "R") else (k, m),
        "b": (k, n) if problem.options["trans_b"] in ("N", "R") else (n, k),
        "c": (m, n),
    }


def real(problem: Problem) -> str:
    """The OpenCL C name of the real type that kernels compute in, for a problem of real numbers (see ``reals``)."""
    return {"float32": "float", "float64": "double", "uint32": "uint"}[problem.dtype]


def scalar(name: str, value: int) -> Arg:
    """A 32-bit integer with a fixed value."""
    return Arg(name, "scalar", dtype="int32", value=value)


def long_scalar(name: str, value: int) -> Arg:
    """A 64-bit integer with a fixed value."""
    return Arg(name, "scalar", dtype="int64", value=value)


def matrix(name: str, role: Role, layout: Layout) -> tuple[Arg, ...]:
    """An operand with its offset and its row stride."""
    return Arg(name, "buffer", role), long_scalar("offset", layout.offset), scalar("ld", layout.strides[0])


def factors(problem: Problem) -> tuple[Arg, ...]:
    """alpha and beta, whose values the caller passes."""
    return tuple(factor(problem, name) for name in ("alpha", "beta"))


def factor(problem: Problem, name: str, value: float | None = None) -> Arg:
    """A scalar factor: passed by the caller, or with a fixed ``value``."""
    return Arg(name, "scalar", dtype=types_of(problem).scalar, value=value)
