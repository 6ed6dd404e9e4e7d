"""A triangular matrix times another one, or its inverse: what trmm and trsm have alike."""

from __future__ import annotations

from typing import Literal

from portatile.errors import ArgumentError
from portatile.arguments import matrices
from portatile.runtime import run
from portatile.arguments.matrices import Array, Matrix

Trans = Literal["N", "T", "C"]
Side = Literal["L", "R"]
Uplo = Literal["L", "U"]
Diag = Literal["N", "U"]

OTHER: dict[Uplo, Uplo] = {"L": "U", "U": "L"}
"""The triangle that a transposed one is."""
TURNED: dict[Side, Side] = {"L": "R", "R": "L"}
"""The side of a factor in a transposed product."""


def apply(
    workload: str, a: Array, b: Array, letters: tuple[Side, Uplo, Trans, Diag], alpha: float, out: Array | None, device: str | None
) -> Array:
    """Run ``workload``, whose ``letters`` are BLAS's, on the triangle ``a`` and on ``b``; in ``out`` if given.

    Raises ArgumentError for what does not fit.
    """
    side, uplo, trans, diag = letters
    arrays.check_options(("side", side, "LR"), ("uplo", uplo, "LU"), ("trans", trans, "NTC"), ("diag", diag, "NU"))
    alpha = arrays.factor(alpha, "alpha")
    stored_a, source = arrays.matrix(a, "a"), arrays.matrix(b, "b")
    m, n = source.shape
    check_square(stored_a, side, (m, n))
    arrays.alike(stored_a, source)
    result = arrays.new(b, (m, n)) if out is None else out
    stored_b = arrays.output(result, (m, n), source)
    arrays.apart(stored_b, stored_a, "a")
    begin = None if result is b else runtime.copying(source, stored_b, "b")
    transpose = trans != "N"
    if stored_a.transposed:  # the stored matrix is a^T: its other triangle, transposed once more
        uplo, transpose = OTHER[uplo], not transpose
    if stored_b.transposed:  # B^T op(a)^T
        side, transpose, m, n = TURNED[side], not transpose, n, m
    options = (side, uplo, "T" if transpose else "N", diag)
    runtime.run(device, workload, (m, n), options, (stored_a, stored_b), {"alpha": alpha}, (alpha != 0, True), result, begin)
    return result


def check_square(a: Matrix, side: Side, shape: tuple[int, int]) -> None:
    """Raise ArgumentError where ``a`` is not the square matrix that stands on that side of a ``b`` of ``shape``."""
    order = shape[0] if side == "L" else shape[1]
    if a.shape != (order, order):
        raise ArgumentError(f"a is {a.shape}; side {side} with a b of shape {shape} needs {(order, order)}")
