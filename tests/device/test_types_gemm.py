"""gemm of every type of operands and results as users call it: any storage, factors, epilogues, stacks; within stated bounds."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import dtypes, workloads
from portatile.device.base import Device
from portatile.records import Problem
from support.seeds import new_seed

pytestmark = [pytest.mark.unoptimised, pytest.mark.drawn(1 / 2)]

TYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "float32", "float64", "complex64", "complex128")
ACTIVATIONS: dict[str | None, Any] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Random elements, row- or column-major or within a larger array."""
    kind = dtypes.ELEMENTS[name].numpy
    if name in ("int8", "int32"):
        values = rng.integers(-128, 128, shape)
    else:
        values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind.kind == "c" else 0)
    around = np.zeros((*shape[:-2], shape[-2] + 2, shape[-1] + 3), kind)
    around[..., 1:-1, 2:-1] = values.astype(kind)
    whole = around[..., 1:-1, 2:-1]
    return [whole, np.asfortranarray(whole), np.ascontiguousarray(whole)][int(rng.integers(3))] if len(shape) == 2 else whole.copy()


def wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def op(array: NDArray[Any], letter: str) -> NDArray[Any]:
    """As BLAS's letters say; of real numbers C is T."""
    transposed = wide(array) if letter == "N" else wide(array).swapaxes(-1, -2)
    return transposed.conj() if letter == "C" else transposed


def close(got: NDArray[Any], exact: NDArray[Any], scale: NDArray[Any], problem: Problem, device: Device) -> None:
    """Within what the workload states of its default, relative to ``scale``; below the smallest normal number, relative to that."""
    workload, result = workloads.get(problem.workload), dtypes.product(problem.dtype).result
    assert got.dtype == result.numpy
    bound = workload.bound(problem, workload.default(problem, device.info))
    beyond = np.isinf(wide(got)) & (np.abs(exact) > 65503) if result.name == "float16" else np.zeros(got.shape, bool)
    off = np.abs(np.where(beyond, exact, wide(got)) - exact)
    allowed = bound * np.maximum(scale, result.normal)
    assert (off <= allowed).all(), f"{problem}: {np.max(off / np.maximum(allowed, 1e-300))} times the bound"


def sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """Sides that tiles divide, and others."""
    m, n, k = (int(rng.choice([1, 8, 32, int(rng.integers(2, 130))])) for _ in range(3))
    return m, n, k


def factors(rng: np.random.Generator, name: str, result: str) -> tuple[complex, complex]:
    if result == "int32":
        return int(rng.choice([1, -3, 0])), int(rng.choice([0, 2]))
    turn = 1 - 0.5j if name.startswith("complex") else 1.0
    return float(rng.choice([1, -1.25, 0])) * turn, float(rng.choice([0, 0.75])) * turn


@pytest.mark.parametrize("name", TYPES)
def test_any_storage_and_factors(device: Device, name: str) -> None:
    """C is NaN where beta is 0; a stack whose matrices share B follows."""
    if name in ("float64", "complex128") and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    rng = np.random.default_rng(new_seed(name))
    for result in dtypes.RESULTS[name]:
        (m, n, k), letters = sizes(rng), [str(rng.choice(["N", "T", "C"])) for _ in "ab"]
        a = drawn(rng, (m, k) if letters[0] == "N" else (k, m), name)
        b = drawn(rng, (k, n) if letters[1] == "N" else (n, k), name)
        alpha, beta = factors(rng, name, result)
        c = drawn(rng, (m, n), result)
        if beta == 0 and result != "int32":
            c = np.full_like(c, np.nan)
        given: dict[str, Any] = {"trans_a": letters[0], "trans_b": letters[1], "dtype": result, "device": device.info.id}
        left, right, old = op(a, letters[0]), op(b, letters[1]), wide(c) if beta else np.zeros((m, n))
        exact, scale = alpha * (left @ right) + beta * old, abs(alpha) * (np.abs(left) @ np.abs(right)) + abs(beta) * np.abs(old)
        problem = workloads.get("gemm").problem({"m": m, "n": n, "k": k}, dtypes.product_name(name, result))
        close(portatile.gemm(a, b, c, alpha=alpha, beta=beta, **given), exact, scale, problem, device)
        stack = drawn(rng, (3, *a.shape), name)
        left = op(stack, letters[0])
        close(portatile.gemm(stack, b, **given), left @ right, np.abs(left) @ np.abs(right), problem, device)


@pytest.mark.parametrize("name", [name for name in TYPES if not name.startswith("complex")])
def test_epilogues_keep_their_bound(device: Device, name: str) -> None:
    """Scales as vectors or numbers, a bias of rows or columns, any activation, a C that counts."""
    if name == "float64" and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    rng = np.random.default_rng(new_seed(f"ends {name}"))
    result = str(rng.choice([one for one in dtypes.RESULTS[name] if one != "int32"]))
    sums = np.float64 if name == "float64" else np.float32
    m, n, k = sizes(rng)
    a, b, c = drawn(rng, (m, k), name), drawn(rng, (k, n), name), drawn(rng, (m, n), result)
    rows, columns = (rng.standard_normal(length).astype(sums) for length in (m, n))
    bias = rng.standard_normal((m, 1) if rng.integers(2) else n).astype(sums)
    factor: dict[str, Any] = {"scale_a": rows if rng.integers(2) else 0.5, "scale_b": columns}
    activation = list(ACTIVATIONS)[int(rng.integers(4))]
    scaled = np.reshape(factor["scale_a"], (-1, 1)).astype(float) * columns.astype(float)
    before = -1.5 * scaled * (wide(a) @ wide(b)) + 0.5 * wide(c) + bias
    scale = 1.5 * np.abs(scaled) * (np.abs(wide(a)) @ np.abs(wide(b))) + 0.5 * np.abs(wide(c)) + np.abs(bias)
    options = {"scale_a": "rows", "scale_b": "columns", "bias": "rows" if bias.ndim == 2 else "columns", "activation": activation or "none"}
    problem = workloads.get("gemm_epilogue").problem({"m": m, "n": n, "k": k}, dtypes.product_name(name, result), options)
    given: dict[str, Any] = {"alpha": -1.5, "beta": 0.5, "bias": bias, "activation": activation, "dtype": result, **factor}
    close(portatile.gemm(a, b, c, device=device.info.id, **given), ACTIVATIONS[activation](before), scale, problem, device)
