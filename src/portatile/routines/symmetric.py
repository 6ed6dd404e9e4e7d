"""symm, syrk, syr2k and hemm, herk, her2k: products with symmetric or Hermitian matrices, and updates that give such a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from portatile.arguments import matrices, outputs, stacks
from portatile.arguments.checks import COMPLEX, Precision, check_factors, check_options, complex_factor
from portatile.arguments.checks import precision as checked
from portatile.arguments.letters import OPPOSITE, OTHER, Side, Trans, Uplo, letter, op
from portatile.arguments.matrices import Array, Matrix, check_square
from portatile.arguments.outputs import InitialContent
from portatile.device import Selector
from portatile.dtypes import name_of
from portatile.errors import ArgumentError
from portatile.routines import stacked
from portatile.routines.stacked import Stacks
from portatile.runtime.host.numpy_level3 import Level3
from portatile.runtime.repeated.recorded import Converted, Plan, Planned, Recorder
from portatile.runtime.request import Request, RoutineCall


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
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """``alpha a b + beta c`` (side L) or ``alpha b a + beta c`` (side R) for a symmetric ``a``, as BLAS's SYMM.

    ``b``, ``c`` and the result are m x n, ``a`` is square of order m (L) or n (R), and only its triangle ``uplo`` is read. The result goes
    to ``out``, which may be ``c``; without ``out`` to a new row-major array. Everything else, including stacks, is as for ``gemm``.
    ``precision`` is that of the product: ``"tf32"``, ``"3m"``, ``"emulated"`` or ``"reproducible"``, as for ``matmul``.

    All arrays have the same dtype: float32, float64, complex64 or complex128. Raises ArgumentError for shapes, dtypes or options that do
    not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a = np.array([[1.0, np.nan], [2.0, 3.0]])
        >>> portatile.symm(a, np.eye(2))
        array([[1., 2.],
               [2., 3.]])
    """
    return _run(_SYMM, _plan_symm, (a, b), c, (alpha, beta), (side, uplo, "T"), precision, out, device)  # type: ignore[no-any-return]


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
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """``symm`` for a Hermitian ``a``, as BLAS's HEMM: imaginary parts of its diagonal are ignored. For real matrices it is ``symm``.

    Arguments, shapes, dtypes and errors are as for ``symm``.

    Examples:
        >>> import numpy as np, portatile
        >>> a = np.array([[1.0, np.nan], [2.0 + 1j, 3.0]])
        >>> portatile.hemm(a, np.eye(2, dtype=complex))
        array([[1.+0.j, 2.-1.j],
               [2.+1.j, 3.+0.j]])
    """
    return _run(_HEMM, _plan_symm, (a, b), c, (alpha, beta), (side, uplo, "C"), precision, out, device)  # type: ignore[no-any-return]


def syrk(
    a: Array,
    c: Array | None = None,
    *,
    uplo: Uplo = "L",
    trans: Trans = "N",
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Array | None = None,
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(a)^T + beta c``, as BLAS's SYRK: ``trans`` says what op is, as for ``gemm``.

    op(a) is n x k, ``c`` and the result n x n. The result goes to ``out``, which may be ``c``; its other triangle is not changed. Without
    ``out`` it goes to a new array, whose other triangle is that of ``c``, or zero if ``beta`` is 0. Everything else, including stacks, is
    as for ``gemm``. ``precision`` is that of the products: ``"tf32"``, ``"3m"``, ``"emulated"`` or ``"reproducible"``, as for ``matmul``.

    All arrays have the same dtype: float32, float64, complex64 or complex128. Raises ArgumentError for shapes, dtypes or options that do
    not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.syrk(np.array([[1.0], [2.0]]))
        array([[1., 0.],
               [2., 4.]])
    """
    return _run(_SYRK, _plan_syrk, (a,), c, (alpha, beta), (uplo, trans, "T"), precision, out, device)  # type: ignore[no-any-return]


