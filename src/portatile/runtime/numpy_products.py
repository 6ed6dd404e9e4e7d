"""Products of host arrays that NumPy computes, without a look at devices: found by the shapes, strides and dtypes of the arrays.

A product that NumPy computes in less time than any device needs for a launch is left to it from the first call on, with nothing compiled.
Of larger ones those come here that NumPy won in a race (``host_blas``).
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
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
_LARGEST_OF_DOT = 1 << 15  # bytes of a result
_LETTERS = ("N", "T", "C")
_PLAIN = (1.0, 0.0)  # factors of a product
_MODERATE = float(np.finfo(np.float32).max)  # factors beyond it are left to the routine, as kernels take them in the type of the matrices

DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
"""The dtypes whose products NumPy leaves to its BLAS."""

_Array = NDArray[Any]
Computing = Callable[[_Array, _Array, "_Array | None"], Any]
"""Computes a product of two arrays, into the third one if that is not None."""
_by_form: dict[tuple[object, ...], Computing | None] = {}
"""What describes the arrays of a product -> what computes it; None where the routine has to look further."""
_by_scaled_form: dict[tuple[object, ...], Computing | None] = {}
"""The same of products with factors and transpositions."""
_numbers: dict[tuple[complex, np.dtype[Any]], _Array] = {}
"""Factors as arrays without dimensions."""
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


def silently(function: Callable[..., Any], *given: Any) -> Any:
    """What a function returns, which runs without NumPy's reports."""
    return _silent.run(function, *given)


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
    return _first(form, a, b, out) if compute is _UNSEEN else silently(compute, a, b, out)


def scaled(a: Any, b: Any, c: Any, factors: tuple[complex, complex], trans: tuple[str, str], out: Any) -> Any:
    """``alpha * op(a) @ op(b) + beta * c`` by NumPy, in ``out`` unless that is None; None where ``gemm`` has to look further.

    For calls that name no device.
    """
    if c is None and out is None:  # as ``scaled_form``, without a call
        form: tuple[object, ...] = (trans, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype)
    elif c is None and type(out) is np.ndarray:
        form = (trans, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, out.shape, out.strides, out.dtype)
    elif type(c) is np.ndarray and (out is None or out is c):
        same, reads = out is c, factors[1] != 0
        form = (trans, same, reads, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, c.shape, c.strides, c.dtype)
    elif type(c) is np.ndarray and type(out) is np.ndarray:
        form = scaled_form(a, b, c, factors[1] != 0, trans, out)
    else:
        return None
    try:
        compute: Any = _by_scaled_form.get(form, _UNSEEN)
    except TypeError:  # letters of which no hash can be made
        return None
    if compute is None or settings.selection() != (None, None):
        return None
    if not (a.flags.aligned and b.flags.aligned if out is None else _usable(a, b, out)) or not (c is None or _usable_sum(c, out)):
        return None
    alpha, beta = factors
    if not (type(alpha) is type(beta) is float) or (c is None and beta != 0):
        return None
    if factors != _PLAIN and not (alpha != 0 and -_MODERATE < alpha < _MODERATE and -_MODERATE < beta < _MODERATE):
        return None
    if compute is _UNSEEN:
        return _first_scaled(form, (a, b, c), factors, trans, out)
    return _silent.run(compute, a, b, out) if factors == _PLAIN else _silent.run(finished, compute, a, b, c, factors, out)


_ALIGNED, _OWNED, _WRITEABLE = 0x100, 0x4, 0x400  # NumPy's flags, by number: all of an array's at once


def _usable(a: _Array, b: _Array, out: _Array) -> bool:
    """Whether all are aligned, and the output may be written and lies apart from the operands, as arrays that own their memory do."""
    flags = out.flags.num
    all_flags = flags & a.flags.num & b.flags.num
    if not (all_flags & _ALIGNED and flags & _WRITEABLE):
        return False
    return (all_flags & _OWNED and out is not a and out is not b) or not (np.may_share_memory(out, a) or np.may_share_memory(out, b))


def _usable_sum(c: _Array, out: _Array | None) -> bool:
    """Whether ``c`` is aligned, and is the output or lies apart from it."""
    if c is out:
        return True
    flags = c.flags.num
    return (flags & _ALIGNED) != 0 and (out is None or (flags & out.flags.num & _OWNED) != 0 or not np.may_share_memory(out, c))


def _first_scaled(
    form: tuple[object, ...], arrays: tuple[Any, Any, Any], factors: tuple[complex, complex], trans: tuple[str, str], out: Any
) -> Any:
    """The first product of a form of ``scaled``, if NumPy has it for its BLAS and takes less time for it than a launch; else None."""
    a, b, c = arrays
    if not (trans[0] in _LETTERS and trans[1] in _LETTERS and a.flags.forc and b.flags.forc):
        return None
    op_a, op_b = transposed(a, trans[0]), transposed(b, trans[1])
    if not _fits(op_a, op_b, c, out):
        return None
    plain = _tried(op_a, op_b, out if factors[1] == 0 else None)
    _keep(_by_scaled_form, form, None if plain is None else of_transposed(plain, trans, True))
    return None if plain is None else scaled(*arrays, factors, trans, out)


