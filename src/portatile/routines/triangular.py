"""trmm and trsm: a triangular matrix, or its inverse, times another matrix, on the arrays that gemm takes."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

from portatile.arguments import outputs, stacks
from portatile.arguments.checks import COMPLEX, Precision, SolvePrecision, check_factors, check_options, complex_factor
from portatile.arguments.checks import precision as checked
from portatile.arguments.letters import OPPOSITE, OTHER, Diag, Side, Trans, Uplo, named
from portatile.arguments.matrices import Array, Matrix, check_alike, check_square, matrix
from portatile.arguments.outputs import InitialContent
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.dtypes import name_of
from portatile.routines import stacked
from portatile.routines.stacked import Stacks
from portatile.runtime.host.numpy_level3 import Level3
from portatile.runtime.repeated.recorded import Converted, Planned, Recorder
from portatile.runtime.request import Request, RoutineCall

_OF_SOLUTIONS = get_args(SolvePrecision)
_SMALL = {"triangular": 256, "trmm": stacked.SMALL}  # the orders up to which the triangles of a stack are computed together


def trmm(
    a: Array,
    b: Array,
    *,
    side: Side = "L",
    uplo: Uplo = "L",
    trans: Trans = "N",
    diag: Diag = "N",
    alpha: complex = 1.0,
    out: Array | None = None,
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """``alpha op(a) b`` (side L) or ``alpha b op(a)`` (side R) for a triangular ``a``, as BLAS's TRMM; arguments as for ``trsm``.

    Shapes, dtypes, vectors, stacks and the place of the result are as for ``trsm``. An infinity in ``b`` may give NaN in a neighbouring
    row (side L) or column where BLAS has a number, because zeros are multiplied. ``precision`` is that of the products: ``"tf32"``,
    ``"3m"``, ``"emulated"`` or ``"reproducible"``, as for ``matmul``.

    Raises ArgumentError for shapes, dtypes or options that do not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.trmm(np.array([[1.0, np.nan], [2.0, 3.0]]), np.ones((2, 1)))
        array([[1.],
               [5.]])
    """
    options = (side, uplo, trans, diag, checked(precision) if precision is not None else "")
    factors = (alpha if type(alpha) is float else complex_factor(alpha, "alpha"),)
    result: Array = _TRMM.call(_plan_trmm, (a, b), factors, options, out, device)
    return result


def trsm(
    a: Array,
    b: Array,
    *,
    side: Side = "L",
    uplo: Uplo = "L",
    trans: Trans = "N",
    diag: Diag = "N",
    alpha: complex = 1.0,
    out: Array | None = None,
    precision: SolvePrecision | None = None,
    device: Selector | None = None,
) -> Array:
    """Solve ``op(a) x = alpha b`` (side L) or ``x op(a) = alpha b`` (side R) for a triangular ``a``, as BLAS's TRSM.

    - ``a`` is square, of order m (side L) or n (side R). Only its triangle ``uplo`` (L or U) is read; with ``diag`` U its diagonal is not
      read, and taken to be ones. ``trans`` says what op is, as for ``gemm``.
    - ``b`` and the solution are m x n. ``b`` may also be a vector: a column (side L) or a row. Stacks broadcast as NumPy's do.
    - The solution goes to ``out``, which may be ``b``; without ``out`` to a new array, row-major or, on a device, in the order of ``b``.
    - All arrays have the same dtype: float32, float64, complex64 or complex128.

    A zero on the diagonal gives infinities or NaN, as in BLAS. These, and infinities or NaN in ``b``, may turn neighbouring rows (side L)
    or columns into NaN where BLAS has a number or an infinity, because diagonal blocks are inverted and their zeros multiplied.

    ``precision`` is that of the products outside of the diagonal blocks, which are solved natively: ``"tf32"``, ``"3m"`` or ``"emulated"``,
    as for ``matmul``. With it the matrices of a stack are solved for one by one.

    Raises ArgumentError for shapes, dtypes or options that do not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.trsm(np.array([[1.0, np.nan], [2.0, 4.0]]), np.array([[1.0], [4.0]]))
        array([[1. ],
               [0.5]])
    """
    options = (side, uplo, trans, diag, checked(precision, _OF_SOLUTIONS) if precision is not None else "")
    factors = (alpha if type(alpha) is float else complex_factor(alpha, "alpha"),)
    result: Array = _TRSM.call(_plan_trsm, (a, b), factors, options, out, device)
    return result


def _plan(workload: str, call: RoutineCall) -> Planned | Converted:
    """The requests for ``workload`` on triangles ``a`` and on ``b``, a vector or matrices. Raises ArgumentError for what does not fit."""
    (a, b), side = call.arrays, call.options[0]
    plan = partial(_plan_one, workload)
    if getattr(b, "ndim", 2) == 1:
        return stacked.as_matrix(partial(_plan, workload), call, -1 if side == "L" else -2)
    if not stacks.stacked(a) and not stacks.stacked(b):
        return plan(call)
    tall = stacked.as_tall(plan, call) if side == "R" else None
    if tall is not None:
        return tall
    checked_stacks = stacked.checked(call, ("a", "b"), lambda given: given["b"].shape[-2:])
    return _plan_together(workload, call, checked_stacks) or stacked.each(plan, call, checked_stacks)


def _plan_together(workload: str, call: RoutineCall, checked_stacks: Stacks) -> Planned | None:
    """A request for each evenly spaced part of stacks of small triangles; None where each matrix is computed alone."""
    if call.options[-1]:  # in another precision each matrix is computed alone
        return None
    apart = _plan_together_out_of_place(workload, call, checked_stacks)
    if apart is not None:
        return apart
    b, copied = checked_stacks.given["b"], checked_stacks.result is not call.arrays[1]
    parts = stacked.parts(checked_stacks, checked_stacks.given["a"].shape[-1], _SMALL[workload], ("a",), "b" if copied else "")
    if parts is None:
        return None
    for a, target in parts:
        _check(call, a, target)
    begin = stacks.copying(b, checked_stacks.target, "b") if copied else None
    batched = f"{workload}_batched"
    requests = [_request(batched, call, a, target, checked_stacks.result, None if at else begin) for at, (a, target) in enumerate(parts)]
    return Planned(checked_stacks.result, requests)


def _plan_together_out_of_place(workload: str, call: RoutineCall, checked_stacks: Stacks) -> Planned | None:
    """As ``_plan_together`` where kernels read B and write the result to other memory of the same GPU; None where they cannot."""
    target = checked_stacks.target
    if not isinstance(target, Buffer) or not target.device.info.nvidia or stacked.in_one_place(checked_stacks.given["b"], target):
        return None
    parts = stacked.parts(checked_stacks, checked_stacks.given["a"].shape[-1], _SMALL[workload], ("a", "b"))
    if parts is None or not all(_out_of_place(b, c) for _, b, c in parts):
        return None
    for a, b, _ in parts:
        _check(call, a, b)
    requests = [_request(f"{workload}_batched", call, a, c, checked_stacks.result, None, b) for a, b, c in parts]
    return Planned(checked_stacks.result, requests)


def _plan_one(workload: str, call: RoutineCall, made: Any = None) -> Planned:
    """The request for one matrix ``b``; the result goes to ``made`` if it is given."""
    (a, b), out = call.arrays, call.out
    stored_a, source = matrix(a, "a", COMPLEX), matrix(b, "b", COMPLEX)
    _check(call, stored_a, source)
    result = made if made is not None else outputs.new_for(source, b, source.shape) if out is None else out
    stored_b = outputs.output(result, source.shape, source.array.dtype)
    if result is not b and _out_of_place(source, stored_b):
        return Planned(result, [_request(workload, call, stored_a, stored_b, result, None, source)])
    begin = None if result is b else outputs.copying(source, stored_b, "b")
    return Planned(result, [_request(workload, call, stored_a, stored_b, result, begin)])


def _out_of_place(b: Matrix, c: Matrix) -> bool:
    """Whether kernels may read ``b`` and write ``c``: on one device, in the same order, without overlap. Else ``b`` is copied to ``c``."""
    return b.on_device and c.on_device and b.transposed == c.transposed and not outputs.overlap(b, c)


def _check(call: RoutineCall, a: Matrix, b: Matrix) -> None:
    """Raise ArgumentError for unknown options, and for matrices that do not fit together."""
    side, uplo, trans, diag, _ = call.options
    check_options(("side", side, "LR"), ("uplo", uplo, "LU"), ("trans", trans, "NTC"), ("diag", diag, "NU"))
    check_factors(call.factors, name_of(b.array.dtype))
    check_square(a, side, b.shape)
    check_alike(a, b)


def _request(
    workload: str, call: RoutineCall, a: Matrix, b: Matrix, result: Any, begin: InitialContent | None, source: Matrix | None = None
) -> Request:
    """The request for a matrix ``b``, or a stack of them, which the result overwrites; with ``source``, that is read instead of ``b``."""
    (alpha,), (side, uplo, trans, diag, asked) = call.factors, call.options
    outputs.check_apart(b, a, "a")
    m, n = b.shape
    transpose, conjugated = trans != "N", trans == "C" and b.array.dtype.kind == "c"
    if a.transposed:  # the stored matrix is a^T: its other triangle, transposed once more
        uplo, transpose = OTHER[uplo], not transpose
    if b.transposed:  # B^T op(a)^T
        side, transpose, m, n = OPPOSITE[side], not transpose, n, m
    batched = workload.endswith("_batched")
    options = (side, uplo, named(transpose, conjugated), diag, source is not None)
    sizes = (b.number, m, n) if batched else (m, n)
    read = [operand.read_if(alpha != 0) for operand in (a, source) if operand is not None]
    operands, scalars = (*read, b), {"alpha": alpha}
    return Request(workload, sizes, options, operands, result, call.device, scalars, begin, precision=asked)


_plan_trmm, _plan_trsm = partial(_plan, "trmm"), partial(_plan, "triangular")
_TRMM, _TRSM = Recorder(("alpha",), host=Level3("trmm")), Recorder(("alpha",), host=Level3("triangular"))
