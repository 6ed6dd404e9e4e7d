"""Products of host arrays that NumPy computes, without a look at devices: by how many multiply-adds they have, or by their sizes.

A product that NumPy computes in about the time that a device needs for a launch is left to it from the first call on: nothing is compiled.
Of larger ones those come here that NumPy won in a race (``host_blas``). Little is looked up for either: after a product of some hundred
kilobytes the processor's caches hold nothing of Python's, and every object that a look-up touches is fetched anew.
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
"""Seconds: hardly a driver takes two host arrays, launches a kernel, waits for it and has its result on the host in less."""
BY_NUMPY = "NumPy's BLAS where no device is named: it takes no longer than a launch"
_EACH = 4000  # multiply-adds that take as long as what NumPy does beside them for each matrix of a stack
_MOST = 4096  # entries of each table below
_TINY = 1 << 14  # multiply-adds
_LETTERS = ("N", "T", "C")
PLAIN = (1.0, 0.0)  # factors of a product
HOST = frozenset((ndarray, list, tuple))  # the types of operands that are computed here, or once they are converted
_MODERATE = float(np.finfo(np.float32).max)  # factors beyond it are left to the routine, as kernels take them in the type of the matrices

DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
"""The dtypes whose products NumPy leaves to its BLAS."""

_Array = NDArray[Any]
Computing = Callable[[_Array, _Array, "_Array | None"], Any]
"""Computes a product of two arrays, into the third one if that is not None."""
Sizes = tuple[int, int, int]
"""The lengths of a and of b, and the elements of b. They are m, k and n k of two matrices; with vectors others may share them, which
does no harm: NumPy is right whatever it is given."""
_known: dict[np.dtype[Any], tuple[int, set[Sizes]]] = {}
"""Dtype -> the multiply-adds that NumPy does in the time of a launch; and the sizes of larger products that it computes."""
_by_form: dict[tuple[object, ...], Computing | None] = {}
"""What describes stacks of matrices -> what multiplies them; None where the routine has to look further."""
_by_scaled_form: dict[tuple[object, ...], Computing | None] = {}
"""The same of products with factors and transpositions."""
_numbers: dict[tuple[complex, np.dtype[Any]], _Array] = {}
"""Factors as arrays without dimensions."""
_UNSEEN = object()
_ANY = (None, None)  # no device is selected


class _SilentContext(threading.local):
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


_silent = _SilentContext()


def silently(function: Callable[..., Any], *given: Any) -> Any:
    """What a function returns, which runs without NumPy's reports."""
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
    except ValueError:  # shapes that do not fit, or an output that cannot be written, by dot at least
        return _by(matmul, a, b, out) if times <= _TINY * k else None


def _measured(dtype: np.dtype[Any]) -> tuple[int, set[Sizes]] | None:
    """The entry of a dtype in ``_known``; None for those that NumPy does not leave to its BLAS."""
    if dtype not in DTYPES:
        return None
    return _known.setdefault(dtype, (int(LEAST_LAUNCH * multiply_adds_per_second(dtype)), set()))


def _by(compute: Computing, a: _Array, b: _Array, out: _Array | None) -> Any:
    """A product; None, with nothing written, where the arrays or the output do not fit."""
    try:
        return _silent.run(compute, a, b, out)
    except ValueError:
        return None


def _of_stacks(a: _Array, b: _Array, out: _Array | None) -> Any:
    """``product`` of stacks of matrices."""
    form = product_form(a, b, out)
    compute: Any = _by_form.get(form, _UNSEEN)
    if compute is _UNSEEN:
        compute = _if_brief(a, b, out)
        _keep(_by_form, form, compute)
    return None if compute is None else _by(compute, a, b, out)


def scaled(a: Any, b: Any, c: Any, factors: tuple[complex, complex], trans: tuple[str, str], out: Any) -> Any:
    """``alpha * op(a) @ op(b) + beta * c`` by NumPy, in ``out`` unless that is None; None where ``gemm`` has to look further.

    For calls that name no device.
    """
    if not (type(c) is ndarray or (c is None and factors[1] == 0)) or not (out is None or type(out) is ndarray):
        return None
    form = scaled_form(a, b, c, factors[1] != 0, trans, out)
    try:
        compute: Any = _by_scaled_form.get(form, _UNSEEN)
    except TypeError:  # letters of which no hash can be made
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
    plain = _if_brief(op_a, op_b, out if factors[1] == 0 else None)
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
    """What decides how ``product`` multiplies arrays of one dtype: all but their addresses and values."""
    return a.shape, a.strides, b.shape, b.strides, a.dtype, None if out is None else out.strides


def scaled_form(a: _Array, b: _Array, c: _Array | None, reads_c: bool, trans: tuple[str, ...], out: _Array | None) -> tuple[object, ...]:
    """What decides how ``scaled`` multiplies arrays."""
    form: tuple[object, ...] = trans, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype
    if out is not None and out is not c:
        form += out.shape, out.strides, out.dtype
    return form if c is None else (*form, c is out, reads_c, c.shape, c.strides, c.dtype)


def computing(a: _Array, b: _Array, out: _Array | None) -> Computing:
    """NumPy's function for a product of arrays that lie so: ``dot``, which takes less time than ``matmul``, where it computes the same.

    It fills the result with zeros first, which takes longer than that where the result is large.
    """
    if a.ndim > 2 or b.ndim > 2 or not (out is None or out.flags.c_contiguous):
        return matmul
    return _dot if a.size * b.size <= _TINY * a.shape[-1] else matmul


def remember(a: _Array, b: _Array, out: _Array | None) -> None:
    """Let NumPy compute products of arrays like these from now on."""
    if a.ndim > 2 or b.ndim > 2:
        _keep(_by_form, product_form(a, b, out), matmul)
        return
    known = _measured(a.dtype)
    if known is not None:
        if len(known[1]) >= _MOST:
            known[1].clear()
        known[1].add((len(a), len(b), b.size))


def remember_scaled(form: tuple[object, ...], compute: Computing) -> None:
    """Let NumPy compute products of a form with factors and transpositions."""
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
    """Whether a product of two matrices with so many multiply-adds is left to NumPy from the first call on."""
    known = _measured(dtype)
    return known is not None and multiply_adds <= known[0]


def _dot(a: _Array, b: _Array, out: _Array | None) -> Any:
    return a.dot(b, out)


def _if_brief(a: _Array, b: _Array, out: _Array | None) -> Computing | None:
    """NumPy's function for a product, if it takes no more time than a launch."""
    known = _measured(a.dtype) if b.dtype == a.dtype and (out is None or out.dtype == a.dtype) else None
    if known is None or not (a.ndim and b.ndim):
        return None
    k = a.shape[-1]
    try:
        matrices = prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except ValueError:  # the routine says what does not fit
        return None
    times = prod(a.shape[-2:]) * prod(b.shape[-2:])
    return computing(a, b, out) if matrices * (times + _EACH * k) <= (known[0] + _EACH) * k else None


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
