"""Random problems of products: GEMM of every type, and the level-3 BLAS, of one matrix or a stack."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import portatile
from attack.calls import BOTH, REAL, Array, Block, Draw, Problems, bound, random_numbers, wide
from portatile import device as devices
from portatile import dtypes
from portatile.workloads import precisions

_OTHER = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
_UNITS = 0.0169  # of matrix units, which keep 14 bits of a sum of eight-bit floats
_UNTOUCHED = 7  # what stays where a routine writes a triangle


def _op(array: Array, letter: str) -> Array:
    if letter == "N":
        return array
    transposed = array.swapaxes(-1, -2)
    return transposed.conj() if letter == "C" else transposed


def _stack(draw: Draw) -> tuple[int, ...]:
    return draw.rng.choice(((),) * 7 + ((2,), (3,), (2, 2)))


def _factor(draw: Draw, dtype: str) -> complex:
    rng = draw.rng
    drawn = rng.choice((0.0, 1.0, -0.5, rng.uniform(-2, 2)))
    return complex(drawn, rng.uniform(-1, 1)) if dtypes.ELEMENTS[dtype].components == 2 and rng.random() < 0.5 else drawn


def _precision(draw: Draw, workload: str, dtype: str) -> dict[str, Any]:
    """In one form of four a precision that the routine has for the dtype, as the routine's argument."""
    if draw.rng.random() < 0.75:
        return {}
    real, double = not dtype.startswith("complex"), devices.get(draw.device).info.fp64
    refused = {"3m"} if real else set()
    if dtype != "float32":
        refused.add("tf32")
    if not double or dtype not in (*BOTH, "int8"):
        refused.add("reproducible")
    if not double and dtype != "float32":
        refused.add("emulated")
    return {"precision": draw.rng.choice([choice for choice in precisions.choices(workload) if choice not in refused])}


def _within(terms: Array, k: int, dtype: str, precision: dict[str, Any], more: int = 8) -> Array:
    """The bound of a product in a precision: of tf32 both factors of a term are cut, three products round a few times more than four."""
    if precision.get("precision") == "3m":
        more += 8
    cut = 2.002 * dtypes.ELEMENTS["tfloat32"].unit if precision.get("precision") == "tf32" else 0.0
    return bound(terms, k, dtype, more) + cut * terms


def _letters(dtype: str) -> str:
    return "NTC" if dtype.startswith("complex") else "NT"


def _gemm(draw: Draw) -> Problems:
    """alpha op(a) op(b) + beta c, at times with a bias and ReLU; what a factor of zero does not read is poison."""
    rng, dtype, stack = draw.rng, draw.rng.choice(BOTH), _stack(draw)
    (m, n, k), ta, tb = draw.sizes(3), rng.choice(_letters(dtype)), rng.choice(_letters(dtype))
    a = draw.filled((*stack, *((m, k) if ta == "N" else (k, m))), dtype)
    b = draw.filled((*stack, *((k, n) if tb == "N" else (n, k))), dtype)
    alpha, beta = _factor(draw, dtype) or 1.0, _factor(draw, dtype)
    c = draw.filled((*stack, m, n), dtype) if beta else draw.empty((*stack, m, n), dtype)
    x, y = _op(wide(a.views), ta), _op(wide(b.views), tb)
    exact, scale = alpha * (x @ y), abs(alpha) * (np.abs(x) @ np.abs(y))
    if beta:
        exact, scale = exact + beta * wide(c.views), scale + abs(beta) * np.abs(wide(c.views))
    asked = _precision(draw, "gemm", dtype)
    how: dict[str, Any] = {"alpha": alpha, "beta": beta, "trans_a": ta, "trans_b": tb, "device": draw.device, **asked}
    if dtype in REAL and not stack and rng.random() < 0.2:
        bias = random_numbers(draw.numbers, rng.choice(((n,), (m, 1))), dtype)
        exact, scale = np.maximum(exact + wide(bias), 0.0), scale + np.abs(wide(bias))
        how |= {"bias": bias if draw.library is None else draw.library.plain(bias), "activation": "relu"}
    out = draw.empty((*stack, m, n), dtype)
    return Problems(
        "gemm",
        out,
        lambda i, to: portatile.gemm(a[i], b[i], c[i], out=to, **how),
        exact,
        _within(scale, k, dtype, asked),
        (a, b, c),
    )


