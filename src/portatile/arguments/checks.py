"""Checks of arrays and options before anything is computed. Each error message says what to do."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from portatile.device.buffer import Buffer
from portatile.device.masked_arrays import refuse_masks
from portatile.dtypes import RESULTS, name_of
from portatile.errors import ArgumentError

DTYPES = ("float32", "float64")
COMPLEX = (*DTYPES, "complex64", "complex128")
FACTORS = tuple(name for name in RESULTS if name != "tfloat32")
"""The dtypes of matrices that can be multiplied; products may have further dtypes."""
ALL = (*FACTORS, "int32")
NAMES = {np.dtype(name): name for name in DTYPES}  # a dtype's own name attribute takes 3 us


Precision = Literal["native", "tf32", "3m", "emulated", "reproducible"]
"""How a product may be computed; ``routines.gemm.matmul`` explains each value."""
SolvePrecision = Literal["native", "tf32", "3m", "emulated"]
"""How the products inside a triangular solve may be computed."""


def precision(value: str | None, known: tuple[str, ...] = get_args(Precision)) -> str:
    """The precision that a caller asked for, empty for None; raises ArgumentError if it is not ``known``."""
    if value is not None and value not in known:
        names = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        raise ArgumentError(f"precision={value!r} is not known here; write {names}, or leave it out for full precision")
    return value or ""


def complex_factor(value: Any, name: str) -> complex:
    """A scalar such as ``alpha``, real or complex; raises ArgumentError as ``factor`` does. ``check_factors`` checks the dtype."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float, np.floating, np.integer)):
        return factor(value, name)
    if np.iscomplexobj(value) and not isinstance(value, str) and np.size(value) == 1:
        return complex(value)
    return factor(value, name)


def check_factors(factors: tuple[complex, ...], dtype: str) -> None:
    """Raise ArgumentError for factors that do not suit matrices of ``dtype``: complex factors for real matrices, fractions for integers."""
    for value, name in zip(factors, ("alpha", "beta"), strict=False):
        if type(value) is complex and not dtype.startswith("complex"):
            raise ArgumentError(
                f"{name}={value!r} is not a real number, but the matrices are {dtype}; pass a real one, or complex matrices"
            )
        if dtype == "int32" and not whole(value):
            raise ArgumentError(
                f"{name}={value!r}; factors of integer matrices are 32-bit integers: ask for dtype='float32', or convert the matrices"
            )


def check_alive(buffer: Buffer, name: str) -> None:
    """Raise ArgumentError for a Buffer whose memory was released."""
    if not buffer.memory.alive:
        raise ArgumentError(f"{name} is a Buffer whose memory was released, by release(), by `with` or with its device; make a new one")


def whole(value: complex) -> bool:
    """Whether a factor is a 32-bit integer."""
    return type(value) is float and value == value // 1 and -(2.0**31) <= value < 2.0**31


def factor(value: Any, name: str) -> float:
    """A real scalar such as ``alpha``; raises ArgumentError for text, complex numbers and objects that are not numbers."""
    if type(value) is float:
        return value
    try:
        if isinstance(value, (int, float, np.floating, np.integer)):
            return float(value)
        if isinstance(value, (str, bytes)) or np.iscomplexobj(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}={value!r} is not a real number") from None
    except OverflowError:
        raise ArgumentError(f"{name} is too large for a float64") from None


def check_options(*choices: tuple[str, str, str]) -> None:
    """Raise ArgumentError for an option whose value is not among the allowed letters; each choice is (name, value, letters)."""
    for name, value, allowed in choices:
        if value not in tuple(allowed):
            raise ArgumentError(f"{name}={value!r} is not one of {', '.join(allowed)}")


def check_dtype(dtype: np.dtype[Any], name: str, types: tuple[str, ...] = DTYPES) -> None:
    """Raise ArgumentError, with advice, for elements of a dtype that is not one of ``types``."""
    if dtype.hasobject:
        advice = remedy(name, f"convert it, for example with {name}.astype('float64')")
        raise ArgumentError(f"{name} holds Python objects; {advice}")
    if dtype not in NAMES and name_of(dtype) not in types:
        order = "" if dtype.isnative else " in foreign byte order"
        advice = remedy(name, _conversion(dtype, name, types))
        raise ArgumentError(f"{name} has dtype {dtype.newbyteorder('=')}{order}; supported are {', '.join(types)}: {advice}")


def _conversion(dtype: np.dtype[Any], name: str, types: tuple[str, ...]) -> str:
    """Advice for an array of an unsupported dtype: convert it to the nearest supported one."""
    if dtype.names is not None:
        return f"take one of its fields, for example {name}[{dtype.names[0]!r}]"
    native = name_of(dtype.newbyteorder("="))
    if dtype.kind == "c" and types is DTYPES:
        return "pass its real and imaginary parts separately"
    if native in types:
        suggested = native
    elif len(types) == 1:
        suggested = types[0]
    elif dtype.kind == "c":
        suggested = "complex128"
    else:
        suggested = "float64" if dtype.itemsize >= 8 or dtype.kind in "iu" else "float32"
    return f"convert it, for example with {name}.astype('{suggested}')"


def check_orbitals(psi: Any, axes: int) -> None:
    """Raise ArgumentError unless ``psi`` is a NumPy array or Buffer of ``axes`` dimensions (one orbital), or of one more (a batch)."""
    if not isinstance(psi, (np.ndarray, Buffer)):
        raise ArgumentError(f"psi is a {type(psi).__name__}; pass a NumPy array or a portatile Buffer")
    if isinstance(psi, Buffer):
        check_alive(psi, "psi")
    check_dtype(psi.dtype, "psi")
    refuse_masks(psi, "psi")
    if psi.ndim not in (axes, axes + 1):
        raise ArgumentError(f"psi has shape {tuple(psi.shape)}; pass one orbital ({axes} dimensions) or a batch of them ({axes + 1})")


def check_single(array: Any, name: str) -> None:
    """Raise ArgumentError, with advice, for a NumPy array or Buffer that is not float32."""
    if isinstance(array, (np.ndarray, Buffer)) and array.dtype != np.float32:
        advice = remedy(name, f"convert it, for example with {name}.astype('float32')")
        raise ArgumentError(f"{name} has dtype {array.dtype}; it must be float32: {advice}")


def check_writable(array: Any, name: str) -> None:
    """Raise ArgumentError if an output is read-only."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ArgumentError(f"{name} is read-only; pass a writeable array")


def remedy(name: str, advice: str) -> str:
    """Advice for a message about an unsuitable array; converting an output would not help, since the copy would receive the result."""
    return "pass another array for the result" if name == "out" else advice
