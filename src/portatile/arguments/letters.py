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
    """The matrix, or its transpose where ``trans`` says so; ``name`` is that of the option, for the error."""
    if trans == "N":
        return stored
    check_options((name, trans, "NTC"))
    return stored.flipped()
