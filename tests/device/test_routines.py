"""matmul, gemm and trsm on NumPy arrays: every device, every order and transpose, and every mistake a caller can make."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError, DeviceNotFoundError

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

SEED = 20260
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}


def values(shape: tuple[int, int], dtype: str, order: str = "C", seed: int = SEED) -> NDArray[np.generic]:
    return np.asarray(np.random.default_rng(seed).uniform(-1, 1, shape), dtype, order=order)


def check_product(got: NDArray, a: NDArray, b: NDArray, c: NDArray | float = 0.0, alpha: float = 1.0, beta: float = 0.0) -> None:
    """|error| <= gamma_(k+3) (|alpha| |A| |B| + |beta| |C|), Higham, Accuracy and Stability, section 3.5."""
    wide = [np.asarray(x, np.float64) for x in (a, b, c)]
    expected = alpha * (wide[0] @ wide[1]) + (beta * wide[2] if beta else 0.0)
    scale = abs(alpha) * (np.abs(wide[0]) @ np.abs(wide[1])) + (abs(beta) * np.abs(wide[2]) if beta else 0.0)
    assert np.all(np.abs(got - expected) <= (a.shape[1] + 6) * EPS[str(a.dtype)] * scale + 1e-300)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest, device: Device) -> str:
    if request.param == "float64" and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    return str(request.param)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 64, 64), (127, 129, 131), (40, 3, 300)])
def test_matmul(device: Device, dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = values((m, k), dtype), values((k, n), dtype, seed=1)
    result = portatile.matmul(a, b, device=device.info.id)
    assert result.shape == (m, n)
    assert result.dtype == a.dtype
    check_product(result, a, b)


@pytest.mark.parametrize(("order_a", "order_b", "order_out"), list(itertools.product("CF", repeat=3)))
def test_every_order_is_read_in_place(device: Device, order_a: str, order_b: str, order_out: str) -> None:
    a, b = values((33, 17), "float32", order_a), values((17, 29), "float32", order_b, 1)
    out = np.full((33, 29), np.nan, np.float32, order=order_out)  # type: ignore[call-overload]
    assert portatile.matmul(a, b, out=out, device=device.info.id) is out
    check_product(out, a, b)


@pytest.mark.parametrize(
    ("trans_a", "trans_b", "alpha", "beta"), [("N", "T", 1.5, 0.0), ("T", "N", -1.0, 0.5), ("C", "T", 2.0, 1.0), ("N", "N", 0.0, 3.0)]
)
def test_gemm(device: Device, dtype: str, trans_a: str, trans_b: str, alpha: float, beta: float) -> None:
    m, n, k = 45, 31, 23
    a = values((m, k) if trans_a == "N" else (k, m), dtype)
    b = values((k, n) if trans_b == "N" else (n, k), dtype, seed=1)
    c = values((m, n), dtype, seed=2)
    before = c.copy()
    result = portatile.gemm(a, b, c, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b, device=device.info.id)  # type: ignore[arg-type]
    op_a, op_b = (a if trans_a == "N" else a.T), (b if trans_b == "N" else b.T)
    check_product(result, op_a, op_b, c, alpha, beta)
    assert np.array_equal(c, before)
    assert portatile.gemm(op_a, op_b, c, alpha=alpha, beta=beta, out=c, device=device.info.id) is c
    check_product(c, op_a, op_b, before, alpha, beta)


@pytest.mark.parametrize("shape", [(1, 1, 1), (127, 129, 131), (1000, 17, 4097)])
@pytest.mark.parametrize(("trans_a", "trans_b"), list(itertools.product("NT", repeat=2)))
def test_gemm_of_every_transposition(device: Device, dtype: str, shape: tuple[int, int, int], trans_a: str, trans_b: str) -> None:
    m, n, k = shape
    a, b, c = values((m, k), dtype), values((k, n), dtype, seed=1), values((m, n), dtype, seed=2)
    stored_a, stored_b = (np.ascontiguousarray(x if trans == "N" else x.T) for x, trans in ((a, trans_a), (b, trans_b)))
    result = portatile.gemm(stored_a, stored_b, c, alpha=-0.5, beta=2.0, trans_a=trans_a, trans_b=trans_b, device=device.info.id)  # type: ignore[arg-type]
    check_product(result, a, b, c, -0.5, 2.0)


def test_beta_zero_does_not_read_c_and_alpha_zero_neither_a_nor_b(device: Device) -> None:
    a, b, c = values((9, 8), "float32"), values((8, 7), "float32"), np.full((9, 7), np.nan, np.float32)
    portatile.gemm(a, b, c, beta=0.0, out=c, device=device.info.id)
    check_product(c, a, b)
    nans = np.full((9, 8), np.nan, np.float32)
    result = portatile.gemm(nans, b, c, alpha=0.0, beta=2.0, device=device.info.id)
    assert np.array_equal(result, 2 * c)


def test_inner_dimension_zero_scales_c(device: Device) -> None:
    c = values((5, 6), "float32")
    result = portatile.gemm(np.empty((5, 0), np.float32), np.empty((0, 6), np.float32), c, beta=0.5, device=device.info.id)
    assert np.array_equal(result, c * np.float32(0.5))
    assert not portatile.matmul(np.empty((5, 0), np.float32), np.empty((0, 6), np.float32), device=device.info.id).any()
    assert portatile.matmul(np.empty((0, 4), np.float32), np.empty((4, 6), np.float32), device=device.info.id).shape == (0, 6)


def test_views_with_a_leading_dimension(device: Device) -> None:
    big_a, big_b, big_out = values((50, 64), "float32"), values((40, 90), "float32"), np.full((60, 70), np.nan, np.float32)
    a, b, out = big_a[3:40, 5:31], big_b[2:28, 7:50], big_out[4:41, 8:51]
    portatile.matmul(a, b, out=out, device=device.info.id)
    check_product(out, a, b)
    untouched = np.ones(big_out.shape, bool)
    untouched[4:41, 8:51] = False
    assert np.isnan(big_out[untouched]).all()


@pytest.mark.parametrize(("m", "n"), [(37, 21), (127, 129), (1000, 17)])
@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), list(itertools.product("LR", "LU", "NT", "NU")))
def test_trsm(device: Device, m: int, n: int, side: str, uplo: str, trans: str, diag: str) -> None:
    order = m if side == "L" else n
    a = (
        values((order, order), "float64" if device.info.fp64 else "float32") / order
        + np.eye(order, dtype=np.float64 if device.info.fp64 else np.float32) * 2
    )
    triangle = np.tril(a) if uplo == "L" else np.triu(a)
    if diag == "U":
        triangle = triangle - np.diag(np.diag(triangle)) + np.eye(order)
        np.fill_diagonal(a, np.nan)
    a[~(np.tril(np.ones_like(a)) if uplo == "L" else np.triu(np.ones_like(a))).astype(bool)] = np.nan
    b = values((m, n), str(a.dtype), "F" if diag == "U" else "C", 1)
    x = portatile.trsm(a, b, side=side, uplo=uplo, trans=trans, diag=diag, alpha=1.5, device=device.info.id)  # type: ignore[arg-type]
    op = triangle.T if trans == "T" else triangle
    residual = op @ x - 1.5 * b if side == "L" else x @ op - 1.5 * b
    assert np.abs(residual).max() <= 50 * order * EPS[str(a.dtype)] * np.abs(op).max() * np.abs(x).max()


def test_called_again_at_the_same_addresses(device: Device) -> None:
    """With the last factors, with others, on values that changed since, and beside a call on other arrays."""
    a, b, other = values((33, 21), "float32"), values((21, 17), "float32", "F"), values((33, 21), "float32", seed=SEED + 1)
    c, out = values((33, 17), "float32"), np.empty((33, 17), np.float32)
    for alpha, beta in ((2.0, 0.5), (2.0, 0.5), (2.0, 0.5), (-1.0, 0.5), (-1.0, 3.0), (2.0, 0.5)):
        out[:] = np.nan
        portatile.gemm(a, b, c, alpha=alpha, beta=beta, out=out, device=device.info.id)
        check_product(out, a, b, c, alpha, beta)
        a *= -0.5
    for first in (a, other, a, a, other):
        portatile.gemm(first, b, c, alpha=2.0, beta=0.5, out=out, device=device.info.id)
        check_product(out, first, b, c, 2.0, 0.5)


def test_called_again_and_from_threads(device: Device) -> None:
    a, b = values((48, 48), "float32"), values((48, 48), "float32", seed=1)
    results: list[NDArray] = []
    threads = [threading.Thread(target=lambda: results.append(portatile.matmul(a, b, device=device.info.id))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        check_product(result, a, b)


@pytest.mark.parametrize("there", ["host", "device"])
def test_an_array_given_twice_is_two_operands(device: Device, there: str) -> None:
    """Calls that come again are recorded: what is recorded of one array in two places is not taken for two arrays."""
    one, other = (values((37, 37), "float32", seed=seed) for seed in (1, 2))
    place = (lambda array: Buffer.from_numpy(array, device)) if there == "device" else np.array
    given = {"one": (one, place(one)), "other": (other, place(other))}
    for names in (("one", "one"), ("other", "one"), ("one", "other"), ("other", "other"), ("one", "one")):
        (a, first), (b, second) = (given[name] for name in names)
        result = portatile.matmul(first, second, device=device.info.id)
        check_product(result.numpy() if isinstance(result, Buffer) else result, a, b)


def test_buffer_in_buffer_out(device: Device) -> None:
    host_a, host_b = values((33, 18), "float32"), values((18, 29), "float32", seed=1)
    a, b = Buffer.from_numpy(host_a, device), Buffer.from_numpy(np.ascontiguousarray(host_b.T), device)
    product = portatile.matmul(a, b.T)
    assert isinstance(product, Buffer)
    assert product.device is device
    check_product(product.numpy(), host_a, host_b)
    again = portatile.gemm(a[3:, 2:], b.T[2:], product[3:], alpha=2.0, beta=1.0, out=product[3:])
    check_product(again.numpy(), host_a[3:, 2:], host_b[2:], (host_a @ host_b)[3:], 2.0, 1.0 + 1e-6)
    with pytest.raises(ArgumentError, match="different places"):
        portatile.matmul(a, host_b)
    with pytest.raises(ArgumentError, match="overlaps"):
        portatile.matmul(a[:18], b.T, out=Buffer(a.memory, (18, 29), "float32"))


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_cuda_arrays_stay_where_they_are(device: Device, library: str) -> None:
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    module = pytest.importorskip(library)
    host_a, host_b = values((65, 34), "float32"), values((34, 47), "float32", seed=1)
    if library == "torch":
        stream = module.cuda.Stream()
        with module.cuda.stream(stream):
            a, b = module.from_numpy(host_a).cuda(), module.from_numpy(host_b).cuda()
            out = a.new_full((65, 47), float("nan"))
            assert portatile.matmul(a, b, out=out) is out
            product = portatile.matmul(a, b)
        stream.synchronize()
        results = [out.cpu().numpy(), product.cpu().numpy()]
    else:
        with module.cuda.Stream(non_blocking=True) as stream:
            a, b = module.asarray(host_a), module.asarray(host_b)
            out = module.full((65, 47), module.nan, "float32")
            assert portatile.matmul(a, b, out=out) is out
            product = portatile.matmul(a, b)
            stream.synchronize()
            results = [module.asnumpy(out), module.asnumpy(product)]
    assert type(product) is type(a)
    for result in results:
        check_product(result, host_a, host_b)


F = np.float32
SQUARE = np.ones((4, 4), F)


def read_only() -> NDArray[np.float32]:
    array = np.zeros((4, 4), F)
    array.flags.writeable = False
    return array


def unaligned() -> NDArray[np.float32]:
    return np.zeros(4 * 4 * 4 + 1, np.uint8)[1:].view(F).reshape(4, 4)


MISTAKES = {
    "shapes": (lambda: portatile.matmul(np.ones((2, 3), F), np.ones((4, 5), F)), "inner dimensions"),
    "out shape": (lambda: portatile.matmul(SQUARE, SQUARE, out=np.empty((3, 4), F)), "must have shape"),
    "dtypes differ": (lambda: portatile.gemm(SQUARE, SQUARE.astype("float64")), "convert one"),
    "dtype": (lambda: portatile.gemm(SQUARE.astype("int32"), SQUARE.astype("int32")), r"int32; .* a\.astype\('float64'\)"),
    "half": (lambda: portatile.trsm(SQUARE.astype("float16"), SQUARE.astype("float16")), "float16"),
    "stack": (lambda: portatile.gemm(SQUARE.astype("uint16")[None], SQUARE), r"uint16; .* a\.astype\('float64'\)"),
    "byte order": (lambda: portatile.gemm(SQUARE.astype(">f4"), SQUARE), "byte order"),
    "object": (lambda: portatile.gemm(SQUARE.astype(object), SQUARE), "objects"),
    "list": (lambda: portatile.gemm([[1.0]], SQUARE), "NumPy array"),  # type: ignore[arg-type]
    "vector": (lambda: portatile.gemm(np.ones(4, F), SQUARE), "two dimensions"),
    "negative stride": (lambda: portatile.gemm(SQUARE[::-1], SQUARE), "ascontiguousarray"),
    "zero stride": (lambda: portatile.gemm(np.broadcast_to(np.ones((1, 4), F), (4, 4)), SQUARE), "ascontiguousarray"),
    "no contiguous dimension": (lambda: portatile.gemm(np.ones((8, 8), F)[::2, ::2], SQUARE), "ascontiguousarray"),
    "unaligned": (lambda: portatile.gemm(unaligned(), SQUARE), "unaligned"),
    "aliased output": (lambda: portatile.gemm(SQUARE, np.eye(4, dtype=F), out=SQUARE), "overlaps a"),
    "read-only output": (lambda: portatile.matmul(SQUARE, SQUARE, out=read_only()), "read-only"),
    "beta without c": (lambda: portatile.gemm(SQUARE, SQUARE, beta=1.0), "no c"),
    "trans": (lambda: portatile.gemm(SQUARE, SQUARE, trans_a="X"), "trans_a"),  # type: ignore[arg-type]
    "side": (lambda: portatile.trsm(SQUARE, SQUARE, side="left"), "side"),  # type: ignore[arg-type]
    "not square": (lambda: portatile.trsm(np.ones((4, 3), F), SQUARE), "needs"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_explained(mistake: str) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(ArgumentError, match=message):
        call()


def test_the_environment_selects_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTATILE_DEVICE", raising=False)
    portatile.matmul(SQUARE, SQUARE)
    monkeypatch.setenv("PORTATILE_DEVICE", "no such device")
    with pytest.raises(DeviceNotFoundError, match="PORTATILE_DEVICE"):
        portatile.matmul(SQUARE, SQUARE)


def test_unknown_device_lists_what_there_is() -> None:
    with pytest.raises(DeviceNotFoundError, match="opencl:0:0"):
        portatile.matmul(SQUARE, SQUARE, device="no such device")