def herk(
    a: Array,
    c: Array | None = None,
    *,
    uplo: Uplo = "L",
    trans: Trans = "N",
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Array | None = None,
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(a)^H + beta c`` with real factors, as BLAS's HERK; everything else is as for ``syrk``.

    The diagonal of the result is real; imaginary parts of the diagonal of ``c`` are ignored. For real matrices it is ``syrk``. Shapes,
    dtypes and errors are as for ``syrk``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.herk(np.array([[1.0 + 1j], [2.0]]))
        array([[2.+0.j, 0.+0.j],
               [2.-2.j, 4.+0.j]])
    """
    return _run(_HERK, _plan_syrk, (a,), c, (alpha, beta), (uplo, trans, "C"), precision, out, device)  # type: ignore[no-any-return]


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
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(b)^T + alpha op(b) op(a)^T + beta c``, as BLAS's SYR2K; the rest is as for ``syrk``.

    op(a) and op(b) are n x k, ``c`` and the result n x n. Dtypes and errors are as for ``syrk``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.syr2k(np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]]))
        array([[ 6.,  0.],
               [11., 20.]])
    """
    return _run(_SYR2K, _plan_syr2k, (a, b), c, (alpha, beta), (uplo, trans, "T"), precision, out, device)  # type: ignore[no-any-return]


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
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """The triangle ``uplo`` of ``alpha op(a) op(b)^H + conj(alpha) op(b) op(a)^H + beta c``, as BLAS's HER2K; ``beta`` is real.

    The diagonal is as for ``herk``. Shapes, dtypes and errors are as for ``syr2k``. For real matrices it is ``syr2k``.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.her2k(np.array([[1j], [2.0]]), np.array([[3.0], [5.0 + 0j]]))
        array([[ 0.+0.j,  0.+0.j],
               [ 6.-5.j, 20.+0.j]])
    """
    return _run(_HER2K, _plan_syr2k, (a, b), c, (alpha, beta), (uplo, trans, "C"), precision, out, device)  # type: ignore[no-any-return]


def _run(
    recorder: Recorder,
    plan: Plan,
    factors: tuple[Any, ...],
    c: Any,
    scalars: tuple[Any, Any],
    letters: tuple[str, ...],
    precision: Precision | None,
    out: Any,
    device: Selector | None,
) -> Any:
    """The result of a call with the arrays ``factors``, and ``c`` if it is not None; ``scalars`` are alpha and beta."""
    if not type(scalars[0]) is type(scalars[1]) is float:
        scalars = complex_factor(scalars[0], "alpha"), complex_factor(scalars[1], "beta")
    options = (*letters, "" if precision is None else checked(precision))
    return recorder.call(plan, factors if c is None else (*factors, c), scalars, options, out, device)


def _plan_symm(call: RoutineCall) -> Planned | Converted:
    """The requests for products with symmetric matrices. Raises ArgumentError for what does not fit."""
    if not any(map(stacks.stacked, call.arrays)):
        return _plan_one_symm(call)
    tall = stacked.as_tall(_plan_one_symm, call) if call.options[0] == "R" else None
    if tall is not None:
        return tall
    names = ("a", "b", "c")[: len(call.arrays)]
    checked_stacks = stacked.checked(call, names, lambda operands: operands["b"].shape[-2:])
    return _plan_symm_together(call, checked_stacks) or stacked.each(_plan_one_symm, call, checked_stacks)


def _plan_symm_together(call: RoutineCall, checked_stacks: Stacks) -> Planned | None:
    """A request for each evenly spaced part of stacks of small matrices; None where each matrix is computed alone."""
    begins = _initial_stack(call, checked_stacks)
    parts = (
        None if begins is None else stacked.parts(checked_stacks, checked_stacks.given["a"].shape[-1], stacked.SMALL, ("a", "b"), begins)
    )
    if parts is None:
        return None
    for a, b, _ in parts:
        _check_symm(call, a, b)
    begin = stacks.copying(checked_stacks.given["c"], checked_stacks.target) if begins else None
    return Planned(
        checked_stacks.result, [_symm(call, tuple(part), checked_stacks.result, None if at else begin) for at, part in enumerate(parts)]
    )


def _initial_stack(call: RoutineCall, checked_stacks: Stacks) -> str | None:
    """The name of the stack that holds the initial values of a call's result, empty if there is none; None where matrices are computed one
    by one, because that stack is missing or another precision is asked for.
    """
    if call.options[-1]:
        return None
    if call.factors[1] == 0:
        return ""
    return None if "c" not in checked_stacks.given else "" if call.arrays[-1] is checked_stacks.result else "c"


def _plan_one_symm(call: RoutineCall, destination: Any = None) -> Planned:
    """The request for one product; the result goes to ``destination`` if it is given."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    check_options(("side", call.options[0], "LR"), ("uplo", call.options[1], "LU"))
    stored_a, stored_b = matrices.matrix(a, "a", COMPLEX), matrices.matrix(b, "b", COMPLEX)
    _check_symm(call, stored_a, stored_b)
    stored, out, beta = {"a": stored_a, "b": stored_b}, call.out if destination is None else destination, call.factors[1]
    result, stored_c, begin = outputs.receiving(out, stored_b.shape, b, stored, c, beta)
    return Planned(result, [_symm(call, (stored_a, stored_b, stored_c), result, begin)])


def _check_symm(call: RoutineCall, a: Matrix, b: Matrix) -> None:
    """Raise ArgumentError for unknown options, and for matrices that do not fit together."""
    side, uplo, *_ = call.options
    check_options(("side", side, "LR"), ("uplo", uplo, "LU"))
    check_factors(call.factors, name_of(b.array.dtype))
    check_square(a, side, b.shape)
    matrices.check_alike(a, b)


def _symm(call: RoutineCall, operands: tuple[Matrix, ...], result: Any, begin: InitialContent | None) -> Request:
    """The request for a product of ``operands``, the output last, or for those of stacks."""
    (alpha, beta), (side, uplo, mirror, precision_asked) = call.factors, call.options
    a, b, c = operands
    m, n = b.shape
    if a.transposed:  # its rows are the columns of the other triangle; of a Hermitian matrix, the conjugate of that
        uplo, mirror = OTHER[uplo], _CONJUGATE[mirror]
    if c.transposed:  # C^T = alpha B^T A^T + beta C^T
        side, m, n, b, mirror = OPPOSITE[side], n, m, b.flipped(), _CONJUGATE[mirror]
    options = (side, uplo, "T" if b.transposed else "N", mirror)
    workload, sizes = _batched_name("symm", c, (m, n))
    read = a.read_if(alpha != 0), b.read_if(alpha != 0), c.read_if(beta != 0)
    scalars = {"alpha": alpha, "beta": beta}
    return Request(workload, sizes, options, read, result, call.device, scalars, begin, precision=precision_asked)


def _batched_name(workload: str, output: Matrix, sizes: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The workload and sizes of a problem, or of a stack of such problems."""
    return (workload, sizes) if output.number == 1 else (f"{workload}_batched", (output.number, *sizes))


def _plan_update(workload: str, names: tuple[str, ...], call: RoutineCall) -> Planned:
    """The requests for triangles of sums of products of the arrays ``names``, which all are n x k, and their transposes.

    Raises ArgumentError for what does not fit.
    """
    if not any(map(stacks.stacked, call.arrays)):
        return _plan_one_update(workload, names, call)
    check_options(("uplo", call.options[0], "LU"), ("trans", call.options[1], "NTC"))
    n = -2 if call.options[1] == "N" else -1
    operand_names = (*names, "c")[: len(call.arrays)]
    checked_stacks = stacked.checked(call, operand_names, lambda operands: (operands["a"].shape[n],) * 2)
    return _plan_updates_together(workload, names, call, checked_stacks) or stacked.each(
        partial(_plan_one_update, workload, names), call, checked_stacks
    )


def _plan_updates_together(workload: str, names: tuple[str, ...], call: RoutineCall, checked_stacks: Stacks) -> Planned | None:
    """A request for each evenly spaced part of stacks of small matrices; None where each matrix is computed alone."""
    begins, target = _initial_stack(call, checked_stacks), checked_stacks.target
    parts = None if begins is None else stacked.parts(checked_stacks, target.shape[-1], stacked.SMALL, names, begins)
    if parts is None or (begins and call.out is not None and not isinstance(target, np.ndarray)):  # a part of each row would be copied
        return None
    factors = [_factors(workload, call, dict(zip(names, part, strict=False))) for part in parts]
    begin = stacks.copying(checked_stacks.given["c"], target) if begins else None
    if begin is not None and call.out is not None:  # the other triangle of out is not changed
        begin = begin._replace(triangle=call.options[0])
    elif call.out is None and not begins:
        begin = InitialContent(target)
    requests = [
        _update(workload, call, stored, part[-1], checked_stacks.result, None if at else begin)
        for at, (stored, part) in enumerate(zip(factors, parts, strict=True))
    ]
    return Planned(checked_stacks.result, requests)


def _plan_one_update(workload: str, names: tuple[str, ...], call: RoutineCall, destination: Any = None) -> Planned:
    """The request for one triangle; the result goes to ``destination`` if it is given."""
    arrays = dict(zip(names, call.arrays, strict=False))
    c = call.arrays[-1] if len(call.arrays) > len(names) else None
    (_, beta), uplo, out = call.factors, call.options[0], call.out
    check_options(("uplo", uplo, "LU"), ("trans", call.options[1], "NTC"))
    stored = _factors(workload, call, {name: matrices.matrix(array, name, COMPLEX) for name, array in arrays.items()})
    n = stored["a"].shape[0]
    result, stored_c, begin = outputs.receiving(out if destination is None else destination, (n, n), arrays["a"], stored, c, beta)
    if out is None and beta == 0:
        begin = InitialContent(stored_c.array)
    elif out is not None and begin is not None:  # the other triangle of out is not changed
        flipped = stored_c.on_device and stored_c.transposed
        begin = begin._replace(triangle=OTHER[uplo] if flipped else uplo)
    return Planned(result, [_update(workload, call, stored, stored_c, result, begin)])


def _factors(workload: str, call: RoutineCall, factors: Mapping[str, Matrix]) -> dict[str, Matrix]:
    """op of the matrices of an update, by name; raises ArgumentError for matrices and factors that do not fit."""
    stored = {name: op(matrix, call.options[1], "trans") for name, matrix in factors.items()}
    first, (alpha, beta) = stored["a"], call.factors
    check_factors(call.factors, name_of(first.array.dtype))
    if call.options[2] == "C":
        for name, value in (("alpha", 0.0 if len(factors) > 1 else alpha), ("beta", beta)):
            if type(value) is complex:
                raise ArgumentError(f"{name}={value!r} is not a real number; a Hermitian update takes a real one, {workload} any")
    for name, matrix in stored.items():
        matrices.check_alike(first, matrix)
        if matrix.shape != first.shape:
            raise ArgumentError(f"op({name}) is {matrix.shape} and op(a) {first.shape}; {workload} needs equal shapes")
    return stored


def _update(
    workload: str, call: RoutineCall, stored: Mapping[str, Matrix], c: Matrix, result: Any, begin: InitialContent | None
) -> Request:
    """The request for a triangle of ``c`` from the factors ``stored``, or for those of stacks."""
    (alpha, beta), (uplo, _, mirror, precision_asked) = call.factors, call.options
    n, k = stored["a"].shape
    if c.transposed:  # the transpose of a symmetric result is its other triangle; of a Hermitian one, the conjugate of that
        uplo = OTHER[uplo]
        if mirror == "C" and c.array.dtype.kind == "c":
            stored = {name: matrix._replace(conjugated=not matrix.conjugated) for name, matrix in stored.items()}
            alpha = alpha.conjugate()
    letters = "".join(map(letter, stored.values()))
    how = letters if len(set(letters)) > 1 else letters[0]
    operands = *(matrix.read_if(alpha != 0) for matrix in stored.values()), c
    workload, sizes = _batched_name(workload, c, (n, k))
    scalars = {"alpha": alpha, "beta": beta}
    return Request(workload, sizes, (uplo, how, mirror), operands, result, call.device, scalars, begin, precision=precision_asked)


_plan_syrk, _plan_syr2k = partial(_plan_update, "syrk", ("a",)), partial(_plan_update, "syr2k", ("a", "b"))
_CONJUGATE = {"T": "T", "C": "R", "R": "C"}
_SYMM, _SYRK, _SYR2K, _HEMM, _HERK, _HER2K = (Recorder(("alpha", "beta"), host=Level3(name)) for name in 2 * ("symm", "syrk", "syr2k"))
