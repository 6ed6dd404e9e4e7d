"""matmul and gemm on NumPy arrays, Buffers and CUDA arrays, and on stacks of matrices; row-major or column-major, read in place.

With NumPy arrays the call returns when the result is there. Arrays of CuPy and PyTorch, and Buffers, are used on the device
where they lie: the call queues the work on the caller's current stream, does not wait, and returns an array of the caller's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, Literal, cast

from numpy import ndarray

from portatile import dtypes
from portatile.arguments import checks, letters, numpy_rules, outputs, stacks
from portatile.arguments.checks import Precision
from portatile.arguments.letters import Trans, letter
from portatile.arguments.matrices import Array
from portatile.arguments.stacks import Product
from portatile.device import Selector
from portatile.dtypes import name_of, named
from portatile.routines import fused, stacked
from portatile.runtime import numpy_converted
from portatile.runtime.numpy_products import product as numpy_product
from portatile.runtime.numpy_products import scaled as numpy_scaled
from portatile.runtime.recorded import Call, Converted, Planned, Recorder
from portatile.runtime.request import Request
from portatile.workloads import precisions

_PLAIN = (1.0, 0.0)  # alpha and beta of a product


def matmul(
    a: Array, b: Array, out: Array | None = None, *, dtype: Any = None, precision: Precision | None = None, device: Selector | None = None
) -> Array:
    """The matrix product of ``a`` (m x k) and ``b`` (k x n), by the rules of ``numpy.matmul``.

    Dimensions before the last two are those of stacks, and broadcast; stacks that lie evenly in memory take one launch. A vector is a row
    of ``a`` or a column of ``b``, and the result lacks that dimension. Whatever NumPy makes an array of is taken. Arrays that kernels
    cannot read (with steps, negative strides, or other dtypes) are copied first.

    Dtypes are promoted as NumPy does. float32, float64, complex64, complex128, float16, bfloat16 and floats of eight bits are multiplied
    as such, with sums in float32 or better; of eight bits, where NVIDIA's matrix units sum, of 14 bits for 128 terms, and those in float32.
    int8 is multiplied as such where the result is to be int32; other integers and bool
    are multiplied in float64, and so is the result. ``dtype`` asks for a result of another type (``portatile.dtypes.RESULTS``), such as
    float32 of float16, or casts the operands to that type.

    ``precision`` says how the product is computed:

    - None: ``"native"``, but large products of float32, float64 and complex numbers ``"emulated"`` where that is expected to be faster.
    - ``"native"``: in the type's own arithmetic.
    - ``"tf32"``: float32 cut to ten bits of its fraction, on matrix units, where the device has such units.
    - ``"3m"``: complex matrices by three real products in place of four, with up to three times the error in the imaginary part,
      relative to the sums of moduli; ``"emulated"`` where that is expected to be faster.
    - ``"emulated"``: from many products of fewer bits, with an error bound no larger than the native product's; the native one where a type
      has no such product.
    - ``"reproducible"``: with the same bits on every device; ArgumentError where a type has no such product.

    ``out`` receives the result: an array of any strides and any dtype that NumPy casts to, which on the host may overlap the inputs.
    ``device`` selects a device by id, name or vendor. Where none is named, NumPy's BLAS computes small products of NumPy arrays.

    Raises ArgumentError for shapes, dtypes or options that do not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
        >>> portatile.matmul(a, b)[0, 0]
        np.float32(3.0)
    """
    if type(a) is ndarray and type(b) is ndarray and device is None and dtype is None and precision is None:
        product: Array | None = numpy_product(a, b, out)
        if product is not None:
            return product
    if type(a) in numpy_converted.HOST and type(b) in numpy_converted.HOST and device is None and dtype is None and precision is None:
        product = numpy_converted.product(a, b, out)
        if product is not None:
            return product
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
    """``alpha * op(a) @ op(b) + beta * c``, as BLAS's GEMM.

    ``trans_a`` and ``trans_b`` say what op is: the identity (N), the transpose (T) or the conjugate transpose (C).

    op(a) is m x k, op(b) is k x n, ``c`` and ``out`` are m x n, or stacks of these. With ``beta`` = 0 ``c`` is not read, with ``alpha`` = 0
    ``a`` and ``b`` are not. The result goes to ``out``, which may be ``c`` itself, or to a new row-major array. Types, ``dtype``,
    ``precision`` and ``device`` are as for ``matmul``; ``c`` and ``out`` have the result's type. alpha and beta are real numbers;
    complex ones for complex matrices, whole ones for int8.

    One product of real matrices may have an epilogue in the same launch: ``activation(scale_a * scale_b * alpha * op(a) @ op(b)
    + beta * c + bias)``. ``bias`` is (n,) or (m, 1), ``scale_a`` (m,), ``scale_b`` (n,), or one number; for floats of eight bits also m x q
    and q x n, with q = ceil(k / 128). These are float32, for float64 matrices float64. ``"reproducible"`` takes a bias and ReLU only.

    Raises ArgumentError for shapes, dtypes or options that do not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, c = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
        >>> portatile.gemm(a, np.eye(2), c, alpha=2.0, beta=1.0, trans_a="T")
        array([[3., 7.],
               [5., 9.]])
    """
    real = type(alpha) is type(beta) is float
    factors = (alpha, beta) if real else (checks.complex_factor(alpha, "alpha"), checks.complex_factor(beta, "beta"))
    if bias is not None or activation is not None or scale_a is not None or scale_b is not None:
        result_type = None if dtype is None else named(dtype)
        epilogue = fused.Epilogue(bias, scale_a, scale_b, activation, result_type, checks.precision(precision))
        return cast(Array, fused.gemm((a, b) if c is None else (a, b, c), factors, (trans_a, trans_b), epilogue, out, device))
    if type(a) is ndarray and type(b) is ndarray and device is None and dtype is None and precision is None:
        product: Array | None = numpy_scaled(a, b, c, factors, (trans_a, trans_b), out)
        if product is not None:
            return product
    arrays = (a, b) if c is None else (a, b, c)
    return cast(Array, _RECORDER.call(_plan, arrays, factors, _options((trans_a, trans_b), factors, dtype, precision), out, device))


def _options(trans: tuple[str, str], factors: tuple[complex, complex], dtype: Any, precision: Precision | None) -> tuple[Any, ...]:
    """The options of a call of ``gemm``, of which most have only the transpositions."""
    complex_factors = type(factors[0]) is complex or type(factors[1]) is complex
    if dtype is None and precision is None and not complex_factors:
        return trans
    return (*trans, None if dtype is None else named(dtype), complex_factors, checks.precision(precision))


def _plan_product(call: Call) -> Planned | Converted:
    """The plan of ``matmul``: as ``_plan`` for matrices that kernels read, else converted to such matrices by NumPy's rules."""
    a, b = call.arrays
    converted = numpy_rules.product(a, b, call.out, call.options[2] if len(call.options) > 2 else None)
    return (
        _plan(call) if converted is None else Converted(_plan, call._replace(arrays=converted.arrays, out=converted.out), converted.finish)
    )


