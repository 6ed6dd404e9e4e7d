"""symm, syrk, syr2k and hemm, herk, her2k: products with a symmetric or Hermitian matrix, and sums of products that are such."""

from __future__ import annotations

from functools import partial
from typing import Any, cast, get_args

from portatile.arguments import matrices, outputs, stacks
from portatile.arguments.checks import COMPLEX, StructuredPrecision, check_factors, check_options, complex_factor, precision
from portatile.arguments.letters import OPPOSITE, OTHER, Side, Trans, Uplo, letter, op
from portatile.arguments.matrices import Array, check_square
from portatile.arguments.outputs import Begin
from portatile.device import Selector
from portatile.dtypes import name_of
from portatile.errors import ArgumentError
from portatile.routines import stacked
from portatile.runtime.recorded import Call, Converted, Planned, Recorder
from portatile.runtime.request import Request


def symm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    side: Side = "L",
    uplo: Uplo = "L",
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Array | None = None,
    precision: StructuredPrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """``alpha a b + beta c`` (side L) or ``alpha b a + beta c`` (side R) for a symmetric ``a``, as BLAS's SYMM.

    ``b``, ``c`` and the result are m x n, ``a`` is square of order m (L) or n (R), and only its triangle ``uplo`` is read. The
    result goes to ``out``, which may be ``c``; without it, to a new row-major array. The rest is as for ``gemm``, stacks too.
    ``precision`` is that of the product: ``"3m"``, ``"emulated"`` or ``"reproducible"``, as for ``matmul``.

    Examples:
        >>> import numpy as np, portatile
        >>> a = np.array([[1.0, np.nan], [2.0, 3.0]])
        >>> portatile.symm(a, np.eye(2))
        array([[1., 2.],
               [2., 3.]])
    """
    return cast(Array, _SYMM.call(_plan_symm, *_call((a, b), c, (alpha, beta), (side, uplo, "T"), precision, out, device)))


def hemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    side: Side = "L",
    uplo: Uplo = "L",
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Array | None = None,
    precision: StructuredPrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """``symm`` for a Hermitian ``a``, as BLAS's HEMM: imaginary parts on its diagonal are not used. Of real matrices it is ``symm``.

    Examples:
        >>> import numpy as np, portatile
        >>> a = np.array([[1.0, np.nan], [2.0 + 1j, 3.0]])
        >>> portatile.hemm(a, np.eye(2, dtype=complex))
        array([[1.+0.j, 2.-1.j],
               [2.+1.j, 3.+0.j]])
    """
    return cast(Array, _HEMM.call(_plan_symm, *_call((a, b), c, (alpha, beta), (side, uplo, "C"), precision, out, device)))


