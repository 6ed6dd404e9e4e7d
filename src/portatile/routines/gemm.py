"""matmul and gemm on NumPy arrays, Buffers and CUDA arrays, row-major or column-major, read in place; stacks of matrices too.

NumPy in, NumPy out: the call returns when the result is there. Arrays of CuPy and PyTorch, and Buffers, choose their own
device; the work is queued on the caller's current stream, the result is of the caller's library, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, Literal, cast

import numpy as np

from portatile.arguments import checks, matrices, numpy_rules, outputs, stacks
from portatile.arguments.checks import FACTORS, Precision
from portatile.arguments.letters import Trans, letter, op
from portatile.arguments.matrices import Array
from portatile.arguments.stacks import Product
from portatile.device import Selector
from portatile.dtypes import name_of, named
from portatile.errors import ArgumentError
from portatile.routines import fused, stacked
from portatile.runtime import host_blas
from portatile.runtime.recorded import Call, Converted, Planned, Recorder
from portatile.runtime.request import Request
from portatile.workloads import precisions

_PLAIN = (1.0, 0.0)  # alpha and beta of a product


def matmul(
    a: Array,
    b: Array,
    out: Array | None = None,
    *,
    dtype: Any = None,
    precision: Precision | None = None,
    device: Selector | None = None,
) -> Array:
    """The matrix product of ``a`` (m x k) and ``b`` (k x n), by the rules of ``numpy.matmul``.

    With more than two dimensions, of the stacks of matrices in the last two: the others broadcast as NumPy's do, and stacks
    that lie evenly in memory are one launch. A vector is a row of ``a``, a column of ``b``, and the result lacks that dimension.
    Lists and whatever NumPy makes an array of are taken too. Dtypes are promoted as NumPy's. float32, float64, complex64, complex128,
    float16, bfloat16 and floats of eight bits are multiplied as such, with sums in float32 or better; integers and bool in float64, which
    the result is too, but int8 as such where the result is asked to be int32. ``dtype`` asks for another result, as float32 of float16
    (``portatile.dtypes.RESULTS``), or for operands that are cast to it. What kernels cannot read is copied first: steps, negative
    strides, other dtypes.

    Without ``precision``, large products of float32, float64 and complex numbers are computed as with ``"emulated"`` where that is expected
    to be faster; ``"native"`` keeps to the type's own arithmetic. ``"tf32"`` lets units multiply float32 with ten bits of its fraction,
    where the device has such units. ``"3m"`` multiplies complex matrices by three real products in place of four, as CGEMM3M does: a
    quarter less work, and up to three times the error in the imaginary part, relative to the sums of moduli. ``"emulated"`` forms an
    accurate product from many of fewer bits, whose error bound is no larger than the native product's; where there is none for a type, the
    native product runs, which ``portatile.explain`` says. ``"reproducible"`` gives the same bits on every device and back end, and in every
    run; what has no such product is refused.

    ``out`` receives the result if given: with any strides, and of any dtype that NumPy casts to silently. On the host it may overlap the
    inputs. ``device`` selects a device by id, name or vendor; where none is named, small products of NumPy arrays are left to NumPy's BLAS
    if that takes less time than a launch. Raises ArgumentError for what does not fit, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
        >>> portatile.matmul(a, b)[0, 0]
        np.float32(3.0)
    """
    if device is None and dtype is None and precision is None and type(a) is np.ndarray and type(b) is np.ndarray:
        light = host_blas.product(a, b, out)
        if light is not None:
            return cast(Array, light)
    options: tuple[Any, ...] = ("N", "N")
    if dtype is not None or precision is not None:
        options = ("N", "N", None if dtype is None else named(dtype), False, checks.precision(precision))
    return cast(Array, _PRODUCTS.call(_plan_product, (a, b), _PLAIN, options, out, device))


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    trans_a: Trans = "N",
    trans_b: Trans = "N",
    out: Array | None = None,
    dtype: Any = None,
    precision: Precision | None = None,
    bias: Array | None = None,
    scale_a: Array | float | None = None,
    scale_b: Array | float | None = None,
    activation: Literal["relu", "gelu", "silu"] | None = None,
    device: Selector | None = None,
) -> Array:
    """``alpha * op(a) @ op(b) + beta * c``, as BLAS's GEMM: op is the identity (N), the transpose (T) or the conjugate transpose (C).

    Arrays of more than two dimensions are stacks of matrices, as for ``matmul``; op transposes each.

    op(a) is m x k, op(b) k x n, ``c`` and ``out`` m x n. With ``beta`` = 0 ``c`` is not read, with ``alpha`` = 0 ``a``
    and ``b`` are not. The result goes to ``out``, which may be ``c`` itself; without it, to a new row-major array. Types are as
    for ``matmul``; ``c`` and ``out`` have the result's. alpha and beta are real, complex for complex matrices, whole for integers.
    ``precision`` is as for ``matmul``.
    ``device`` selects a device by id, name or vendor. Raises ArgumentError for what does not fit, DeviceNotFoundError for
    an unknown device.

    The epilogue, of one product of real matrices, is computed in the same launch: ``activation(scale_a * scale_b * alpha * op(a) @ op(b) +
    beta * c + bias)``. ``bias`` has the shape (n,) or (m, 1), ``scale_a`` (m,) for the rows of op(a), ``scale_b`` (n,) for the columns of
    op(b), or either is one number. They are float32, or float64 of float64 matrices. Of floats of eight bits, blocks of 128 of k may have
    factors of their own, with q = ceil(k / 128): ``scale_a`` is m x q then, ``scale_b`` q x n. ``activation`` is ReLU, GELU with the error
    function, or SiLU. Of int8 matrices the result is float32 then. After a product of another ``precision`` bias and activation are a
    launch of their own; with vectors of scales the native product runs, which
    ``portatile.explain("gemm_epilogue", scale_a="rows", ...)`` says too. Reproducible are a bias and ReLU.

    Examples:
        >>> import numpy as np, portatile
        >>> a, c = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
        >>> portatile.gemm(a, np.eye(2), c, alpha=2.0, beta=1.0, trans_a="T")
        array([[3., 7.],
               [5., 9.]])
        >>> portatile.gemm(a, np.eye(2), bias=np.array([-3.0, 0.0]), activation="relu")
        array([[0., 2.],
               [0., 4.]])
    """
    factors = checks.complex_factor(alpha, "alpha"), checks.complex_factor(beta, "beta")
    arrays = (a, b) if c is None else (a, b, c)
    if bias is not None or activation is not None or scale_a is not None or scale_b is not None:
        given = checks.precision(precision)
        asked = fused.Epilogue(bias, scale_a, scale_b, activation, None if dtype is None else named(dtype), given)
        return cast(Array, fused.gemm(arrays, factors, (trans_a, trans_b), asked, out, device))
    options: tuple[Any, ...] = (trans_a, trans_b)
    complex_factors = type(factors[0]) is complex or type(factors[1]) is complex
    if dtype is not None or precision is not None or complex_factors:
        options = (trans_a, trans_b, None if dtype is None else named(dtype), complex_factors, checks.precision(precision))
    return cast(Array, _RECORDER.call(_plan, arrays, factors, options, out, device))


def _plan_product(call: Call) -> Planned | Converted:
    """The requests of ``_plan`` for whatever ``numpy.matmul`` takes."""
    a, b = call.arrays
    found = numpy_rules.product(a, b, call.out, call.options[2] if len(call.options) > 2 else None)
    return _plan(call) if found is None else Converted(_plan, call._replace(arrays=found.arrays, out=found.out), found.finish)


def _plan(call: Call) -> Planned:
    """A request for each launch's worth of matrices. Raises ArgumentError for what does not fit."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    (alpha, beta), (trans_a, trans_b, *rest), out = call.factors, call.options, call.out
    wanted, precision = (rest[0], rest[2]) if rest else (None, "")
    if stacks.stacked(a) or stacks.stacked(b):
        if precision and _goes_one_by_one(stacks.stack_of(a, "a"), stacks.stack_of(b, "b"), precision):
            names = ("a", "b", "c")[: len(call.arrays)]
            return stacked.each(_plan_one, call, stacked.checked(call, names, partial(_shape, trans=(trans_a, trans_b))))
        found = stacks.products(stacks.Given(a, b, c, beta, (trans_a, trans_b), out, wanted))
    else:
        stored_a = op(matrices.matrix(a, "a", FACTORS), trans_a, "trans_a")
        stored_b = op(matrices.matrix(b, "b", FACTORS), trans_b, "trans_b")
        (m, k), (k_b, n) = stored_a.shape, stored_b.shape
        if k != k_b:
            raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {k_b} x {n}: the inner dimensions differ")
        matrices.alike(stored_a, stored_b)
        kind = outputs.result_type(stored_a.array.dtype, wanted, out, c if beta != 0 else None)
        result, stored_c, begin = outputs.receiving(out, (m, n), a, {"a": stored_a, "b": stored_b}, c, beta, kind)
        found = stacks.Products(result, begin, [Product(stored_a, stored_b, stored_c)])
    requests, begin = [], found.begin
    for product in found.products:
        checks.check_factors(call.factors, name_of(product.a.array.dtype))
        _, _, stored_c = operands = stacks.merged(product.row_major())
        stored_a, stored_b = (stored.read_if(alpha != 0) for stored in operands[:2])
        batch, workload = ((stored_c.number,), "gemm_batched") if stored_c.number > 1 else ((), "gemm")
        k = stored_a.rows if stored_a.transposed else stored_a.columns
        request = Request(
            workload,
            (*batch, stored_c.rows, stored_c.columns, k),
            (letter(stored_a), letter(stored_b)),
            (stored_a, stored_b, stored_c.read_if(beta != 0)),
            found.result,
            call.device,
            {"alpha": alpha, "beta": beta},
            begin,
            precision=precision,
        )
        requests.append(request)
        begin = None
    return Planned(found.result, requests)


def _plan_one(call: Call, result: Any) -> Planned:
    """The request for one matrix of a stack, into ``result``."""
    return _plan(call._replace(out=result))


def _shape(given: Mapping[str, Any], trans: tuple[str, str]) -> tuple[int, int]:
    """The shape of each product of two stacks."""
    return given["a"].shape[-2 if trans[0] == "N" else -1], given["b"].shape[-1 if trans[1] == "N" else -2]


def _goes_one_by_one(a: Any, b: Any, precision: str) -> bool:
    """Whether each product of two stacks is a request of its own in a precision."""
    return precisions.one_by_one(precision, name_of(a.dtype), prod(a.shape[-2:]) * max(b.shape[-2:]))


_RECORDER = Recorder(("alpha", "beta"), product=True)
_PRODUCTS = Recorder(("alpha", "beta"), product=True)  # matmul's, which does not take the same arrays in the same way
