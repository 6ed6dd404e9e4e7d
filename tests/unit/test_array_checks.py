"""What messages advise for arrays of unsuitable dtypes: a conversion that keeps what the array holds."""

from __future__ import annotations

import numpy as np
import pytest

from portatile.arguments import checks
from portatile.errors import ArgumentError


@pytest.mark.parametrize(
    ("dtype", "types", "advice"),
    [
        (">f4", checks.FACTORS, "a.astype('float32')"),
        (">f8", checks.COMPLEX, "a.astype('float64')"),
        (">c8", checks.COMPLEX, "a.astype('complex64')"),
        (">c16", checks.COMPLEX, "complex128 in foreign byte order; .*a.astype('complex128')"),
        ("clongdouble", checks.COMPLEX, "a.astype('complex128')"),
        ("longdouble", checks.COMPLEX, "a.astype('float64')"),
        ("int16", checks.COMPLEX, "a.astype('float64')"),
        ("float16", checks.COMPLEX, "a.astype('float32')"),
        ("complex64", checks.DTYPES, "take real and imaginary part apart"),
        ([("x", "f4"), ("y", "f4")], checks.FACTORS, r"take one of its fields, for example a\['x'\]"),
    ],
)
def test_the_advised_conversion_keeps_the_values(dtype: object, types: tuple[str, ...], advice: str) -> None:
    kind = np.dtype(dtype)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match=advice.replace("(", r"\(").replace(")", r"\)") if "\\" not in advice else advice):
        checks.check_dtype(kind, "a", types)
    with pytest.raises(ArgumentError, match="pass another array for the result"):
        checks.check_dtype(kind, "out", types)
