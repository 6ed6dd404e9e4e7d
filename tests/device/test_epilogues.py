"""gemm with scales, a bias, an activation and another type of result, in one launch."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, dtypes
from portatile.device.base import Device
from portatile.errors import ArgumentError
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

ACTIVATIONS: dict[str | None, Any] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))),
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_everything_at_once(device: Device, activation: Any) -> None:
    """Row- and column-major outputs, of host arrays and Buffers, at the first call and when it is found again."""
    rng = np.random.default_rng(new_seed(str(activation)))
    m, n, k = (int(size) for size in rng.integers(2, 70, 3))
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    s, t, rows, columns = (rng.standard_normal(size).astype(np.float32) for size in (m, n, m, n))
    for bias in (columns, rows[:, None]):
        want = ACTIVATIONS[activation](0.5 * s[:, None] * t * (a.astype(float) @ b) - 1.5 * c + bias)
        given: dict[str, Any] = {"alpha": 0.5, "beta": -1.5, "activation": activation}
        for out in (None, np.full((n, m), np.nan, np.float32).T):
            for _ in range(2):
                result = portatile.gemm(a, b, c, bias=bias, scale_a=s, scale_b=t, out=out, device=device.info.id, **given)
                assert np.allclose(result, want, rtol=1e-4, atol=1e-3)
        x, y, z, v, w, u = (Buffer.from_numpy(array, device) for array in (a, b, c, bias, s, t))
        for _ in range(2):
            assert np.allclose(portatile.gemm(x, y, z, bias=v, scale_a=w, scale_b=u, **given).numpy(), want, rtol=1e-4, atol=1e-3)


def test_quantised(device: Device) -> None:
    """int8 and floats of eight bits with scales; results of sixteen bits."""
    rng = np.random.default_rng(new_seed("quantised"))
    a, b = rng.integers(-127, 128, (19, 40), np.int8), rng.integers(-127, 128, (40, 23), np.int8)
    s, t = (rng.random(size).astype(np.float32) / 100 for size in (19, 23))
    want = s[:, None] * t * (a.astype(float) @ b.astype(float))
    result = portatile.gemm(a, b, scale_a=s, scale_b=t, device=device.info.id)
    assert result.dtype == np.float32
    assert np.allclose(result, want, rtol=1e-5)
    half = portatile.gemm(a, b, scale_a=0.01, scale_b=t, dtype="bfloat16", activation="relu", device=device.info.id)
    assert half.dtype.name == "bfloat16"
    assert np.allclose(half.astype(float), np.maximum(0.01 * t * (a.astype(float) @ b.astype(float)), 0), rtol=2**-8)
    eight = (rng.random((19, 40)) - 0.5).astype(dtypes.ELEMENTS["float8_e4m3fn"].numpy)
    result = portatile.gemm(eight, eight, trans_b="T", scale_a=s, dtype="float16", device=device.info.id)
    assert np.allclose(result.astype(float), s[:, None] * (eight.astype(float) @ eight.astype(float).T), rtol=2**-10, atol=2**-14)


def test_blocks_of_k_have_factors(device: Device) -> None:
    """Of rows and columns, in Buffers too; what does not go together is refused."""
    rng = np.random.default_rng(new_seed("blocks"))
    kind = dtypes.ELEMENTS["float8_e4m3fn"].numpy
    a, b = ((rng.random(shape) - 0.5).astype(kind) for shape in ((9, 300), (300, 12)))
    s, t = rng.random((9, 3)).astype(np.float32), rng.random((3, 12)).astype(np.float32)
    of_step = np.arange(300) // 128
    want = (a.astype(float) * s[:, of_step]) @ (b.astype(float) * t[of_step])
    bound = 0.02 * (np.abs(a.astype(float)) * s[:, of_step]) @ (np.abs(b.astype(float)) * t[of_step])
    assert (np.abs(portatile.gemm(a, b, scale_a=s, scale_b=t, device=device.info.id) - want) <= bound).all()
    x, y, u, v = (Buffer.from_numpy(array, device) for array in (a, b, s, t))
    for _ in range(2):
        result = portatile.gemm(x, y, scale_a=u, scale_b=v, dtype="bfloat16", activation="relu").numpy().astype(float)
        assert (np.abs(result - np.maximum(want, 0)) <= bound + 2.0**-8 * np.abs(want)).all()
    for given, message in (
        ({"scale_a": s}, r"must both be given, scale_a as 9 x 3 and scale_b as 3 x 12; scale_a has shape \(9, 3\) and scale_b is no array"),
        ({"scale_a": s[:, :2], "scale_b": t[:2]}, r"it must have one of \(9,\), \(9, 1\), \(9, 3\)"),
        ({"bias": 1.0}, "bias is a float; pass an array"),
        ({"bias": [1.0] * 12}, "bias is a list; pass an array"),
        ({"scale_a": s, "scale_b": t[0]}, "must both be given"),
        ({"scale_a": s, "scale_b": np.asfortranarray(t)}, "contiguous rows"),
        ({"scale_a": s, "scale_b": t, "out": np.empty((12, 9), np.float32).T}, "contiguous rows"),
        ({"scale_a": s, "scale_b": t.astype(float)}, "scale_b"),
    ):
        with pytest.raises(ArgumentError, match=message):
            portatile.gemm(a, b, device=device.info.id, **given)
    wide = [array.astype(np.float32) for array in (a, b)]
    with pytest.raises(ArgumentError, match="for eight-bit floats"):
        portatile.gemm(*wide, scale_a=s, scale_b=t, device=device.info.id)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_a_bias_may_have_the_type_of_the_result(device: Device, kind: str) -> None:
    """Of 16 bits, along rows or columns, for row- and column-major outputs, of NumPy arrays and Buffers; no other type of that width."""
    rng, dtype = np.random.default_rng(new_seed(kind)), dtypes.ELEMENTS[kind].numpy
    a, b, columns, rows = (rng.standard_normal(shape).astype(dtype) for shape in ((17, 40), (40, 24), 24, (17, 1)))
    for bias in (columns, rows):
        want = np.maximum(a.astype(float) @ b.astype(float) + bias.astype(float), 0)
        for out in (None, np.zeros((24, 17), dtype).T):
            result = portatile.gemm(a, b, bias=bias, activation="relu", out=out, device=device.info.id)
            assert np.allclose(result.astype(float), want, rtol=2 * dtypes.ELEMENTS[kind].unit, atol=1e-4)
        x, y, z = (Buffer.from_numpy(array, device) for array in (a, b, bias))
        for _ in range(2):
            result = portatile.gemm(x, y, bias=z, activation="relu").numpy()
            assert np.allclose(result.astype(float), want, rtol=2 * dtypes.ELEMENTS[kind].unit, atol=1e-4)
        wide = portatile.gemm(a, b, bias=bias.astype(np.float32), activation="relu", device=device.info.id)
        assert np.allclose(wide.astype(float), want, rtol=2 * dtypes.ELEMENTS[kind].unit, atol=1e-4)
    other = "bfloat16" if kind == "float16" else "float16"
    for given in ({"bias": columns.astype(dtypes.ELEMENTS[other].numpy)}, {"bias": columns, "dtype": "float32"}):
        with pytest.raises(ArgumentError, match="it must be float32, the type of the sums"):
            portatile.gemm(a, b, device=device.info.id, **given)


def test_a_stack_times_one_matrix_is_one_product(device: Device) -> None:
    """As a layer of a network has it: of any number of dimensions, with and without ``out`` and ``c``; also an empty one."""
    rng = np.random.default_rng(new_seed("layers"))
    x, c, weights, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 2, 7, 20), (3, 2, 7, 24), (24, 20), 24))
    want = np.maximum(x.astype(float) @ weights.T.astype(float) + bias, 0)
    given: dict[str, Any] = {"trans_b": "T", "bias": bias, "device": device.info.id}
    for out in (None, np.full(want.shape, np.nan, np.float32)):
        for _ in range(2):
            result = portatile.gemm(x, weights, activation="relu", out=out, **given)
            assert out is None or result is out
            assert np.allclose(result, want, rtol=1e-4, atol=1e-4)
    assert np.allclose(portatile.gemm(x, weights, c, beta=2.0, **given), x @ weights.T + 2 * c + bias, rtol=1e-4, atol=1e-3)
    assert portatile.gemm(x[:0], weights, **given).shape == (0, 2, 7, 24)
    y, w, z = (Buffer.from_numpy(array, device) for array in (x, weights, bias))
    for _ in range(2):
        result = portatile.gemm(y, w, trans_b="T", bias=z, activation="relu")
        assert np.allclose(result.numpy(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(ArgumentError, match="evenly spaced rows"):
        portatile.gemm(x.transpose(1, 0, 2, 3), weights, **given)


def test_nothing_else_is_touched(device: Device) -> None:
    """beta = 0 does not read C, alpha = 0 neither A nor B; what surrounds the output stays."""
    nothing, bias = np.full((5, 5), np.nan, np.float32), np.arange(5, dtype=np.float32)
    around = np.full((7, 9), 7, np.float32)
    portatile.gemm(nothing, nothing, alpha=0, bias=bias, out=around[1:6, 2:7], device=device.info.id)
    assert (around[1:6, 2:7] == bias).all()
    around[1:6, 2:7] = 7
    assert (around == 7).all()
    one = np.ones((5, 5), np.float32)
    assert (portatile.gemm(one, one, nothing, activation="relu", device=device.info.id) == 5).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bias": np.ones(4, np.float32)}, r"bias has shape \(4,\); with a result of 6 x 5"),
        ({"scale_a": np.ones(5, np.float32)}, "scale_a has shape"),
        ({"scale_b": np.ones((5, 1), np.float32)}, "scale_b has shape"),
        ({"bias": np.ones(5)}, "it must be float32, the type of the sums"),
        ({"bias": np.ones(10, np.float32)[::2]}, "copy it"),
        ({"activation": "tanh"}, "is not one of relu, gelu, gelu_tanh, silu"),
        ({"scale_a": 1j}, "not a real number"),
        ({"alpha": 1j, "activation": "relu"}, "not a real number"),
    ],
)
def test_what_does_not_fit(device: Device, given: dict[str, Any], message: str) -> None:
    a, b = np.ones((6, 7), np.float32), np.ones((7, 5), np.float32)
    with pytest.raises(ArgumentError, match=message):
        portatile.gemm(a, b, device=device.info.id, **given)


def test_products_without_epilogues(device: Device) -> None:
    stack, numbers = np.ones((2, 3, 3), np.float32), np.ones((3, 3), np.complex64)
    with pytest.raises(ArgumentError, match="belong to one product"):
        portatile.gemm(stack, stack, activation="relu", device=device.info.id)
    with pytest.raises(ArgumentError, match="for real matrices"):
        portatile.gemm(numbers, numbers, activation="relu", device=device.info.id)
    whole = np.ones((3, 3), np.int8)
    with pytest.raises(ArgumentError, match="floating-point"):
        portatile.gemm(whole, whole, dtype="int32", activation="relu", device=device.info.id)
