"""Products of host arrays that NumPy computes, without a look at devices: found by the shapes, strides and dtypes of the arrays.

A product that NumPy computes in less time than any device needs for a launch is left to it from the first call on, with nothing compiled.
Of larger ones those come here that NumPy won in a race (``host_blas``).
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import settings

LEAST_LAUNCH = 20e-6
"""Seconds: no driver copies two host arrays, launches a kernel, waits for it and copies its result in less."""
LARGEST_TRIED = 1 << 20
"""Operations of a product that NumPy is timed on: a millisecond even by plain loops."""
_TRIES = 3
_MOST = 4096  # entries of each table below
_LETTERS = ("N", "T", "C")
_MODERATE = float(np.finfo(np.float32).max)  # factors beyond it are left to the routine, as kernels take them in the type of the matrices

DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
"""The dtypes whose products NumPy leaves to its BLAS."""

_Array = NDArray[Any]
Computing = Callable[[_Array, _Array, "_Array | None"], Any]
"""Computes a product of two arrays, into the third one if that is not None."""
_by_form: dict[tuple[object, ...], Computing | None] = {}
"""What describes the arrays of a product -> what computes it; None where the routine has to look further."""
_UNSEEN = object()
_seconds_at_first: dict[tuple[int, ...], float] = {}
"""m, n, k and bytes of an element -> seconds by NumPy, of products that are left to it from the first call on."""


class _Silent(threading.local):
    """Runs functions in a context in which NumPy does not report overflows and invalid operations, as kernels do not.

    A context of its own for each thread: none can be entered twice. ``numpy.errstate`` takes a microsecond more.
    """

    def __init__(self) -> None:
        self.run: Callable[..., Any] = _run_silently
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, NumPy's error state belonged to the thread
            context = contextvars.copy_context()
            context.run(np.seterr, all="ignore")
            self.run = context.run


def _run_silently(function: Callable[..., Any], *given: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*given)


_silent = _Silent()


def product(a: Any, b: Any, out: Any) -> Any:
    """``a @ b`` by NumPy's rules, in ``out`` unless that is None; None, with nothing written, where ``matmul`` has to look further.

    For calls that name no device.
    """
    if out is None:  # as ``product_form``, without a call: this is most of what a small product costs beyond NumPy
        form: tuple[object, ...] = (a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype)
    elif type(out) is np.ndarray:
        form = (a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, out.shape, out.strides, out.dtype)
    else:
        return None
    compute: Any = _by_form.get(form, _UNSEEN)
    if compute is None or settings.selection() != (None, None) or (out is not None and not out.flags.behaved):
        return None
    if compute is _dot:
        return _silent.run(a.dot, b, out)
    return _first(form, a, b, out) if compute is _UNSEEN else compute(a, b, out)


def scaled(a: Any, b: Any, c: Any, factors: tuple[complex, complex], trans: tuple[str, str], out: Any) -> Any:
    """``alpha * op(a) @ op(b) + beta * c`` by NumPy, in ``out`` unless that is None; None where ``gemm`` has to look further.

    For calls that name no device.
    """
    alpha, beta = factors
    if not (trans[0] in _LETTERS and trans[1] in _LETTERS):
        return None
    if not (type(alpha) is type(beta) is float and 0 < abs(alpha) < _MODERATE and abs(beta) < _MODERATE):
        return None
    if (c is None and beta != 0) or (c is not None and type(c) is not np.ndarray) or (out is not None and type(out) is not np.ndarray):
        return None
    form = scaled_form(a, b, c, beta != 0, trans, out)
    compute: Any = _by_form.get(form, _UNSEEN)
    if compute is None or settings.selection() != (None, None):
        return None
    if not (a.flags.aligned and b.flags.aligned and (c is None or c.flags.aligned)):
        return None
    if out is not None and not (out.flags.behaved and _apart(out, a) and _apart(out, b) and (c is None or c is out or _apart(out, c))):
        return None
    op_a, op_b = transposed(a, trans[0]), transposed(b, trans[1])
    target = out if beta == 0 else None
    if compute is not _UNSEEN:
        values = compute(op_a, op_b, target)
    elif a.flags.forc and b.flags.forc and _fits(op_a, op_b, c, out):
        values = _first(form, op_a, op_b, target)
    else:
        return None
    return values if values is None or factors == (1.0, 0.0) else finish(values, factors, c if beta != 0 else None, out)


def finish(values: _Array, factors: tuple[complex, complex], c: _Array | None, out: _Array | None) -> _Array:
    """``alpha * values + beta * c``, without ``c`` where that is None: in ``out``, which may be c, or in ``values``."""
    alpha, beta = factors
    run = _silent.run
    if alpha != 1:
        run(np.multiply, values, alpha, values)
    if c is None:
        return values
    if beta != 1:
        c = run(np.multiply, c, beta, out)
    result: _Array = run(np.add, values, c, values if out is None else out)
    return result


def transposed(array: _Array, trans: str) -> _Array:
    """op(array): a view, or a copy where complex numbers are conjugated."""
    if trans == "N":
        return array
    operand = array.swapaxes(-1, -2)
    return operand.conj() if trans == "C" and operand.dtype.kind == "c" else operand


def product_form(a: _Array, b: _Array, out: _Array | None) -> tuple[object, ...]:
    """What decides how ``product`` multiplies arrays: all but their addresses and values."""
    if out is None:
        return a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype
    return a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, out.shape, out.strides, out.dtype


def scaled_form(a: _Array, b: _Array, c: _Array | None, reads_c: bool, trans: tuple[str, str], out: _Array | None) -> tuple[object, ...]:
    """The same of ``scaled``."""
    form = trans, reads_c, c is out, product_form(a, b, out)
    return form if c is None else (*form, c.shape, c.strides, c.dtype)


def computing(a: _Array, b: _Array, out: _Array | None) -> Computing:
    """NumPy's function for a product of arrays that lie so: ``dot``, which takes less time than ``matmul``, where it computes the same."""
    return _dot if a.ndim <= 2 and b.ndim <= 2 and (out is None or out.flags.c_contiguous) else _matmul