def _plan(call: Call) -> Planned:
    """The plan of ``gemm``: one request for each launch. Raises ArgumentError for operands that do not fit together."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    trans_a, trans_b, *rest = call.options
    dtype, precision = (rest[0], rest[2]) if rest else (None, "")
    if not stacks.stacked(a) and not stacks.stacked(b):
        products = _one_product(call, dtype)
    elif precision and _goes_one_by_one(stacks.stack_of(a, "a"), stacks.stack_of(b, "b"), precision):
        names = ("a", "b", "c")[: len(call.arrays)]
        return stacked.each(_plan_one, call, stacked.checked(call, names, partial(_shape, trans=(trans_a, trans_b))))
    else:
        products = stacks.products(stacks.StackedGemm(a, b, c, call.factors[1], (trans_a, trans_b), call.out, dtype))
    requests = [
        _request(call, product, products.result, None if at else products.begin, precision) for at, product in enumerate(products.products)
    ]
    return Planned(products.result, requests)


def _one_product(call: Call, dtype: str | None) -> stacks.Products[Any]:
    """The product of two matrices, with its result. Raises ArgumentError for operands that do not fit together."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    beta = call.factors[1]
    stored_a, stored_b = letters.factors(a, b, *call.options[:2])
    kind = outputs.result_type(stored_a.array.dtype, dtype, call.out, c if beta != 0 else None)
    shape = stored_a.shape[0], stored_b.shape[1]
    result, stored_c, begin = outputs.receiving(call.out, shape, a, {"a": stored_a, "b": stored_b}, c, beta, kind)
    return stacks.Products(result, begin, [Product(stored_a, stored_b, stored_c)])


def _request(call: Call, product: Product, result: Any, begin: outputs.Begin | None, precision: str) -> Request:
    """The request for one launch: a product, or several that lie evenly in memory. Raises ArgumentError for factors of another type."""
    alpha, beta = call.factors
    dtype = dtypes.product_name(name_of(product.a.array.dtype), name_of(product.c.array.dtype))
    checks.check_factors(call.factors, dtypes.product(dtype).scalar)
    stored_a, stored_b, stored_c = stacks.merged(product.row_major())
    batch, workload = ((stored_c.number,), "gemm_batched") if stored_c.number > 1 else ((), "gemm")
    k = stored_a.rows if stored_a.transposed else stored_a.columns
    return Request(
        workload,
        (*batch, stored_c.rows, stored_c.columns, k),
        (letter(stored_a), letter(stored_b)),
        (stored_a.read_if(alpha != 0), stored_b.read_if(alpha != 0), stored_c.read_if(beta != 0)),
        result,
        call.device,
        {"alpha": alpha, "beta": beta},
        begin,
        precision=precision,
    )


def _plan_one(call: Call, result: Any) -> Planned:
    """The plan for one matrix of a stack, whose product goes to ``result``."""
    return _plan(call._replace(out=result))


def _shape(operands: Mapping[str, Any], trans: tuple[str, str]) -> tuple[int, int]:
    """The shape (m, n) of each product of the stacks ``a`` and ``b`` in ``operands``."""
    return operands["a"].shape[-2 if trans[0] == "N" else -1], operands["b"].shape[-1 if trans[1] == "N" else -2]


def _goes_one_by_one(a: Any, b: Any, precision: str) -> bool:
    """Whether a precision computes the products of two stacks one by one, each by its own request."""
    return precisions.one_by_one(precision, name_of(a.dtype), prod(a.shape[-2:]) * max(b.shape[-2:]))


_RECORDER = Recorder(("alpha", "beta"), product=True)
_PRODUCTS = Recorder(("alpha", "beta"), product=True)  # matmul's, which does not take the same arrays in the same way
