"""Products of host arrays that NumPy computes without consulting any device, decided by their multiply-adds or their sizes.

A product that NumPy computes in about the time of one kernel launch is left to NumPy from the first call on: nothing is compiled. Larger
products come here after NumPy has won a race (``host_blas``). The look-up touches few Python objects: a product of some hundred kilobytes
evicts the interpreter's data from the processor's caches, and every object that is touched afterwards is fetched from memory again.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy import matmul, ndarray
from numpy.typing import NDArray

from portatile import settings
from portatile.runtime.host.numpy_speed import multiply_adds_per_second

LEAST_LAUNCH = 40e-6
"""Seconds: hardly any driver transfers two host arrays, launches a kernel, waits for it and returns the result in less."""
BY_NUMPY = "NumPy's BLAS where no device is named: it takes no longer than a launch"
_EACH = 4000  # multiply-adds that take as long as NumPy's overhead for each matrix of a stack
_MOST = 4096  # entries in each table below
_TINY = 1 << 14  # multiply-adds
_LETTERS = ("N", "T", "C")
PLAIN = (1.0, 0.0)  # the factors alpha and beta of a plain product
HOST = frozenset((ndarray, list, tuple))  # the operand types that are computed here, or after conversion
# larger factors are left to the routine, because kernels take factors in the dtype of the matrices
_MODERATE = float(np.finfo(np.float32).max)

DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
"""The dtypes whose products NumPy passes to its BLAS."""

_Array = NDArray[Any]
Computing = Callable[[_Array, _Array, "_Array | None"], Any]
"""Computes a product of two arrays, into the third array unless that is None."""
Sizes = tuple[int, int, int]
"""The lengths of a and b, and the elements of b: m, k and n k of two matrices. Products with vectors may share an entry with others, which
is harmless, since NumPy's result is right for any operands.
"""
_known: dict[np.dtype[Any], tuple[int, set[Sizes]]] = {}
"""Dtype -> the multiply-adds that NumPy does in the time of a launch, and the sizes of larger products that NumPy computes."""
_by_form: dict[tuple[object, ...], Computing | None] = {}
"""Description of stacks of matrices -> the function that multiplies them; None where the routine has to look further."""
_by_scaled_form: dict[tuple[object, ...], Computing | None] = {}
"""The same for products with factors and transpositions."""
_numbers: dict[tuple[complex, np.dtype[Any]], _Array] = {}
"""Factors as zero-dimensional arrays."""
_UNSEEN = object()
_ANY = (None, None)  # the selector where no device is named


class _SilentContext(threading.local):
    """Runs functions in a context in which NumPy reports no overflows and invalid operations, just as kernels report none.

    Each thread has its own context, because a context cannot be entered twice. ``numpy.errstate`` would take a microsecond more.
    """

    def __init__(self) -> None:
        self.run: Callable[..., Any] = _run_silently
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before version 2, NumPy's error state was per thread
            context = contextvars.copy_context()
            context.run(np.seterr, all="ignore")
            self.run = context.run


def _run_silently(function: Callable[..., Any], *given: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*given)


_silent = _SilentContext()


def silently(function: Callable[..., Any], *given: Any) -> Any:
    """The result of a function, run without NumPy's floating-point warnings."""
    return _silent.run(function, *given)


def product(a: Any, b: Any, out: Any) -> Any:
    """``a @ b`` by NumPy's rules, in ``out`` unless that is None; None, with nothing written, where ``matmul`` has to look further.

    For calls that name no device.
    """
    dtype = a.dtype
    known = _known.get(dtype) or _measured(dtype)
    if known is None or b.dtype is not dtype or not (out is None or (type(out) is ndarray and out.dtype is dtype)):
        return None
    if settings.selection() != _ANY:
        return None
    if b.ndim > 2 or not 0 < a.ndim < 3 or b.ndim == 0:
        return _of_stacks(a, b, out)
    k, times = len(b), a.size * b.size
    if times > known[0] * k and (len(a), k, b.size) not in known[1]:
        return None
    try:
        return _silent.run(a.dot, b, out) if times <= _TINY * k else _silent.run(matmul, a, b, out)
    except ValueError:  # shapes that do not fit, or an output that ``dot`` cannot write to
        return _compute_or_none(matmul, a, b, out) if times <= _TINY * k else None


