"""Small linear algebra on one thread: a BLAS with a thread on every core is many times slower while other processes compile."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

Names = tuple[tuple[str, str], ...]

# The functions that get and set the number of threads: of OpenBLAS in NumPy's wheels and in distributions, and of MKL.
CONTROLS: Names = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@contextmanager
def one_thread(names: Names = CONTROLS) -> Iterator[None]:
    """Limit NumPy's BLAS to the caller's thread; no effect if that BLAS has no such control."""
    available = controls(names)
    if available is None:
        yield
        return
    ask, tell = available
    before = ask()
    tell(1)
    try:
        yield
    finally:
        tell(before)


@cache
def controls(names: Names = CONTROLS) -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Functions that get and set the number of threads of NumPy's BLAS, found in the libraries that NumPy is linked with."""
    try:
        library = ctypes.CDLL(import_module("numpy.linalg._umath_linalg").__file__)
    except (ImportError, AttributeError, TypeError, OSError):  # an unknown build of NumPy
        return None
    for ask, tell in names:
        if hasattr(library, ask) and hasattr(library, tell):
            setting = getattr(library, tell)
            setting.argtypes, setting.restype = (ctypes.c_int,), None
            return getattr(library, ask), setting
    return None
