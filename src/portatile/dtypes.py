"""Element types by name: how kernels store and compute with them, how they round, and NumPy's dtype for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from portatile.errors import ArgumentError


@dataclass(frozen=True)
class Element:
    """One element type.

    ``stored``: OpenCL C's type of a component in memory; types that devices may lack are stored as unsigned integers of their bits.
    ``real``: the type in which components are multiplied and added. ``unit``: the unit roundoff, half the distance from 1 to the next
    number (0 for integers, which do not round). ``normal``: the smallest normal number.
    """

    name: str
    itemsize: int
    stored: str
    real: str
    unit: float
    normal: float
    components: int = 1

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype; that of ml_dtypes for bfloat16 and eight-bit floats."""
        return numpy_type(self.name)


ELEMENTS: Mapping[str, Element] = {
    element.name: element
    for element in (
        Element("float32", 4, "float", "float", 2.0**-24, 2.0**-126),
        Element("float64", 8, "double", "double", 2.0**-53, 2.0**-1022),
        Element("float16", 2, "ushort", "float", 2.0**-11, 2.0**-14),
        Element("tfloat32", 4, "float", "float", 2.0**-10, 2.0**-126),
        Element("bfloat16", 2, "ushort", "float", 2.0**-8, 2.0**-126),
        Element("float8_e4m3fn", 1, "uchar", "float", 2.0**-4, 2.0**-6),
        Element("float8_e5m2", 1, "uchar", "float", 2.0**-3, 2.0**-14),
        Element("complex64", 8, "float", "float", 2.0**-24, 2.0**-126, 2),
        Element("complex128", 16, "double", "double", 2.0**-53, 2.0**-1022, 2),
        Element("int8", 1, "char", "uint", 0.0, 0.0),
        Element("int32", 4, "uint", "uint", 0.0, 0.0),
    )
}
"""tfloat32 is float32 in memory, of whose fraction a device's units may multiply only the leading ten bits.

Sums of int8 are formed modulo 2**32 in unsigned integers, whose overflow is defined in C.
"""

RESULTS: Mapping[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float64": ("float64",),
    "float16": ("float16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "tfloat32": ("float32",),
    "complex64": ("complex64",),
    "complex128": ("complex128",),
    "int8": ("int32", "float32", "float16", "bfloat16"),
    "float8_e4m3fn": ("float32", "float16", "bfloat16"),
    "float8_e5m2": ("float32", "float16", "bfloat16"),
}
"""The result dtypes of products by operand dtype, the default first."""

REMAINDERS = "int8:int8"
"""Products of int8 whose sums become remainders of one byte, which only workloads ask for: see ``gemm_residues``."""
HELD = {"tfloat32": "float32"}
"""Dtypes of products whose operands are arrays of another dtype."""
_REALS = {"float": "float32", "double": "float64", "uint": "uint32"}


@dataclass(frozen=True)
class ProductTypes:
    """The dtypes of a product: of its operands and of its result.

    A problem's dtype names them: ``float16`` alone if the result has the default dtype, else ``float16:float32``.
    """

    operand: Element
    result: Element

    @property
    def plain(self) -> bool:
        """Whether kernels compute with the operands as stored: float32 and float64."""
        return self.operand.name in ("float32", "float64", "tfloat32")

    @property
    def complex(self) -> bool:
        """Whether the elements are complex."""
        return self.operand.components == 2

    @property
    def converted(self) -> bool:
        """Whether operands are converted when they are read."""
        return self.operand.stored != self.operand.real

    @property
    def real(self) -> str:
        """The dtype of one component of the sums: float32, float64 or uint32."""
        return _REALS[self.operand.real]

    @property
    def scalar(self) -> str:
        """The dtype of the factors alpha and beta: that of the sums, or of complex operands; float32 if integer sums become floats."""
        if self.real == "uint32":
            return "int32" if self.result.real == "uint" else "float32"
        return self.operand.name if self.complex else self.real


COMPLEX = ("float32", "float64", "complex64", "complex128")
"""The dtypes of the other BLAS routines."""
PRODUCTS: tuple[str, ...] = tuple(
    operand if result == results[0] else f"{operand}:{result}" for operand, results in RESULTS.items() for result in results
)
"""The dtypes of products, float32 and float64 first."""


@lru_cache(maxsize=256)
def product(dtype: str) -> ProductTypes:
    """The dtypes that a problem's dtype names; raises ArgumentError for an unknown one."""
    operand, _, result = dtype.partition(":")
    if operand not in RESULTS or (result and result not in RESULTS[operand] and dtype != REMAINDERS):
        raise ArgumentError(f"{dtype!r} is not a dtype of products; known are {', '.join(PRODUCTS)}")
    return ProductTypes(ELEMENTS[operand], ELEMENTS[result or RESULTS[operand][0]])


@lru_cache(maxsize=256)
def product_name(operand: str, result: str) -> str:
    """The dtype of a problem whose operands and result have these dtypes; raises ArgumentError if there is no such product."""
    known = RESULTS.get(operand, ())
    if result not in known:
        has = f"{', '.join(known)}; pass out= or dtype= of one of these" if known else "none"
        raise ArgumentError(f"a product of {operand} has no result of dtype {result}; it has {has}")
    return operand if result == known[0] else f"{operand}:{result}"


def named(dtype: Any) -> str:
    """The name of an element type as a user may write it: a name, a dtype of NumPy or ml_dtypes, PyTorch's ``torch.float16``.

    Raises ArgumentError for anything else.
    """
    text = dtype if isinstance(dtype, str) else str(dtype)
    last = text.rpartition(".")[2]
    if last in ELEMENTS and last not in HELD:
        return last
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        raise ArgumentError(f"dtype={dtype!r} is not an element type; write for example 'float32'") from None


@lru_cache(maxsize=256)
def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a NumPy dtype; empty for foreign byte order. Cached, because dtype.name takes 3 us."""
    return dtype.name if dtype.isnative else ""


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """NumPy's dtype with that name, or that of ml_dtypes."""
    try:
        return np.dtype(HELD.get(name, name))
    except TypeError:
        import ml_dtypes  # registers its dtypes with NumPy

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def itemsize(dtype: str) -> int:
    """Bytes of an element of an operand."""
    return ELEMENTS[dtype.partition(":")[0]].itemsize


def factor(dtype: str, value: complex) -> complex:
    """A factor as kernels of a product of this dtype use it: rounded to the dtype of the factors."""
    rounded: complex = np.dtype(product(dtype).scalar).type(value).item()
    return rounded


def strided(array: NDArray[Any], shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool | None = None) -> NDArray[Any]:
    """NumPy's ``as_strided``, also for dtypes that NumPy does not know; ``strides`` in bytes."""
    if array.dtype.kind != "V" and array.dtype.name in ("float32", "float64"):
        return as_strided(array, shape, strides, writeable=array.flags.writeable if writeable is None else writeable)
    stand_in = array.view(f"V{array.dtype.itemsize}")
    view = as_strided(stand_in, shape, strides, writeable=array.flags.writeable if writeable is None else writeable)
    return view.view(array.dtype)