def _measured(dtype: np.dtype[Any]) -> tuple[int, set[Sizes]] | None:
    """The entry of a dtype in ``_known``; None for a dtype that NumPy does not pass to its BLAS."""
    if dtype not in DTYPES:
        return None
    return _known.setdefault(dtype, (int(LEAST_LAUNCH * multiply_adds_per_second(dtype)), set()))


def _compute_or_none(compute: Computing, a: _Array, b: _Array, out: _Array | None) -> Any:
    """The product; None, with nothing written, where the arrays or the output do not fit."""
    try:
        return _silent.run(compute, a, b, out)
    except ValueError:
        return None


def _of_stacks(a: _Array, b: _Array, out: _Array | None) -> Any:
    """``product`` for stacks of matrices."""
    form = product_form(a, b, out)
    compute: Any = _by_form.get(form, _UNSEEN)
    if compute is _UNSEEN:
        compute = _if_brief(a, b, out)
        _keep(_by_form, form, compute)
    return None if compute is None else _compute_or_none(compute, a, b, out)


def scaled(a: Any, b: Any, c: Any, factors: tuple[complex, complex], trans: tuple[str, str], out: Any) -> Any:
    """``alpha * op(a) @ op(b) + beta * c`` by NumPy, in ``out`` unless that is None; None where ``gemm`` has to look further.

    For calls that name no device.
    """
    if not (type(c) is ndarray or (c is None and factors[1] == 0)) or not (out is None or type(out) is ndarray):
        return None
    form = scaled_form(a, b, c, factors[1] != 0, trans, out)
    try:
        compute: Any = _by_scaled_form.get(form, _UNSEEN)
    except TypeError:  # unhashable letters
        return None
    if compute is None or settings.selection() != _ANY:
        return None
    if not (a.flags.aligned and b.flags.aligned if out is None else _usable(a, b, out)) or not (c is None or _usable_sum(c, out)):
        return None
    alpha, beta = factors
    if not (type(alpha) is type(beta) is float) or (c is None and beta != 0):
        return None
    if factors != PLAIN and not (alpha != 0 and -_MODERATE < alpha < _MODERATE and -_MODERATE < beta < _MODERATE):
        return None
    if compute is _UNSEEN:
        return _first_scaled(form, (a, b, c), factors, trans, out)
    return _silent.run(compute, a, b, out) if factors == PLAIN else _silent.run(finished, compute, a, b, c, factors, out)


_ALIGNED, _OWNED, _WRITEABLE = 0x100, 0x4, 0x400  # NumPy's flags as numbers, so that all flags of an array are tested at once


def _usable(a: _Array, b: _Array, out: _Array) -> bool:
    """Whether all arrays are aligned, and the output is writeable and overlaps no operand: arrays that own their memory do not overlap."""
    flags = out.flags.num
    all_flags = flags & a.flags.num & b.flags.num
    if not (all_flags & _ALIGNED and flags & _WRITEABLE):
        return False
    return (all_flags & _OWNED and out is not a and out is not b) or not (np.may_share_memory(out, a) or np.may_share_memory(out, b))


def _usable_sum(c: _Array, out: _Array | None) -> bool:
    """Whether ``c`` is aligned, and is either the output itself or does not overlap it."""
    if c is out:
        return True
    flags = c.flags.num
    return (flags & _ALIGNED) != 0 and (out is None or (flags & out.flags.num & _OWNED) != 0 or not np.may_share_memory(out, c))


def _first_scaled(
    form: tuple[object, ...], arrays: tuple[Any, Any, Any], factors: tuple[complex, complex], trans: tuple[str, str], out: Any
) -> Any:
    """The first product of a form of ``scaled``, if NumPy passes it to BLAS and takes less time than a launch; else None."""
    a, b, c = arrays
    if not (trans[0] in _LETTERS and trans[1] in _LETTERS and a.flags.forc and b.flags.forc):
        return None
    op_a, op_b = transposed(a, trans[0]), transposed(b, trans[1])
    if not _fits(op_a, op_b, c, out):
        return None
    plain = _if_brief(op_a, op_b, out if factors[1] == 0 else None)
    _keep(_by_scaled_form, form, None if plain is None else of_transposed(plain, trans, True))
    return None if plain is None else scaled(*arrays, factors, trans, out)


