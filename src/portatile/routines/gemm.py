"""matmul and gemm on NumPy arrays, Buffers and CUDA arrays, and on stacks of matrices; row-major or column-major, read in place.

With NumPy arrays the call returns when the result is complete. Arrays of CuPy and PyTorch, and Buffers, are used on the device that holds
them: the call queues the work on the caller's current stream, does not wait, and returns an array of the caller's library.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from numpy import ndarray

from portatile.runtime.host.numpy_products import HOST, PLAIN
from portatile.runtime.host.numpy_products import product as numpy_product
from portatile.runtime.host.numpy_products import scaled as numpy_scaled
from portatile.runtime.repeated.replayed import replays_of

if TYPE_CHECKING:
    from portatile.arguments.checks import Precision
    from portatile.arguments.letters import Trans
    from portatile.arguments.matrices import Array
    from portatile.device import Selector

_AS_THEY_ARE = ("N", "N")  # the transpositions of matmul
_MATMULS, _GEMMS = replays_of("matmul"), replays_of("gemm")


def matmul(
    a: Array, b: Array, out: Array | None = None, *, dtype: Any = None, precision: Precision | None = None, device: Selector | None = None
) -> Array:
    """The matrix product of ``a`` (m x k) and ``b`` (k x n), by the rules of ``numpy.matmul``.

    Operands are NumPy arrays and anything that NumPy converts to one, PyTorch's CPU tensors, Buffers, or CUDA arrays of PyTorch and CuPy.
    Dimensions before the last two are those of stacks, and broadcast. A vector is a row of ``a`` or a column of ``b``, and the result lacks
    that dimension. A stack whose matrices are evenly spaced in memory takes one launch. Arrays that kernels cannot read in place (steps,
    negative strides, other dtypes) are copied first.

    Dtypes are promoted as NumPy promotes them:

    - float32, float64, complex64, complex128, float16, bfloat16 and eight-bit floats are multiplied in their own type and summed in float32
      or better. On NVIDIA's matrix units, sums of products of eight-bit floats have 14 bits; every 128 terms such a sum is added to one in
      float32.
    - int8 is multiplied as int8 if ``dtype`` or ``out`` asks for int32, float32, float16 or bfloat16. Otherwise it is multiplied in
      float64, like other integers and bool, and the result is float64.
    - ``dtype`` asks for a result of another type (``portatile.dtypes.RESULTS``), such as float32 of float16, or casts the operands to it.

    ``precision`` says how the product is computed:

    - None: as ``"native"``. Large products of float32, float64 and complex numbers are ``"emulated"`` where that is expected to be faster.
    - ``"native"``: in the type's own arithmetic.
    - ``"tf32"``: on matrix units, if the device has them, with float32 operands truncated to ten bits of their fraction.
    - ``"3m"``: complex products from three real ones in place of four. The error of the imaginary part may be three times as large,
      relative to the sums of moduli. ``"emulated"`` runs instead where it is expected to be faster.
    - ``"emulated"``: from many products of fewer bits, with an error bound no larger than the native product's. Types without such a
      product are multiplied natively.
    - ``"reproducible"``: with the same bits on every device. Raises ArgumentError for types without such a product.

    ``out`` receives the result. It may have any strides and any dtype to which NumPy casts the result, and on the host it may overlap the
    inputs. ``device`` selects a device by id, name or vendor, or several as a list. If none is named, NumPy's BLAS computes small products
    of NumPy arrays.

    Raises ArgumentError for shapes, dtypes or options that do not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
        >>> portatile.matmul(a, b)[0, 0]
        np.float32(3.0)
    """
    product: Array | None
    if dtype is None and precision is None:
        if type(a) is ndarray:
            if type(b) is ndarray and device is None:
                product = numpy_product(a, b, out)
                if product is not None:
                    return product
        elif out is not None:
            if _MATMULS.known and _MATMULS.run((a, b, out), PLAIN, _AS_THEY_ARE, device):
                return out
        elif _MATMULS.made:
            product = _MATMULS.make((a, b), PLAIN, _AS_THEY_ARE, device)
            if product is not None:
                return product
        if type(a) in HOST and device is None:
            product = _converted().product(a, b, out)
            if product is not None:
                return product
    return _products().matmul(a, b, out, dtype, precision, device)  # type: ignore[no-any-return]


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
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] | None = None,
    device: Selector | None = None,
) -> Array:
    """``alpha * op(a) @ op(b) + beta * c``, as BLAS's GEMM.

    ``trans_a`` and ``trans_b`` say what op is: the identity (N), the transpose (T) or the conjugate transpose (C). op(a) is m x k, op(b) is
    k x n, ``c`` and ``out`` are m x n; or all are stacks of such matrices. Types, ``dtype``, ``precision`` and ``device`` are as for
    ``matmul``; ``c`` and ``out`` have the dtype of the result. ``alpha`` and ``beta`` are real numbers; they may be complex for complex
    matrices, and must be integers for int8. If ``beta`` is 0, ``c`` is not read; if ``alpha`` is 0, ``a`` and ``b`` are not. The result
    goes to ``out``, which may be ``c`` itself; without ``out`` it goes to a new row-major array, and ``c`` is not changed. On a
    device the new array has the order of ``c`` if that is read.

    One product of real matrices, or of an evenly spaced stack of them and one ``b``, may have an epilogue, computed in the same launch:
    ``activation(scale_a * scale_b * alpha * op(a) @ op(b) + beta * c + bias)``. ``bias`` is (n,) or (m, 1), ``scale_a`` (m,), ``scale_b``
    (n,), or each is one number; for eight-bit floats the scales may be m x q and q x n with q = ceil(k / 128). They are float32, or float64
    for float64 matrices; a bias may also have the dtype of a 16-bit result. ``"reproducible"`` supports only a bias and ReLU.

    Raises ArgumentError for shapes, dtypes or options that do not fit together, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> a, c = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
        >>> portatile.gemm(a, np.eye(2), c, alpha=2.0, beta=1.0, trans_a="T")
        array([[3., 7.],
               [5., 9.]])
    """
    factors = (alpha, beta) if type(alpha) is type(beta) is float else _products().factors(alpha, beta)
    arrays, trans = (a, b) if c is None else (a, b, c), (trans_a, trans_b)
    product: Array | None
    if bias is not None or activation is not None or scale_a is not None or scale_b is not None:
        epilogue = bias, scale_a, scale_b, activation, dtype, precision
        return _products().with_epilogue(arrays, factors, trans, epilogue, out, device)  # type: ignore[no-any-return]
    if dtype is None and precision is None:
        if type(a) is ndarray:
            if type(b) is ndarray and device is None:
                product = numpy_scaled(a, b, c, factors, trans, out)
                if product is not None:
                    return product
        elif out is not None:
            if _GEMMS.known and _GEMMS.run((*arrays, out), factors, trans, device):
                return out
        elif _GEMMS.made:
            product = _GEMMS.make(arrays, factors, trans, device)
            if product is not None:
                return product
    return _products().gemm(arrays, factors, trans, dtype, precision, out, device)  # type: ignore[no-any-return]


@cache
def _converted() -> Any:
    """The module that converts small operands for NumPy; it does not import the one below."""
    from portatile.runtime.host import numpy_converted

    return numpy_converted


@cache
def _products() -> Any:
    """The module that plans products for devices. Programs whose products are all left to NumPy start faster without it."""
    from portatile.routines import products

    return products
