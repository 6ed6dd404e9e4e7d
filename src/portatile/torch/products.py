"""Matrix products as PyTorch operators: matmul and gemm with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from portatile.arguments.checks import Precision
from portatile.dtypes import RESULTS
from portatile.errors import ArgumentError
from portatile.routines import gemm as _gemm
from portatile.torch.dispatch import Operator, called, in_one_place, register

Operand = tuple[Tensor, str]
"""An operand op(x) of a product: x, and the letter of op."""


def matmul(a: Tensor, b: Tensor, *, precision: Precision | None = None, device: str | None = None) -> Tensor:
    """``portatile.matmul`` with gradients: the product of ``a`` (m x k) and ``b`` (k x n), of stacks of them, or with vectors.

    Tensors are float32, float64, complex64 or complex128. The products that compute gradients have the same ``precision``.
    Raises ArgumentError for tensors that do not fit together.
    """
    if not a.ndim or not b.ndim:
        raise ArgumentError("matmul takes vectors, matrices and stacks of matrices: use * for scalars")
    product = gemm(a if a.ndim > 1 else a[None], b if b.ndim > 1 else b[:, None], precision=precision, device=device)
    product = product if a.ndim > 1 else product.squeeze(-2)
    return product if b.ndim > 1 else product.squeeze(-1)


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: str = "N",
    trans_b: str = "N",
    precision: Precision | None = None,
    device: str | None = None,
) -> Tensor:
    """``portatile.gemm`` with gradients of ``a``, ``b`` and ``c``: a new tensor with ``alpha * op(a) @ op(b) + beta * c``.

    Tensors are float32, float64, complex64 or complex128. The products that compute gradients have the same ``precision``.
    Raises ArgumentError for tensors that do not fit together.
    """
    if beta != 0 and c is None:
        raise ArgumentError("beta is not 0 and c is missing; pass c, or beta=0")
    return called("gemm", _compute, (a, b, c if beta != 0 else None), alpha, beta, trans_a, trans_b, device, precision)


def _size(shape: Sequence[Any], trans: str) -> tuple[Any, Any]:
    """Rows and columns of op(x)."""
    rows, columns = shape[-2:]
    return (rows, columns) if trans == "N" else (columns, rows)


def _compute(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    device: str | None,
    precision: str | None = None,
) -> Tensor:
    def compute(a: Any, b: Any, c: Any) -> Any:
        options: dict[str, Any] = {"trans_a": trans_a, "trans_b": trans_b, "precision": precision}
        return _gemm.gemm(a, b, c, alpha=alpha, beta=beta, device=device, **options)

    return in_one_place(compute, _readable(a), _readable(b), None if c is None else _readable(c))


def _readable(tensor: Tensor) -> Tensor:
    """A matrix whose rows or columns are contiguous, copied if needed; raises ArgumentError for fewer dimensions."""
    if tensor.ndim < 2:
        raise ArgumentError(f"a tensor of shape {tuple(tensor.shape)}; pass a matrix or a stack of them")
    if tensor.layout is not torch.strided:
        raise ArgumentError(f"a tensor of layout {tensor.layout}; pass a dense one, such as tensor.to_dense()")
    rows, columns = tensor.stride()[-2:]
    return tensor if (columns == 1 and rows >= tensor.shape[-1]) or (rows == 1 and columns >= tensor.shape[-2]) else tensor.contiguous()


def _shape(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    device: str | None,
    precision: str | None = None,
) -> Tensor:
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), (inner, n) = _size(a.shape, trans_a), _size(b.shape, trans_b)
    if k != inner:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {inner} x {n}: the inner dimensions differ")
    possible = [getattr(torch, name) for name in RESULTS.get(str(a.dtype).removeprefix("torch."), ())] or [a.dtype]
    return a.new_empty((*stack, m, n), dtype=c.dtype if c is not None and c.dtype in possible else possible[0])


def _context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, c, *ctx.rest = inputs
    ctx.save_for_backward(a, b)
    ctx.third = None if c is None else c.shape


def transposed(operand: Operand, trans: str) -> Operand:
    """The transpose (T) or conjugate transpose (C) of op(x), as a tensor and the letter of its own op."""
    tensor, own = operand
    if not tensor.is_complex():
        return tensor, "T" if own == "N" else "N"
    if own == "N":
        return tensor, trans
    return (tensor, "N") if own == trans else (tensor.conj(), "N")


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    alpha, beta, trans_a, trans_b, device, precision = ctx.rest

    def product(first: Operand, second: Operand, trans: str, like: Tensor) -> Tensor:
        """The gradient of ``like`` from that of op(like), which is op(first) @ op(second)."""
        left, right = (first, second) if trans == "N" else (transposed(second, trans), transposed(first, trans))
        found = gemm(left[0], right[0], alpha=alpha, trans_a=left[1], trans_b=right[1], precision=precision, device=device)
        return found.sum_to_size(like.shape)

    given = gradient.contiguous(), "N"
    of_a = of_b = of_c = None
    if ctx.needs_input_grad[0]:
        of_a = product(given, transposed((b, trans_b), "C"), trans_a, a)
    if ctx.needs_input_grad[1]:
        of_b = product(transposed((a, trans_a), "C"), given, trans_b, b)
    if ctx.third is not None and ctx.needs_input_grad[2]:
        of_c = (beta * gradient).sum_to_size(ctx.third)
    return of_a, of_b, of_c, *(None,) * len(ctx.rest)


def _batch(info: Any, dims: tuple[Any, ...], a: Tensor, b: Tensor, c: Tensor | None, *rest: Any) -> tuple[Tensor, int]:
    """A batch of calls, along ``dims`` of the tensors that have one, as one call on stacks."""
    rank = max(one.ndim - (dim is not None) for one, dim in zip((a, b), dims, strict=False))

    def first(one: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            return one
        moved = one.movedim(dim, 0).contiguous()
        return moved.reshape(len(moved), *(1,) * (rank + 1 - moved.ndim), *moved.shape[1:])

    third = c if c is None or dims[2] is not None else c.expand(info.batch_size, *c.shape)
    third = None if third is None else first(third, dims[2] or 0)
    return torch.ops.portatile.gemm(first(a, dims[0]), first(b, dims[1]), third, *rest), 0


def _tangent(given: tuple[Any, ...], output: Tensor, tangents: tuple[Any, ...]) -> Any:
    a, b, _, alpha, beta, trans_a, trans_b, device, precision = given
    of_a, of_b, of_c, *_ = tangents
    pairs = [pair for pair in ((of_a, b), (a, of_b)) if pair[0] is not None and pair[1] is not None]
    letters: dict[str, Any] = {"trans_a": trans_a, "trans_b": trans_b, "device": device, "precision": precision}
    terms = [gemm(first, second, alpha=alpha, **letters) for first, second in pairs]
    if of_c is not None:
        terms.append((beta * of_c).expand(output.shape))
    return sum(terms[1:], terms[0])


register("gemm", Operator(_compute, _shape, _gradients, _context, _tangent))
if hasattr(torch.library, "register_vmap"):  # otherwise each call of a batch is made separately
    torch.library.register_vmap("portatile::gemm", _batch)