def remember(form: tuple[object, ...], compute: Computing) -> None:
    """Let NumPy compute products of a form from now on."""
    _keep(form, compute)


def computes(form: tuple[object, ...]) -> bool:
    """Whether NumPy computes products of a form."""
    return _by_form.get(form) is not None


def forget() -> None:
    """Forget which products NumPy computes, so that they are timed again."""
    _by_form.clear()
    _seconds_at_first.clear()


def seconds_of(m: int, n: int, k: int, itemsize: int) -> float | None:
    """The seconds that NumPy took for a product that is left to it from the first call on; None for any other."""
    return _seconds_at_first.get((m, n, k, itemsize))


def _dot(a: _Array, b: _Array, out: _Array | None) -> Any:
    return _silent.run(a.dot, b, out)


def _matmul(a: _Array, b: _Array, out: _Array | None) -> Any:
    return _silent.run(np.matmul, a, b, out)


def _first(form: tuple[object, ...], a: _Array, b: _Array, out: _Array | None) -> Any:
    """The first product of a form, if NumPy has it for its BLAS and takes less time for it than a launch; else None."""
    compute = _tried(a, b, out)
    _keep(form, compute)
    return None if compute is None else compute(a, b, out)


def _tried(a: _Array, b: _Array, out: _Array | None) -> Computing | None:
    """NumPy's function for a product, if it takes less time than a launch; ``out`` is not written."""
    if a.dtype not in DTYPES or b.dtype != a.dtype or (out is not None and out.dtype != a.dtype):
        return None
    k = a.shape[-1] if a.ndim and b.ndim else 0  # of numbers, which dot would multiply, the routine knows nothing
    if not 0 < 2 * a.size * b.size <= LARGEST_TRIED * k:
        return None
    compute = computing(a, b, out)
    scratch = None if out is None else np.empty_like(out)  # the output may be an operand too
    try:
        seconds = min(_seconds(compute, a, b, scratch) for _ in range(_TRIES))
    except ValueError:  # the routine says what does not fit
        return None
    if seconds >= LEAST_LAUNCH:
        return None
    if a.ndim == b.ndim == 2:
        if len(_seconds_at_first) >= _MOST:
            _seconds_at_first.clear()
        _seconds_at_first[a.shape[0], b.shape[1], k, a.itemsize] = seconds
    return compute


def _seconds(compute: Computing, a: _Array, b: _Array, out: _Array | None) -> float:
    start = time.perf_counter()
    compute(a, b, out)
    return time.perf_counter() - start


def _keep(form: tuple[object, ...], compute: Computing | None) -> None:
    if len(_by_form) >= _MOST:
        _by_form.clear()
    _by_form[form] = compute


def _apart(out: _Array, operand: _Array) -> bool:
    """Whether the memory of an output and that of an operand lie apart, as that of two arrays does which own it."""
    return (out.flags.owndata and operand.flags.owndata and out is not operand) or not np.may_share_memory(out, operand)


def _fits(a: _Array, b: _Array, c: _Array | None, out: _Array | None) -> bool:
    """Whether two matrices can be multiplied, and c and the output are as the product is, with one contiguous dimension."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return False
    shape, dtype = (a.shape[0], b.shape[1]), a.dtype
    return all(array is None or (array.shape == shape and array.dtype == dtype and array.flags.forc) for array in (c, out))