def _matmul(draw: Draw) -> Problems:
    """As ``numpy.matmul``: stacks that are broadcast, and steps in memory."""
    rng, dtype, stack, (m, n, k) = draw.rng, draw.rng.choice(BOTH), _stack(draw), draw.sizes(3)
    a, b = draw.filled((*stack, m, k), dtype), draw.filled((*(stack if rng.random() < 0.7 else ()), k, n), dtype)
    step = rng.choice((1,) * 8 + ((-1, 2) if draw.library is None or draw.library.backwards else (2,)))
    x, y = a[..., ::step], b[..., : -(-k // abs(step)), :]
    exact, scale = [], []
    for left, right in zip(wide(x.views), wide(y.views), strict=True):
        exact.append(left @ right)
        scale.append(np.abs(left) @ np.abs(right))
    out = draw.empty((*stack, m, n), dtype)
    asked = _precision(draw, "gemm", dtype)
    run = partial(_multiplied, x, y, {"device": draw.device, **asked})
    return Problems("matmul", out, run, np.stack(exact), _within(np.stack(scale), k, dtype, asked), (a, b))


def _multiplied(x: Block, y: Block, how: dict[str, Any], i: int, out: Array) -> object:
    return portatile.matmul(x[i], y[i], out=out, **how)


def _types(draw: Draw) -> Problems:
    """Products of 16 and 8 bits, into each type that they may have: sums in float32 and one more rounding; of int8 exact ones."""
    rng, dtype, stack, (m, n, k) = draw.rng, draw.rng.choice(_OTHER), _stack(draw), draw.sizes(3)
    kinds = dtypes.RESULTS[dtype][:1] if dtype == "int8" else dtypes.RESULTS[dtype]
    result = dtypes.ELEMENTS[rng.choice(kinds)]
    a, b = draw.filled((*stack, m, k), dtype), draw.filled((*stack, k, n), dtype)
    x, y = wide(a.views), wide(b.views)
    exact, scale = x @ y, np.abs(x) @ np.abs(y)
    sums = 0 * scale if dtype == "int8" else bound(scale, k, "float32")
    if dtype.startswith("float8") and devices.get(draw.device).info.kind == "gpu":
        sums = sums + _UNITS * scale
    allowed = sums + result.unit * (np.abs(exact) + sums + result.normal)
    out = draw.empty((*stack, m, n), result.name)
    asked = _precision(draw, "gemm", dtype)
    run = partial(_multiplied, a, b, {"dtype": result.numpy, "device": draw.device, **asked})
    return Problems("matmul of few bits", out, run, exact, allowed, (a, b))


def _triangle(uplo: str, n: int) -> Array:
    return np.tri(n, dtype=bool) if uplo == "L" else np.tri(n, dtype=bool).T


def _half(draw: Draw, stack: tuple[int, ...], order: int, dtype: str, uplo: str) -> tuple[Block, Array]:
    """Square matrices whose other triangle is poison, and the triangle in double precision."""
    block = draw.filled((*stack, order, order), dtype)
    kept = np.where(_triangle(uplo, order), wide(block.views), 0)
    block.views[..., ~_triangle(uplo, order)] = np.nan
    return block, kept


def _mirrored(kept: Array, conjugated: bool) -> Array:
    """The symmetric or Hermitian matrix of a triangle."""
    diagonal = np.eye(kept.shape[-1], dtype=bool)
    other = np.where(diagonal, 0, _op(kept, "C" if conjugated else "T"))
    return np.where(diagonal, kept.real, kept) + other if conjugated else kept + other


def _symmetric(conjugated: bool, draw: Draw) -> Problems:
    rng, dtype, stack, (m, n) = draw.rng, draw.rng.choice(BOTH), _stack(draw), draw.sizes(2)
    side, uplo, alpha, beta = rng.choice("LR"), rng.choice("LU"), _factor(draw, dtype) or 1.0, _factor(draw, dtype)
    order = m if side == "L" else n
    a, kept = _half(draw, stack, order, dtype, uplo)
    b = draw.filled((*stack, m, n), dtype)
    c = draw.filled((*stack, m, n), dtype) if beta else draw.empty((*stack, m, n), dtype)
    x, y = _mirrored(kept, conjugated), wide(b.views)
    if side == "R":
        x, y = y, x
    exact, scale = alpha * (x @ y), abs(alpha) * (np.abs(x) @ np.abs(y))
    if beta:
        exact, scale = exact + beta * wide(c.views), scale + abs(beta) * np.abs(wide(c.views))
    compute: Any = portatile.hemm if conjugated else portatile.symm
    asked = _precision(draw, "symm", dtype)
    how: dict[str, Any] = {"side": side, "uplo": uplo, "alpha": alpha, "beta": beta, "device": draw.device, **asked}
    out = draw.empty((*stack, m, n), dtype)
    return Problems(
        compute.__name__,
        out,
        lambda i, to: compute(a[i], b[i], c[i], out=to, **how),
        exact,
        _within(scale, order, dtype, asked),
        (a, b, c),
    )


def _update(factors: int, conjugated: bool, draw: Draw) -> Problems:
    """Of ``factors`` matrices: syrk and herk of one, syr2k and her2k of two. The other triangle of out stays."""
    rng, dtype, stack, (n, k) = draw.rng, draw.rng.choice(BOTH), _stack(draw), draw.sizes(2)
    mirror = "C" if conjugated else "T"
    uplo, trans = rng.choice("LU"), rng.choice(("N", mirror))
    alpha, beta = _factor(draw, dtype) or 1.0, _factor(draw, dtype)
    if conjugated:
        alpha, beta = alpha if factors == 2 else (alpha.real or 1.0), beta.real
    given = [draw.filled((*stack, *((n, k) if trans == "N" else (k, n))), dtype) for _ in range(factors)]
    c, kept = _half(draw, stack, n, dtype, uplo)
    if conjugated:
        kept = np.where(np.eye(n, dtype=bool), kept.real, kept)
    if not beta:
        c.views[...] = np.nan
    x, y = _op(wide(given[0].views), trans), _op(wide(given[-1].views), trans)
    exact, scale = alpha * (x @ _op(y, mirror)), abs(alpha) * (np.abs(x) @ _op(np.abs(y), "T"))
    if factors == 2:
        second = np.conj(alpha) if conjugated else alpha
        exact, scale = exact + second * (y @ _op(x, mirror)), scale + abs(alpha) * (np.abs(y) @ _op(np.abs(x), "T"))
    exact, scale = exact + beta * kept, scale + abs(beta) * np.abs(kept)
    written = _triangle(uplo, n)
    compute: Any = {(1, 0): portatile.syrk, (2, 0): portatile.syr2k, (1, 1): portatile.herk, (2, 1): portatile.her2k}[factors, conjugated]
    asked = _precision(draw, "syrk", dtype)
    how: dict[str, Any] = {"uplo": uplo, "trans": trans, "alpha": alpha, "beta": beta, "device": draw.device, **asked}
    out = draw.empty((*stack, n, n), dtype)
    out.views[..., ~written] = _UNTOUCHED
    return Problems(
        compute.__name__,
        out,
        lambda i, to: compute(*(one[i] for one in given), c[i], out=to, **how),
        np.where(written, exact, _UNTOUCHED),
        np.where(written, _within(scale, factors * k, dtype, asked), 0.0),
        (*given, c),
    )


def _triangular(draw: Draw, dominant: bool) -> tuple[Block, Block, Array, dict[str, Any]]:
    """A triangle, what it is multiplied with, op of the triangle in double precision, and the options."""
    rng, dtype, stack, (m, n) = draw.rng, draw.rng.choice(BOTH), _stack(draw), draw.sizes(2)
    how: dict[str, Any] = {
        "side": rng.choice("LR"),
        "uplo": rng.choice("LU"),
        "trans": rng.choice(_letters(dtype)),
        "diag": rng.choice("NU"),
    }
    order = m if how["side"] == "L" else n
    a, b = draw.filled((*stack, order, order), dtype), draw.filled((*stack, m, n), dtype)
    if dominant:
        a.views[...] = a.views / order + 2 * np.eye(order, dtype=a.views.dtype)
    x = np.where(_triangle(how["uplo"], order), wide(a.views), 0)
    a.views[..., ~_triangle(how["uplo"], order)] = np.nan
    if how["diag"] == "U":
        x[..., range(order), range(order)] = 1.0
        a.views[..., range(order), range(order)] = np.nan
    return a, b, _op(x, how["trans"]), {**how, "alpha": _factor(draw, dtype) or 1.0, "device": draw.device}


def _trmm(draw: Draw) -> Problems:
    a, b, x, how = _triangular(draw, False)
    y, left, dtype, alpha = wide(b.views), how["side"] == "L", b.views.dtype.name, how["alpha"]
    exact, scale = (x @ y, np.abs(x) @ np.abs(y)) if left else (y @ x, np.abs(y) @ np.abs(x))
    out = draw.empty(b.views.shape[1:], dtype)
    asked = _precision(draw, "trmm", dtype)
    allowed = _within(abs(alpha) * scale, x.shape[-1], dtype, asked)
    return Problems("trmm", out, lambda i, to: portatile.trmm(a[i], b[i], out=to, **how, **asked), alpha * exact, allowed, (a, b))


def _trsm(draw: Draw) -> Problems:
    """Right where the residual is small beside the sizes of the factors: Higham, theorem 8.5, and a margin for the inverses of blocks."""
    a, b, x, how = _triangular(draw, True)
    left, dtype = how["side"] == "L", b.views.dtype.name
    y = how["alpha"] * wide(b.views)
    exact = np.linalg.solve(x, y) if left else _op(np.linalg.solve(_op(x, "T"), _op(y, "T")), "T")
    inverse = np.abs(np.linalg.inv(x))
    scale = inverse @ (np.abs(x) @ np.abs(exact)) if left else (np.abs(exact) @ np.abs(x)) @ inverse
    out = draw.empty(b.views.shape[1:], dtype)
    asked = _precision(draw, "triangular", dtype)
    allowed = 8 * _within(scale, x.shape[-1], dtype, asked)
    return Problems("trsm", out, lambda i, to: portatile.trsm(a[i], b[i], out=to, **how, **asked), exact, allowed, (a, b))


ROUTINES = {
    "gemm": _gemm,
    "matmul": _matmul,
    "types": _types,
    "symm": partial(_symmetric, False),
    "hemm": partial(_symmetric, True),
    "syrk": partial(_update, 1, False),
    "herk": partial(_update, 1, True),
    "syr2k": partial(_update, 2, False),
    "her2k": partial(_update, 2, True),
    "trmm": _trmm,
    "trsm": _trsm,
}