def syrk(
    a: Array,
    c: Array | None = None,
    *,
    uplo: Uplo = "L",
    trans: Trans = "N",
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Array | None = None,
    precision: StructuredPrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(a)^T + beta c``, as BLAS's SYRK: op is the identity (N) or the transpose (T, C).

    op(a) is n x k, ``c`` and the result n x n. The result goes to ``out``, which may be ``c``; its other triangle stays as it is. Without
    ``out`` it goes to a new array with zeros, or with ``beta`` those of ``c``, beside the triangle. The rest is as for ``gemm``, stacks
    too. ``precision`` is that of the products: ``"3m"``, ``"emulated"`` or ``"reproducible"``, as for ``matmul``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.syrk(np.array([[1.0], [2.0]]))
        array([[1., 0.],
               [2., 4.]])
    """
    return cast(Array, _SYRK.call(_plan_syrk, *_call((a,), c, (alpha, beta), (uplo, trans, "T"), precision, out, device)))


def herk(
    a: Array,
    c: Array | None = None,
    *,
    uplo: Uplo = "L",
    trans: Trans = "N",
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Array | None = None,
    precision: StructuredPrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(a)^H + beta c`` with real factors, as BLAS's HERK; the rest is as for ``syrk``.

    What is imaginary on the diagonal of ``c`` is not used, and is zero in the result. Of real matrices it is ``syrk``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.herk(np.array([[1.0 + 1j], [2.0]]))
        array([[2.+0.j, 0.+0.j],
               [2.-2.j, 4.+0.j]])
    """
    return cast(Array, _HERK.call(_plan_syrk, *_call((a,), c, (alpha, beta), (uplo, trans, "C"), precision, out, device)))


def syr2k(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    uplo: Uplo = "L",
    trans: Trans = "N",
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Array | None = None,
    precision: StructuredPrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(b)^T + alpha op(b) op(a)^T + beta c``, as BLAS's SYR2K; the rest is as for ``syrk``.

    op(a) and op(b) are n x k, of one dtype, ``c`` and the result n x n. Raises ArgumentError for arrays that do not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.syr2k(np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]]))
        array([[ 6.,  0.],
               [11., 20.]])
    """
    return cast(Array, _SYR2K.call(_plan_syr2k, *_call((a, b), c, (alpha, beta), (uplo, trans, "T"), precision, out, device)))


def her2k(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    uplo: Uplo = "L",
    trans: Trans = "N",
    alpha: complex = 1.0,
    beta: float = 0.0,
    out: Array | None = None,
    precision: StructuredPrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(b)^H + conj(alpha) op(b) op(a)^H + beta c``, as BLAS's HER2K; ``beta`` is real.

    The diagonal is as for ``herk``, the rest as for ``syr2k``. Of real matrices it is ``syr2k``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.her2k(np.array([[1j], [2.0]]), np.array([[3.0], [5.0 + 0j]]))
        array([[ 0.+0.j,  0.+0.j],
               [ 6.-5.j, 20.+0.j]])
    """
    return cast(Array, _HER2K.call(_plan_syr2k, *_call((a, b), c, (alpha, beta), (uplo, trans, "C"), precision, out, device)))


def _call(
    factors: tuple[Any, ...],
    c: Any,
    scalars: tuple[Any, Any],
    letters: tuple[str, ...],
    asked: StructuredPrecision | None,
    out: Any,
    device: Selector | None,
) -> Call:
    """A call with the arrays ``factors``, and ``c`` if there is one; ``scalars`` are alpha and beta, ``asked`` is a precision."""
    alpha, beta = complex_factor(scalars[0], "alpha"), complex_factor(scalars[1], "beta")
    options = (*letters, precision(asked, get_args(StructuredPrecision)))
    return Call(factors if c is None else (*factors, c), (alpha, beta), options, out, device)


def _plan_symm(call: Call) -> Planned | Converted:
    """The requests for products with symmetric matrices. Raises ArgumentError for what does not fit."""
    if not any(map(stacks.stacked, call.arrays)):
        return _plan_one_symm(call)
    tall = stacked.as_tall(_plan_one_symm, call) if call.options[0] == "R" else None
    if tall is not None:
        return tall
    names = ("a", "b", "c")[: len(call.arrays)]
    return stacked.each(_plan_one_symm, call, stacked.checked(call, names, lambda given: given["b"].shape[-2:]))