def of_transposed(plain: Computing, trans: Sequence[str], matrices: bool) -> Computing:
    """What transposes its operands, which may be ``matrices`` and no stacks, before it computes as ``plain`` does."""
    if trans[0] == "N" and trans[1] == "N":
        return plain
    if not matrices or "C" in trans:
        return lambda a, b, out: plain(transposed(a, trans[0]), transposed(b, trans[1]), out)
    if trans[0] == "N":
        return lambda a, b, out: plain(a, b.T, out)
    if trans[1] == "N":
        return lambda a, b, out: plain(a.T, b, out)
    return lambda a, b, out: plain(a.T, b.T, out)


def finished(compute: Computing, a: _Array, b: _Array, c: _Array | None, factors: tuple[complex, complex], out: _Array | None) -> _Array:
    """``alpha * op(a) @ op(b) + beta * c``, without ``c`` where beta is 0: in ``out`` unless that is None; it may be c."""
    alpha, beta = factors
    values: _Array = compute(a, b, out if beta == 0 else None)
    if alpha != 1:
        np.multiply(values, _number(alpha, values.dtype), values)
    if c is None or beta == 0:
        return values
    if beta != 1:
        c = np.multiply(c, _number(beta, values.dtype), out)
    result: _Array = np.add(values, c, values if out is None else out)
    return result


def _number(value: complex, dtype: np.dtype[Any]) -> _Array:
    """A factor as an array without dimensions, which NumPy multiplies by in half the time that it needs with one of Python's numbers."""
    key = value, dtype
    number = _numbers.get(key)
    if number is None:
        if len(_numbers) >= _MOST:
            _numbers.clear()
        number = _numbers[key] = np.array(value, dtype)
    return number


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


def scaled_form(a: _Array, b: _Array, c: _Array | None, reads_c: bool, trans: tuple[str, ...], out: _Array | None) -> tuple[object, ...]:
    """The same of ``scaled``."""
    if c is None:
        return (trans, *product_form(a, b, out))
    return (trans, c is out, reads_c, *product_form(a, b, None if out is c else out), c.shape, c.strides, c.dtype)


def computing(a: _Array, b: _Array, out: _Array | None) -> Computing:
    """NumPy's function for a product of arrays that lie so: ``dot``, which takes less time than ``matmul``, where it computes the same.

    It fills the result with zeros first, which takes longer than that where the result is large.
    """
    if a.ndim > 2 or b.ndim > 2 or not (out is None or out.flags.c_contiguous):
        return np.matmul
    elements = (a.shape[0] if a.ndim == 2 else 1) * (b.shape[1] if b.ndim == 2 else 1)
    return _dot if elements * a.itemsize <= _LARGEST_OF_DOT else np.matmul


def remember(form: tuple[object, ...], compute: Computing) -> None:
    """Let NumPy compute products of a form from now on."""
    _keep(_by_form, form, compute)


def remember_scaled(form: tuple[object, ...], compute: Computing) -> None:
    """The same for products with factors and transpositions."""
    _keep(_by_scaled_form, form, compute)


def computes(form: tuple[object, ...]) -> bool:
    """Whether NumPy computes products of a form."""
    return _by_form.get(form) is not None


def forget() -> None:
    """Forget which products NumPy computes, so that they are timed again."""
    _by_form.clear()
    _by_scaled_form.clear()
    _seconds_at_first.clear()


def seconds_of(m: int, n: int, k: int, itemsize: int) -> float | None:
    """The seconds that NumPy took for a product that is left to it from the first call on; None for any other."""
    return _seconds_at_first.get((m, n, k, itemsize))


def _dot(a: _Array, b: _Array, out: _Array | None) -> Any:
    return a.dot(b, out)


def _first(form: tuple[object, ...], a: _Array, b: _Array, out: _Array | None) -> Any:
    """The first product of a form, if NumPy has it for its BLAS and takes less time for it than a launch; else None."""
    compute = _tried(a, b, out)
    _keep(_by_form, form, compute)
    return None if compute is None else silently(compute, a, b, out)


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
        seconds = min(silently(_seconds, compute, a, b, scratch) for _ in range(_TRIES))
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


def _keep(known: dict[tuple[object, ...], Any], form: tuple[object, ...], compute: Any) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[form] = compute


def _fits(a: _Array, b: _Array, c: _Array | None, out: _Array | None) -> bool:
    """Whether two matrices can be multiplied, and c and the output are as the product is, with one contiguous dimension."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return False
    shape, dtype = (a.shape[0], b.shape[1]), a.dtype
    return all(array is None or (array.shape == shape and array.dtype == dtype and array.flags.forc) for array in (c, out))
