"""The option letters of BLAS: side, triangle (uplo), transposition (trans) and unit diagonal (diag)."""

from __future__ import annotations

from typing import Any, Literal

from portatile.arguments.checks import FACTORS, check_options
from portatile.arguments.matrices import Matrix, check_alike, matrix
from portatile.errors import ArgumentError

Trans = Literal["N", "T", "C"]
Side = Literal["L", "R"]
Uplo = Literal["L", "U"]
Diag = Literal["N", "U"]

OTHER: dict[Uplo, Uplo] = {"L": "U", "U": "L"}
"""The triangle that becomes the given one when transposed."""
OPPOSITE: dict[Side, Side] = {"L": "R", "R": "L"}
"""The side of a factor in the transposed product."""


def op(stored: Matrix, trans: str, name: str) -> Matrix:
    """The matrix, its transpose (T) or conjugate transpose (C), as ``trans`` says; ``name`` is the option's name in the error message."""
    if trans == "N":
        return stored
    check_options((name, trans, "NTC"))
    return conjugate(stored.flipped(), trans)


def factors(a: Any, b: Any, trans_a: str, trans_b: str) -> tuple[Matrix, Matrix]:
    """op(a), m x k, and op(b), k x n, of two matrices. Raises ArgumentError where their shapes, dtypes or devices do not fit together."""
    stored_a = op(matrix(a, "a", FACTORS), trans_a, "trans_a")
    stored_b = op(matrix(b, "b", FACTORS), trans_b, "trans_b")
    (m, k), (k_b, n) = stored_a.shape, stored_b.shape
    if k != k_b:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {k_b} x {n}: the inner dimensions differ")
    check_alike(stored_a, stored_b)
    return stored_a, stored_b


def conjugate(stored: Matrix, trans: str) -> Matrix:
    """The matrix, marked as conjugated if ``trans`` is C and it is complex."""
    return stored._replace(conjugated=True) if trans == "C" and stored.array.dtype.kind == "c" else stored


def letter(stored: Matrix) -> str:
    """The letter by which a kernel reads a matrix: as stored (N), transposed (T), conjugated (R), or both (C)."""
    return named(stored.transposed, stored.conjugated)


def named(transposed: bool, conjugated: bool) -> str:
    """The letter for a transpose (T), a conjugate (R), both (C) or neither (N)."""
    return ("C" if transposed else "R") if conjugated else "T" if transposed else "N"
