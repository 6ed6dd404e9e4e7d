"""The letters of the BLAS: which side, which triangle, transposed or not, with a unit diagonal or not."""

from __future__ import annotations

from typing import Literal

from portatile.arguments.checks import check_options
from portatile.arguments.matrices import Matrix

Trans = Literal["N", "T", "C"]
Side = Literal["L", "R"]
Uplo = Literal["L", "U"]
Diag = Literal["N", "U"]

OTHER: dict[Uplo, Uplo] = {"L": "U", "U": "L"}
"""The triangle that a transposed one is."""
OPPOSITE: dict[Side, Side] = {"L": "R", "R": "L"}
"""The side of a factor in a transposed product."""


def op(stored: Matrix, trans: str, name: str) -> Matrix:
    """The matrix, its transpose (T) or conjugate transpose (C), as ``trans`` says; ``name`` is that of the option, for the error."""
    if trans == "N":
        return stored
    check_options((name, trans, "NTC"))
    return conjugate(stored.flipped(), trans)


def conjugate(stored: Matrix, trans: str) -> Matrix:
    """The matrix, of which with ``trans`` C the conjugates are meant where it is complex."""
    return stored._replace(conjugated=True) if trans == "C" and stored.array.dtype.kind == "c" else stored


def letter(stored: Matrix) -> str:
    """The letter by which a kernel reads a matrix: as it is stored (N), transposed (T), the conjugate of either (R, C)."""
    return named(stored.transposed, stored.conjugated)


def named(transposed: bool, conjugated: bool) -> str:
    """The letter for a transpose, a conjugate (R), both (C) or neither."""
    return ("C" if transposed else "R") if conjugated else "T" if transposed else "N"
