"""What messages say of unsuitable arrays: a conversion that keeps what the array holds, or which argument is no array."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import portatile
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
        ("complex64", checks.DTYPES, "pass its real and imaginary parts separately"),
        ([("x", "f4"), ("y", "f4")], checks.FACTORS, r"take one of its fields, for example a\['x'\]"),
    ],
)
def test_the_advised_conversion_keeps_the_values(dtype: object, types: tuple[str, ...], advice: str) -> None:
    kind = np.dtype(dtype)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match=advice.replace("(", r"\(").replace(")", r"\)") if "\\" not in advice else advice):
        checks.check_dtype(kind, "a", types)
    with pytest.raises(ArgumentError, match="pass another array for the result"):
        checks.check_dtype(kind, "out", types)


class Frame:
    """What libraries of tables and labels pass: something with a shape, whose columns are taken by name."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, values.dtype

    def __getitem__(self, key: object) -> None:
        raise KeyError(key)


ROUTINES: dict[str, tuple[int, Callable[..., Any]]] = {
    "gemm": (2, portatile.gemm),
    "symm": (2, partial(portatile.symm, side="R")),
    "symm with c": (3, partial(portatile.symm, side="R", beta=1.0)),
    "hemm": (2, partial(portatile.hemm, side="L")),
    "syrk": (1, portatile.syrk),
    "her2k": (2, portatile.her2k),
    "trmm": (2, partial(portatile.trmm, side="R")),
    "trsm": (2, partial(portatile.trsm, side="R")),
}


@pytest.mark.parametrize("shapes", [[(3, 3)] * 3, [(3, 3), (2, 3, 3), (2, 3, 3)], [(2, 3, 3)] * 3], ids=str)
@pytest.mark.parametrize("name", ROUTINES)
def test_arrays_of_no_known_kind_are_named(name: str, shapes: list[tuple[int, ...]]) -> None:
    """Whatever the others are, in every place, and as ``out``; lists are converted nowhere but in matmul."""
    number, routine = ROUTINES[name]
    arrays = [np.ones(shape) for shape in shapes[:number]]
    for place in range(number):
        for strange in (Frame(arrays[place]), arrays[place].tolist()):
            with pytest.raises(ArgumentError, match=rf"^{'abc'[place]} is a {type(strange).__name__}; pass a NumPy array"):
                routine(*arrays[:place], strange, *arrays[place + 1 :])
    with pytest.raises(ArgumentError, match=r"^out is a Frame; pass a NumPy array"):
        routine(*arrays, out=Frame(arrays[-1]))


@pytest.mark.parametrize("side", "LR")
def test_right_hand_sides_of_no_known_kind_are_named(side: str) -> None:
    matrix, vector = np.ones((3, 3)), np.ones(3)
    with pytest.raises(ArgumentError, match=r"^b is a Frame; pass a NumPy array"):
        portatile.trsm(matrix, Frame(vector), side=side)
    with pytest.raises(ArgumentError, match=r"^out is a Frame; pass a NumPy array"):
        portatile.trsm(matrix, vector, side=side, out=Frame(vector))


@pytest.mark.parametrize("place", range(8))
def test_vectors_of_no_known_kind_are_named(place: int) -> None:
    vectors: list[Any] = [np.ones(3, np.float32)] * 8
    vectors[place] = Frame(vectors[place])
    with pytest.raises(ArgumentError, match="is a Frame; pass a NumPy array"):
        portatile.mri_q(*vectors)
