"""Level 3 of the BLAS on NumPy arrays: matmul, gemm, trsm. Row-major and column-major arrays are both read in place."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError
from portatile.routines import arrays, runtime

Trans = Literal["N", "T", "C"]
Side = Literal["L", "R"]
Uplo = Literal["L", "U"]
Diag = Literal["N", "U"]


def matmul(a: NDArray[Any], b: NDArray[Any], *, out: NDArray[Any] | None = None, device: str | None = None) -> NDArray[Any]:
    """The matrix product of ``a`` (m x k) and ``b`` (k x n), both float32 or both float64.

    ``out`` (m x n) receives the result if given and must not overlap the inputs. ``device`` selects a device by id, name
    or vendor. Raises ArgumentError for what does not fit, DeviceNotFoundError for an unknown device.

    >>> import numpy as np, portatile
    >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    >>> portatile.matmul(a, b)[0, 0]
    np.float32(3.0)
    """
    return gemm(a, b, out=out, device=device)


def gemm(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any] | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: Trans = "N",
    trans_b: Trans = "N",
    out: NDArray[Any] | None = None,
    device: str | None = None,
) -> NDArray[Any]:
    """``alpha * op(a) @ op(b) + beta * c``, as BLAS's GEMM: op is the identity (N) or the transpose (T, C).

    op(a) is m x k, op(b) k x n, ``c`` and ``out`` m x n. With ``beta`` = 0 ``c`` is not read, with ``alpha`` = 0 ``a``
    and ``b`` are not. The result goes to ``out``, which may be ``c`` itself; without it, to a new row-major array.
    """
    stored_a = arrays.matrix(_op(a, trans_a, "trans_a"), "a")
    stored_b = arrays.matrix(_op(b, trans_b, "trans_b"), "b")
    (m, k), (k_b, n) = _shape(stored_a), _shape(stored_b)
    if k != k_b:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {k_b} x {n}: the inner dimensions differ")
    if a.dtype != b.dtype:
        raise ArgumentError(f"a is {a.dtype} and b is {b.dtype}; convert one of them")
    if c is None and beta != 0:
        raise ArgumentError(f"beta is {beta} but there is no c")
    result, stored_c = _output(out, (m, n), a.dtype)
    if c is not None and beta != 0 and c is not result:
        _check_shape(c, (m, n), a.dtype, "c")
        if out is not None and np.may_share_memory(c, result):
            raise ArgumentError("out overlaps c without being c; pass out=c or an array of its own")
        result[...] = c
    arrays.apart(result, a, "a")
    arrays.apart(result, b, "b")
    if stored_c.transposed:  # row-major C^T = op(b)^T op(a)^T
        m, n, stored_a, stored_b = n, m, _flip(stored_b), _flip(stored_a)
    runtime.run(
        device,
        "gemm",
        (m, n, k),
        ("T" if stored_a.transposed else "N", "T" if stored_b.transposed else "N"),
        (stored_a, stored_b, stored_c),
        {"alpha": alpha, "beta": beta},
        read=(alpha != 0, alpha != 0, beta != 0),
    )
    return result


def trsm(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    side: Side = "L",
    uplo: Uplo = "L",
    trans: Trans = "N",
    diag: Diag = "N",
    alpha: float = 1.0,
    out: NDArray[Any] | None = None,
    device: str | None = None,
) -> NDArray[Any]:
    """Solve ``op(a) x = alpha b`` (side L) or ``x op(a) = alpha b`` (side R) for a triangular ``a``, as BLAS's TRSM.

    ``b`` is m x n, ``a`` square of order m (L) or n (R), of which only the triangle ``uplo`` is read, without its
    diagonal if ``diag`` is U. The solution goes to ``out``, which may be ``b``; without it, to a new row-major array. A
    zero on the diagonal gives infinities or NaN, as in BLAS.
    """
    for value, allowed, name in ((side, "LR", "side"), (uplo, "LU", "uplo"), (trans, "NTC", "trans"), (diag, "NU", "diag")):
        if value not in tuple(allowed):
            raise ArgumentError(f"{name}={value!r} is not one of {', '.join(allowed)}")
    stored_a = arrays.matrix(a, "a")
    arrays.matrix(b, "b")
    m, n = b.shape
    order = m if side == "L" else n
    if a.shape != (order, order):
        raise ArgumentError(f"a has shape {a.shape}; side {side} with a b of shape {b.shape} needs ({order}, {order})")
    if a.dtype != b.dtype:
        raise ArgumentError(f"a is {a.dtype} and b is {b.dtype}; convert one of them")
    result, stored_b = _output(out, (m, n), b.dtype)
    if result is not b:
        if np.may_share_memory(b, result):
            raise ArgumentError("out overlaps b without being b; pass out=b or an array of its own")
        result[...] = b
    arrays.apart(result, a, "a")
    transpose = trans != "N"
    if stored_a.transposed:  # the stored matrix is a^T: its other triangle, transposed once more
        uplo, transpose = ("U" if uplo == "L" else "L"), not transpose
    if stored_b.transposed:  # X^T op(a)^T = alpha B^T
        side, transpose, m, n = ("R" if side == "L" else "L"), not transpose, n, m
    options = (side, uplo, "T" if transpose else "N", diag)
    runtime.run(device, "triangular", (m, n), options, (stored_a, stored_b), {"alpha": alpha}, read=(alpha != 0, True))
    return result


def _op(array: NDArray[Any], trans: str, name: str) -> NDArray[Any]:
    if trans == "N":
        return array
    if trans in ("T", "C"):
        return array.T if isinstance(array, np.ndarray) else array
    raise ArgumentError(f"{name}={trans!r} is not one of N, T, C")


def _shape(stored: arrays.Matrix) -> tuple[int, int]:
    return (stored.columns, stored.rows) if stored.transposed else (stored.rows, stored.columns)


def _flip(stored: arrays.Matrix) -> arrays.Matrix:
    """The same memory read as the transpose."""
    return arrays.Matrix(stored.array, not stored.transposed, stored.rows, stored.columns, stored.stride, stored.alignment)


def _output(out: NDArray[Any] | None, shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[NDArray[Any], arrays.Matrix]:
    """The output that was passed, checked, or a new row-major one."""
    if out is None:
        out = np.empty(shape, dtype)
    stored = _check_shape(out, shape, dtype, "out")
    arrays.writable(out, "out")
    return out, stored


def _check_shape(array: NDArray[Any], shape: tuple[int, int], dtype: np.dtype[Any], name: str) -> arrays.Matrix:
    stored = arrays.matrix(array, name)
    if array.shape != shape or array.dtype != dtype:
        raise ArgumentError(f"{name} has shape {array.shape} and dtype {array.dtype}; it must have shape {shape} and dtype {dtype}")
    return stored
