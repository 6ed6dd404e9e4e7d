"""Triangular solves as a PyTorch operator: trsm with its gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from portatile.arguments.checks import SolvePrecision
from portatile.routines import triangular as _triangular
from portatile.torch.dispatch import Operator, called, in_one_place, register
from portatile.torch.products import gemm, transposed


def trsm(
    a: Tensor,
    b: Tensor,
    *,
    side: str = "L",
    uplo: str = "L",
    trans: str = "N",
    diag: str = "N",
    alpha: float = 1.0,
    precision: SolvePrecision | None = None,
    device: str | None = None,
) -> Tensor:
    """``portatile.trsm`` with gradients of ``a`` (its triangle) and ``b``: a new tensor with the solution.

    Tensors are float32, float64, complex64 or complex128. The products that compute gradients have the same ``precision``.
    Raises ArgumentError for tensors that do not fit together.
    """
    matrix = b if b.ndim != 1 else b[:, None] if side == "L" else b[None]
    solution = called("trsm", _compute, (a, matrix), side, uplo, trans, diag, alpha, device, precision)
    return solution if b.ndim != 1 else solution.squeeze(-1 if side == "L" else -2)


def _compute(
    a: Tensor, b: Tensor, side: str, uplo: str, trans: str, diag: str, alpha: float, device: str | None, precision: str | None = None
) -> Tensor:
    def compute(a: Any, b: Any) -> Any:
        options: dict[str, Any] = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "precision": precision}
        return _triangular.trsm(a, b, alpha=alpha, device=device, **options)

    return in_one_place(compute, a, b)


def _shape(
    a: Tensor, b: Tensor, side: str, uplo: str, trans: str, diag: str, alpha: float, device: str | None, precision: str | None = None
) -> Tensor:
    return b.new_empty((*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


def _context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, _, *ctx.rest = inputs
    ctx.save_for_backward(a, output)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    """For x = alpha M^-1 b with M = op(a), side L: y = M^-H g is the gradient of b over alpha, and - y x^H that of M."""
    a, x = ctx.saved_tensors
    side, uplo, trans, diag, alpha, device, precision = ctx.rest
    inverted, letter = transposed((a, trans), "C")
    y = trsm(inverted, gradient.contiguous(), side=side, uplo=uplo, trans=letter, diag=diag, precision=precision, device=device)
    of_a = None
    if ctx.needs_input_grad[0]:
        first, second = ((y, "N"), transposed((x, "N"), "C")) if side == "L" else (transposed((x, "N"), "C"), (y, "N"))
        if trans != "N":
            first, second = transposed(second, trans), transposed(first, trans)
        product = gemm(first[0], second[0], alpha=-1.0, trans_a=first[1], trans_b=second[1], precision=precision, device=device)
        away = 1 if diag == "U" else 0
        of_a = product.tril(-away) if uplo == "L" else product.triu(away)
    return of_a, alpha * y, *(None,) * len(ctx.rest)


def _tangent(given: tuple[Any, ...], output: Tensor, tangents: tuple[Any, ...]) -> Any:
    """For x = alpha M^-1 b with M = op(a), side L: the tangent is M^-1 (alpha db - dM x)."""
    a, _, side, uplo, trans, diag, alpha, device, precision = given
    of_a, of_b, *_ = tangents
    right = torch.zeros_like(output) if of_b is None else alpha * of_b
    if of_a is not None:
        away = 1 if diag == "U" else 0
        triangle = of_a.tril(-away) if uplo == "L" else of_a.triu(away)
        first, second, letters = (triangle, output, (trans, "N")) if side == "L" else (output, triangle, ("N", trans))
        right = right - gemm(first, second, trans_a=letters[0], trans_b=letters[1], precision=precision, device=device)
    return trsm(a, right, side=side, uplo=uplo, trans=trans, diag=diag, precision=precision, device=device)


register("trsm", Operator(_compute, _shape, _gradients, _context, _tangent))
