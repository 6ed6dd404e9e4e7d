"""Level 3 of the BLAS: matmul, gemm, trsm, on NumPy arrays, Buffers and CUDA arrays, row-major or column-major, read in place.

NumPy in, NumPy out: the call returns when the result is there. Arrays of CuPy and PyTorch, and Buffers, choose their own
device; the work is queued on the caller's current stream, the result is of the caller's library, and nothing waits.
"""

from __future__ import annotations

from portatile.errors import ArgumentError
from portatile.arguments import matrices, outputs, stacks
from portatile.routines import triangular
from portatile.runtime import run
from portatile.arguments.matrices import Array
from portatile.routines.triangular import Diag, Side, Trans, Uplo


def matmul(a: Array, b: Array, *, out: Array | None = None, device: str | None = None) -> Array:
    """The matrix product of ``a`` (m x k) and ``b`` (k x n), both float32 or both float64.

    With more than two dimensions, of the stacks of matrices in the last two: the others broadcast as NumPy's do, and stacks
    that lie evenly in memory are one launch. ``out`` (m x n) receives the result if given and must not overlap the inputs.
    ``device`` selects a device by id, name or vendor. Raises ArgumentError for what does not fit, DeviceNotFoundError for an
    unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
        >>> portatile.matmul(a, b)[0, 0]
        np.float32(3.0)
    """
    return gemm(a, b, out=out, device=device)


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: Trans = "N",
    trans_b: Trans = "N",
    out: Array | None = None,
    device: str | None = None,
) -> Array:
    """``alpha * op(a) @ op(b) + beta * c``, as BLAS's GEMM: op is the identity (N) or the transpose (T, C).

    Arrays of more than two dimensions are stacks of matrices, as for ``matmul``; op transposes each.

    op(a) is m x k, op(b) k x n, ``c`` and ``out`` m x n. With ``beta`` = 0 ``c`` is not read, with ``alpha`` = 0 ``a``
    and ``b`` are not. The result goes to ``out``, which may be ``c`` itself; without it, to a new row-major array. All are float32 or
    all float64. ``device`` selects a device by id, name or vendor. Raises ArgumentError for what does not fit, DeviceNotFoundError for
    an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, c = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
        >>> portatile.gemm(a, np.eye(2), c, alpha=2.0, beta=1.0, trans_a="T")
        array([[3., 7.],
               [5., 9.]])
    """
    alpha, beta = arrays.factor(alpha, "alpha"), arrays.factor(beta, "beta")
    if batched.stacked(a) or batched.stacked(b):
        return batched.gemm(a, b, c, (alpha, beta), (trans_a, trans_b), out, device)
    stored_a, stored_b = _op(arrays.matrix(a, "a"), trans_a, "trans_a"), _op(arrays.matrix(b, "b"), trans_b, "trans_b")
    (m, k), (k_b, n) = stored_a.shape, stored_b.shape
    if k != k_b:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {k_b} x {n}: the inner dimensions differ")
    arrays.alike(stored_a, stored_b)
    result, stored_c, begin = results.receiving(out, (m, n), a, {"a": stored_a, "b": stored_b}, c, beta)
    if stored_c.transposed:  # row-major C^T = op(b)^T op(a)^T
        m, n, stored_a, stored_b = n, m, stored_b.flipped(), stored_a.flipped()
    runtime.run(
        device,
        "gemm",
        (m, n, k),
        ("T" if stored_a.transposed else "N", "T" if stored_b.transposed else "N"),
        (stored_a, stored_b, stored_c),
        {"alpha": alpha, "beta": beta},
        (alpha != 0, alpha != 0, beta != 0),
        result,
        begin,
    )
    return result


def trsm(
    a: Array,
    b: Array,
    *,
    side: Side = "L",
    uplo: Uplo = "L",
    trans: Trans = "N",
    diag: Diag = "N",
    alpha: float = 1.0,
    out: Array | None = None,
    device: str | None = None,
) -> Array:
    """Solve ``op(a) x = alpha b`` (side L) or ``x op(a) = alpha b`` (side R) for a triangular ``a``, as BLAS's TRSM.

    ``b`` is m x n, ``a`` square of order m (L) or n (R), of which only the triangle ``uplo`` is read, without its
    diagonal if ``diag`` is U. The solution goes to ``out``, which may be ``b``; without it, to a new row-major array. A
    zero on the diagonal gives infinities or NaN, as in BLAS; with them, or with those in ``b``, neighbouring rows (side L) or columns
    may be NaN where BLAS has a number or an infinity: diagonal blocks are inverted, and their zeros multiplied. Types, device and
    errors are as for ``gemm``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.trsm(np.array([[1.0, np.nan], [2.0, 4.0]]), np.array([[1.0], [4.0]]))
        array([[1. ],
               [0.5]])
    """
    return triangle.apply("triangular", a, b, (side, uplo, trans, diag), alpha, out, device)


def _op(stored: arrays.Matrix, trans: str, name: str) -> arrays.Matrix:
    if trans == "N":
        return stored
    arrays.check_options((name, trans, "NTC"))
    return stored.flipped()