def _plan_one_symm(call: Call, made: Any = None) -> Planned:
    """The request for one product; the result goes to ``made`` if it is given."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    (alpha, beta), (side, uplo, mirror, asked) = call.factors, call.options
    check_options(("side", side, "LR"), ("uplo", uplo, "LU"))
    stored_a, stored_b = matrices.matrix(a, "a", COMPLEX), matrices.matrix(b, "b", COMPLEX)
    check_factors(call.factors, name_of(stored_b.array.dtype))
    m, n = stored_b.shape
    check_square(stored_a, side, (m, n))
    matrices.alike(stored_a, stored_b)
    result, stored_c, begin = outputs.receiving(call.out if made is None else made, (m, n), b, {"a": stored_a, "b": stored_b}, c, beta)
    if stored_a.transposed:  # a symmetric matrix by its columns: the other triangle by its rows, of a Hermitian one its conjugate
        uplo, mirror = OTHER[uplo], _CONJUGATE[mirror]
    if stored_c.transposed:  # C^T = alpha B^T A^T + beta C^T
        side, m, n, stored_b, mirror = OPPOSITE[side], n, m, stored_b.flipped(), _CONJUGATE[mirror]
    options = (side, uplo, "T" if stored_b.transposed else "N", mirror)
    operands = stored_a.read_if(alpha != 0), stored_b.read_if(alpha != 0), stored_c.read_if(beta != 0)
    scalars = {"alpha": alpha, "beta": beta}
    return Planned(result, [Request("symm", (m, n), options, operands, result, call.device, scalars, begin, precision=asked)])


def _plan_update(workload: str, names: tuple[str, ...], call: Call) -> Planned:
    """The requests for triangles of sums of products of the arrays ``names``, which all are n x k, and their transposes.

    Raises ArgumentError for what does not fit.
    """
    if not any(map(stacks.stacked, call.arrays)):
        return _plan_one_update(workload, names, call)
    check_options(("trans", call.options[1], "NTC"))
    n = -2 if call.options[1] == "N" else -1
    known = (*names, "c")[: len(call.arrays)]
    found = stacked.checked(call, known, lambda given: (given["a"].shape[n],) * 2)
    return stacked.each(partial(_plan_one_update, workload, names), call, found)


def _plan_one_update(workload: str, names: tuple[str, ...], call: Call, made: Any = None) -> Planned:
    """The request for one triangle; the result goes to ``made`` if it is given."""
    given = dict(zip(names, call.arrays, strict=False))
    c = call.arrays[-1] if len(call.arrays) > len(names) else None
    (alpha, beta), (uplo, trans, mirror, asked), out = call.factors, call.options, call.out
    check_options(("uplo", uplo, "LU"), ("trans", trans, "NTC"))
    stored = {name: op(matrices.matrix(array, name, COMPLEX), trans, "trans") for name, array in given.items()}
    first = stored["a"]
    check_factors(call.factors, name_of(first.array.dtype))
    if mirror == "C":
        check_factors((0.0 if len(names) > 1 else alpha, beta), "float32 in what a Hermitian update multiplies by them")
    n, k = first.shape
    for name, matrix in stored.items():
        matrices.alike(first, matrix)
        if matrix.shape != (n, k):
            raise ArgumentError(f"op({name}) is {matrix.shape} and op(a) {(n, k)}; {workload} needs two of one shape")
    result, stored_c, begin = outputs.receiving(out if made is None else made, (n, n), given["a"], stored, c, beta)
    if out is None and beta == 0:
        begin = Begin(stored_c.array)
    elif out is not None and begin is not None:  # the other triangle of out stays as it is
        flipped = stored_c.on_device and stored_c.transposed
        begin = begin._replace(triangle=OTHER[uplo] if flipped else uplo)
    if stored_c.transposed:  # the transpose of what is symmetric: the other triangle; of what is Hermitian its conjugate
        uplo = OTHER[uplo]
        if mirror == "C" and first.array.dtype.kind == "c":
            stored = {name: matrix._replace(conjugated=not matrix.conjugated) for name, matrix in stored.items()}
            alpha = alpha.conjugate()
    letters = "".join(map(letter, stored.values()))
    how = letters if len(set(letters)) > 1 else letters[0]
    operands = *(matrix.read_if(alpha != 0) for matrix in stored.values()), stored_c
    scalars, options = {"alpha": alpha, "beta": beta}, (uplo, how, mirror)
    return Planned(result, [Request(workload, (n, k), options, operands, result, call.device, scalars, begin, precision=asked)])


_plan_syrk, _plan_syr2k = partial(_plan_update, "syrk", ("a",)), partial(_plan_update, "syr2k", ("a", "b"))
_CONJUGATE = {"T": "T", "C": "R", "R": "C"}
_SYMM, _SYRK, _SYR2K, _HEMM, _HERK, _HER2K = (Recorder(("alpha", "beta")) for _ in range(6))