def of_transposed(plain: Computing, trans: Sequence[str], matrices: bool) -> Computing:
    """A function that transposes its operands (``matrices``, or else stacks) and then computes as ``plain`` does."""
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
    """``alpha * op(a) @ op(b) + beta * c``, without ``c`` where beta is 0: in ``out`` unless that is None; ``out`` may be ``c``."""
    alpha, beta = factors
    values: _Array = compute(a, b, out if beta == 0 else None)
    if alpha != 1:
        np.multiply(values, _factor_array(alpha, values.dtype), values)
    if c is None or beta == 0:
        return values
    if beta != 1:
        c = np.multiply(c, _factor_array(beta, values.dtype), out)
    result: _Array = np.add(values, c, values if out is None else out)
    return result


def _factor_array(value: complex, dtype: np.dtype[Any]) -> _Array:
    """A factor as a zero-dimensional array, by which NumPy multiplies in half the time that it needs for a Python number."""
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
    """The key that decides how ``product`` multiplies arrays of one dtype: everything but their addresses and values."""
    return a.shape, a.strides, b.shape, b.strides, a.dtype, None if out is None else out.strides


def scaled_form(a: _Array, b: _Array, c: _Array | None, reads_c: bool, trans: tuple[str, ...], out: _Array | None) -> tuple[object, ...]:
    """The key that decides how ``scaled`` multiplies arrays."""
    form: tuple[object, ...] = trans, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype
    if out is not None and out is not c:
        form += out.shape, out.strides, out.dtype
    return form if c is None else (*form, c is out, reads_c, c.shape, c.strides, c.dtype)


def computing(a: _Array, b: _Array, out: _Array | None) -> Computing:
    """NumPy's function for a product of arrays of this layout: ``dot``, which has less overhead than ``matmul``, where both compute the
    same.

    ``dot`` fills its result with zeros first, which costs more than it saves where the result is large.
    """
    if a.ndim > 2 or b.ndim > 2 or not (out is None or out.flags.c_contiguous):
        return matmul
    return _dot if a.size * b.size <= _TINY * a.shape[-1] else matmul


def remember(a: _Array, b: _Array, out: _Array | None) -> None:
    """Have NumPy compute products of arrays like these from now on."""
    if a.ndim > 2 or b.ndim > 2:
        _keep(_by_form, product_form(a, b, out), matmul)
        return
    known = _measured(a.dtype)
    if known is not None:
        if len(known[1]) >= _MOST:
            known[1].clear()
        known[1].add((len(a), len(b), b.size))


def remember_scaled(form: tuple[object, ...], compute: Computing) -> None:
    """Have NumPy compute products of this form, with factors and transpositions."""
    _keep(_by_scaled_form, form, compute)


def computes(a: _Array, b: _Array, out: _Array | None) -> bool:
    """Whether NumPy computes products of arrays like these."""
    if a.ndim > 2 or b.ndim > 2:
        return _by_form.get(product_form(a, b, out)) is not None
    known = _measured(a.dtype)
    return known is not None and (a.size * b.size <= known[0] * len(b) or (len(a), len(b), b.size) in known[1])


def forget() -> None:
    """Forget which products NumPy computes, so that they are timed again."""
    _by_form.clear()
    _by_scaled_form.clear()
    _known.clear()


def at_once(multiply_adds: int, dtype: np.dtype[Any]) -> bool:
    """Whether a product of two matrices with this many multiply-adds is left to NumPy from the first call on."""
    known = _measured(dtype)
    return known is not None and multiply_adds <= known[0]


def _dot(a: _Array, b: _Array, out: _Array | None) -> Any:
    return a.dot(b, out)


def _if_brief(a: _Array, b: _Array, out: _Array | None) -> Computing | None:
    """NumPy's function for a product, if NumPy takes no longer than a kernel launch."""
    known = _measured(a.dtype) if b.dtype == a.dtype and (out is None or out.dtype == a.dtype) else None
    if known is None or not (a.ndim and b.ndim):
        return None
    k = a.shape[-1]
    try:
        matrices = prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except ValueError:  # the routine explains which shapes do not fit
        return None
    times = prod(a.shape[-2:]) * prod(b.shape[-2:])
    return computing(a, b, out) if matrices * (times + _EACH * k) <= (known[0] + _EACH) * k else None


def _keep(known: dict[tuple[object, ...], Any], form: tuple[object, ...], compute: Any) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[form] = compute


def _fits(a: _Array, b: _Array, c: _Array | None, out: _Array | None) -> bool:
    """Whether the shapes of two matrices, c and the output fit together, and each of them has one contiguous dimension."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return False
    shape, dtype = (a.shape[0], b.shape[1]), a.dtype
    return all(array is None or (array.shape == shape and array.dtype == dtype and array.flags.forc) for array in (c, out))
