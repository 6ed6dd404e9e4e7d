"""What the kernels of a product are passed: operands with offset and row stride, factors, literals; the operands' shapes; rounding up."""

from __future__ import annotations

from portatile.records import Arg, Layout, Problem, Role


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def operand_shapes(problem: Problem) -> dict[str, tuple[int, int]]:
    """The shapes of A, B and C as they are stored."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return {
        "a": (m, k) if problem.options["trans_a"] == "N" else (k, m),
        "b": (k, n) if problem.options["trans_b"] == "N" else (n, k),
        "c": (m, n),
    }


def real(problem: Problem) -> str:
    """The element type as the kernels spell it."""
    return {"float32": "float", "float64": "double"}[problem.dtype]


def scalar(name: str, value: int) -> Arg:
    """A 32-bit literal."""
    return Arg(name, "scalar", dtype="int32", value=value)


def long_scalar(name: str, value: int) -> Arg:
    """A 64-bit literal."""
    return Arg(name, "scalar", dtype="int64", value=value)


def matrix(name: str, role: Role, layout: Layout) -> tuple[Arg, ...]:
    """An operand, its offset and its row stride."""
    return Arg(name, "buffer", role), long_scalar("offset", layout.offset), scalar("ld", layout.strides[0])


def factors(problem: Problem) -> tuple[Arg, ...]:
    """alpha and beta, which the caller passes."""
    return tuple(Arg(name, "scalar", dtype=problem.dtype) for name in ("alpha", "beta"))
