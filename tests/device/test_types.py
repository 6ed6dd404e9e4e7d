"""Products of other types than float32 and float64, as users call them: half precision, bfloat16, eight bits, integers, complex numbers."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import portatile
from portatile import Buffer, dtypes, workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError
from support.checking import check
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

_LARGEST_HALF = 65503.0  # a sum of int8 may be larger, and is then an infinity in half precision
FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
COMPLEX = ("complex64", "complex128")


def drawn(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    """Random elements of a type, in [-0.5, 0.5) and the same beside i."""
    kind = dtypes.ELEMENTS[name].numpy
    if kind.kind == "i":
        return rng.integers(-128, 128, shape, kind)
    real = rng.random(shape) - 0.5
    return (real + 1j * (rng.random(shape) - 0.5) if kind.kind == "c" else real).astype(kind)


def wide(array: Any) -> Any:
    return array.astype(complex if array.dtype.kind == "c" else float)


def close(got: Any, a: Any, b: Any) -> None:
    """Within the bound of the rounding analysis, which the workload states."""
    a, b = wide(a), wide(b)
    types = dtypes.product_name(dtypes.name_of(dtypes.ELEMENTS[got.operand].numpy), got.array.dtype.name)
    problem = workloads.get("gemm").problem({"m": a.shape[-2], "n": b.shape[-1], "k": a.shape[-1]}, types)
    bound = workloads.get("gemm").bound(problem, workloads.get("gemm").default(problem, got.device.info))
    scale = np.maximum(np.abs(a) @ np.abs(b), dtypes.product(types).result.normal)
    exact, result = a @ b, wide(got.array)
    beyond = np.isinf(result) & (np.abs(exact) > _LARGEST_HALF) & (got.array.dtype == np.float16)
    assert (beyond | (np.abs(np.where(beyond, 0, result) - np.where(beyond, 0, exact)) <= bound * scale)).all()


class Got:
    """A result, of what, on which device."""

    def __init__(self, array: Any, operand: str, device: Device) -> None:
        self.array, self.operand, self.device = array, operand, device


def fitting(device: Device, name: str) -> None:
    if name in ("complex128", "float64") and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")


@pytest.mark.parametrize("trans", ["NN", "TT"])
def test_every_kind_of_half_is_converted_exactly(device: Device, trans: str) -> None:
    """Products of single steps round once, as NumPy rounds; those with ones do not round. Subnormal numbers, infinities and NaN too."""
    rng = np.random.default_rng(new_seed(trans))
    m, n = (int(size) for size in rng.integers(60, 150, 2))
    a, b = (rng.integers(0, 1 << 16, shape, np.uint16).view(np.float16) for shape in ((m, 1), (1, n)))
    with np.errstate(all="ignore"):
        exact = a.astype(np.float32) * b.astype(np.float32)
        halves = exact.astype(np.float16)
    finite = np.where(np.isfinite(b), b, 1).astype(np.float16)[:, : n // 17 * 17].reshape(-1, 17)  # read in eights, and one more
    ones = np.eye(17, dtype=np.float16)
    if trans == "TT":
        a, b, finite, ones = (np.asfortranarray(x) for x in (a, b, finite, ones))
    for dtype, expected in ((np.float32, exact), (np.float16, halves)):
        assert np.array_equal(portatile.matmul(a, b, dtype=dtype, device=device.info.id), expected, equal_nan=True)
        assert np.array_equal(portatile.matmul(finite, ones, dtype=dtype, device=device.info.id), finite)
        assert np.array_equal(portatile.matmul(ones, finite.T, dtype=dtype, device=device.info.id), finite.T)


@pytest.mark.parametrize("name", [*FLOATS, *COMPLEX, "int8"])
def test_matmul(device: Device, name: str) -> None:
    """Of host arrays and Buffers, at the first call and when it is found again; into every type that results may have."""
    fitting(device, name)
    rng = np.random.default_rng(new_seed(name))
    m, n, k = (int(size) for size in rng.integers(1, 90, 3))
    a, b = drawn(rng, (m, k), name), drawn(rng, (k, n), name)
    for result in dtypes.RESULTS[name]:
        usual = result == dtypes.RESULTS[name][0] and name != "int8"  # which is multiplied as such where int32 is asked for
        for _ in range(2):
            computed = portatile.matmul(a, b, dtype=None if usual else result, device=device.info.id)
            assert computed.dtype == dtypes.ELEMENTS[result].numpy
            close(Got(computed, name, device), a, b)
        out = np.full((m, n + 3), 77, dtypes.ELEMENTS[result].numpy)
        portatile.matmul(a, b, out=out[:, 1:-2], device=device.info.id)
        assert (out[:, 1:-2] == computed).all()
        assert (out[:, [0, -1, -2]] == 77).all()
        on_device = portatile.matmul(Buffer.from_numpy(a, device), Buffer.from_numpy(b, device), dtype=result)
        assert (on_device.numpy() == computed).all()


@pytest.mark.parametrize("name", COMPLEX)
def test_conjugate_transposes(device: Device, name: str) -> None:
    """All of N, T and C, with complex factors, row- and column-major, and a C of NaN that beta = 0 does not read."""
    fitting(device, name)
    rng = np.random.default_rng(new_seed(name))
    m, n, k = (int(size) for size in rng.integers(2, 50, 3))
    tolerance = 1e-4 if name == "complex64" else 1e-12

    def op(array: Any, how: str) -> Any:
        return array if how == "N" else array.T if how == "T" else array.conj().T

    for trans_a in "NTC":
        for trans_b in "NTC":
            a = drawn(rng, (m, k) if trans_a == "N" else (k, m), name)
            b = drawn(rng, (k, n) if trans_b == "N" else (n, k), name)
            a = a if rng.random() < 0.5 else np.asfortranarray(a)
            c, out = drawn(rng, (m, n), name), np.full((n, m), np.nan, a.dtype).T
            letters: dict[str, Any] = {"trans_a": trans_a, "trans_b": trans_b, "device": device.info.id}
            expected = op(wide(a), trans_a) @ op(wide(b), trans_b)
            for _ in range(2):
                result = portatile.gemm(a, b, c, alpha=0.5 - 2j, beta=1j, **letters)
                assert np.allclose(result, (0.5 - 2j) * expected + 1j * c, atol=tolerance)
            portatile.gemm(a, b, out=out, alpha=2, **letters)
            assert np.allclose(out, 2 * expected, atol=tolerance)
    nothing = np.full((m, k), np.nan, a.dtype)
    result = portatile.gemm(nothing, np.full((k, n), np.nan, a.dtype), c, alpha=0, beta=2j, device=device.info.id)
    assert np.allclose(result, 2j * c)


@pytest.mark.parametrize("name", ["float16", "complex64", "int8"])
def test_stacks(device: Device, name: str) -> None:
    rng = np.random.default_rng(new_seed(name))
    a, b = drawn(rng, (3, 2, 9, 17), name), drawn(rng, (2, 17, 5), name)
    close(Got(portatile.matmul(a, b, dtype="int32" if name == "int8" else None, device=device.info.id), name, device), a, b)
    result = portatile.gemm(a, b.swapaxes(1, 2), trans_b="C", device=device.info.id)
    close(Got(result, name, device), a, b.conj() if name == "complex64" else b)


@pytest.mark.parametrize("name", FLOATS)
def test_every_value_is_read_as_it_is(device: Device, name: str) -> None:
    """All bit patterns of a type, denormals, infinities and NaN too, times one: float32 has them all."""
    kind = dtypes.ELEMENTS[name].numpy
    bits = np.arange(1 << 8 * kind.itemsize, dtype=np.uint32).astype(f"u{kind.itemsize}")
    every, one = bits.view(kind)[:, None], np.ones((1, 1), kind)
    result = portatile.matmul(every, one, dtype="float32", device=device.info.id)
    want = every.astype(np.float32)
    if device.info.kind == "cpu":  # other devices may flush denormals
        assert np.array_equal(result, want, equal_nan=True)
    else:
        assert np.array_equal(result[np.abs(want) >= 2.0**-126], want[np.abs(want) >= 2.0**-126], equal_nan=True)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_results_round_to_nearest_even(device: Device, name: str) -> None:
    """Products of two numbers, across the range: overflow gives infinities, halfway cases the even neighbour."""
    kind = dtypes.ELEMENTS[name].numpy
    rng = np.random.default_rng(new_seed(name))
    low, high = (-13, 9) if name == "float16" else (-50, 40)
    a = np.ldexp(rng.uniform(-2, 2, 400), rng.integers(low, high, 400)).astype(kind)
    b = np.ldexp(rng.uniform(-2, 2, 40), rng.integers(low, high, 40)).astype(kind)
    result = portatile.matmul(a[:, None], b[None, :], device=device.info.id)
    exact = a.astype(np.float32)[:, None] * b.astype(np.float32)[None, :]  # exact: 22 bits at most
    with np.errstate(over="ignore"):
        want = exact.astype(kind)
    assert np.array_equal(result.astype(np.float32), want.astype(np.float32), equal_nan=True)


def test_types_that_do_not_go_together(device: Device) -> None:
    whole, half = np.ones((3, 3), np.int8), np.ones((3, 3), ml_dtypes.bfloat16)
    single = np.ones((3, 3), np.float32)
    with pytest.raises(ArgumentError, match="32-bit integers"):
        portatile.gemm(whole, whole, alpha=0.5, device=device.info.id)
    portatile.gemm(whole, whole, alpha=2, device=device.info.id)
    with pytest.raises(ArgumentError, match="32-bit integers"):  # also where the call is found again
        portatile.gemm(whole, whole, alpha=2.5, device=device.info.id)
    for alpha in (2, 0.5, -0.25):  # of floats any number
        assert (portatile.gemm(whole, whole, alpha=alpha, dtype="float32", device=device.info.id) == 3 * alpha).all()
    with pytest.raises(ArgumentError, match="not a real number"):
        portatile.gemm(single, single, alpha=1j, device=device.info.id)
    with pytest.raises(ArgumentError, match="convert one of them, for example a to float32"):
        portatile.gemm(half, single, device=device.info.id)
    with pytest.raises(ArgumentError, match="convert both to one type, for example complex128"):
        portatile.gemm(single.astype(np.complex64), single.astype(float), device=device.info.id)
    for other in (half.astype(np.float16), half.astype(ml_dtypes.float8_e5m2)):
        with pytest.raises(ArgumentError, match="convert both to one type, for example float32"):
            portatile.matmul(half, other, device=device.info.id)
    with pytest.raises(ArgumentError, match="a product of int8 has no result of dtype int8; it has int32"):
        portatile.matmul(whole, whole, dtype="int8", device=device.info.id)
    with pytest.raises(ArgumentError, match="int16 is multiplied in float64, with no result of type int16"):
        portatile.matmul(whole.astype(np.int16), whole.astype(np.int16), dtype="int16", device=device.info.id)
    with pytest.raises(ArgumentError, match=r"c has dtype bfloat16; supported are float32: .* c.astype\('float32'\)"):
        portatile.gemm(half, half, half, beta=1.0, dtype="float32", device=device.info.id)
    with pytest.raises(ArgumentError, match="bfloat16, float32; pass out="):
        portatile.gemm(half, half, dtype="float64", device=device.info.id)
    with pytest.raises(ArgumentError, match="must have shape"):
        portatile.gemm(half, half, np.ones((3, 3)), beta=1.0, device=device.info.id)


@pytest.mark.parametrize("trans", ["NN", "CT"])
def test_three_real_products_give_a_complex_one(device: Device, trans: str) -> None:
    """Within the bound that the workload states; of a stack, and of real matrices, they are no way."""
    rng = np.random.default_rng(new_seed(trans))
    m, n, k = (int(size) for size in rng.integers(1, 90, 3))
    a, b = drawn(rng, (m, k) if trans[0] == "N" else (k, m), "complex64"), drawn(rng, (k, n) if trans[1] == "N" else (n, k), "complex64")
    c, alpha, beta = drawn(rng, (m, n), "complex64"), 0.5 - 2j, 1.5j
    called = partial(portatile.gemm, trans_a=trans[0], trans_b=trans[1], precision="3m", device=device.info.id)
    left, right = (wide({"N": x, "T": x.T, "C": x.conj().T}[letter]) for x, letter in zip((a, b), trans, strict=True))
    workload = workloads.get("gemm3m")
    problem = workload.problem({"m": m, "n": n, "k": k}, "complex64")
    bound, scale = workload.bound(problem, workload.default(problem, device.info)), np.abs(left) @ np.abs(right)
    result = called(a, b, c, alpha=alpha, beta=beta)
    assert (np.abs(result - (alpha * (left @ right) + beta * wide(c))) <= bound * (abs(alpha) * scale + abs(beta) * np.abs(c))).all()
    empty = np.full((m, n), np.nan, "complex64")
    assert (np.abs(called(a, b, empty, beta=0) - left @ right) <= bound * scale).all()
    assert (called(np.full_like(a, np.nan), b, c, alpha=0, beta=1) == c).all()
    stack = drawn(rng, (3, m, k), "complex64")
    across = stack.swapaxes(1, 2)
    close(Got(portatile.matmul(stack, across, precision="3m", device=device.info.id), "complex64", device), stack, across)
    with pytest.raises(ArgumentError, match="complex64 and complex128"):
        called(a.real.copy(), b.real.copy())


def test_planes_of_complex_numbers_may_be_transposed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As GPUs read them; here every device computes with them, of conjugates too."""
    rng = np.random.default_rng(new_seed("planes"))
    workload = workloads.get("gemm3m")
    monkeypatch.setattr(sys.modules[type(workload).__module__], "_turns", lambda problem, name, device: True)
    for dtype in COMPLEX:
        options = {"trans_a": str(rng.choice(["N", "C"])), "trans_b": str(rng.choice(["T", "R"]))}
        case = workload.problem({"m": 70, "n": 45, "k": 33}, dtype, options)
        verdict = check(device, workload, case, workload.default(case, device.info), rng)
        assert verdict.ok, f"{options}: {verdict.message}"
