"""Products of host arrays that take NumPy less time than a launch: no device is looked for, and the rules are the routines' own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import dtypes
from portatile.errors import ArgumentError
from portatile.runtime import perform
from portatile.runtime.host import numpy_converted, numpy_products, numpy_speed
from support.no_devices import NoDevice, devices_refused
from support.seeds import new_seed

DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def no_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with devices_refused(monkeypatch):
        yield


def draw(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else values).astype(dtype)


def op(array: Any, trans: str) -> Any:
    return array if trans == "N" else array.T if trans == "T" else array.conj().T


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_is_numpys(dtype: str) -> None:
    rng = np.random.default_rng(new_seed(dtype))
    shapes = [
        ((5, 7), (7, 3)),
        ((7,), (7, 3)),
        ((5, 7), (7,)),
        ((7,), (7,)),
        ((2, 1, 5, 7), (3, 7, 4)),
        ((3, 5, 7), (7,)),
        ((1, 1), (1, 1)),
    ]
    for first, second in shapes:
        a, b = draw(rng, dtype, *first), draw(rng, dtype, *second)
        expected = np.matmul(a, b)
        for _ in range(3):
            result = portatile.matmul(a, b)
            assert type(result) is type(expected)
            assert np.allclose(result, expected, rtol=1e-5)
        if expected.ndim:
            out = np.full(expected.shape, np.nan, dtype)
            assert portatile.matmul(a, b, out=out) is out
            assert np.allclose(out, expected, rtol=1e-5)
    a = draw(rng, dtype, 12, 12)
    turned, expected = a[::-2, ::3], a[::-2, ::3] @ a[:4, ::-1]
    assert np.allclose(portatile.matmul(turned, a[:4, ::-1]), expected, rtol=1e-5)
    expected = a @ a
    assert np.allclose(portatile.matmul(a, a, out=a), expected, rtol=1e-5), "the output is both operands"


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemm_has_all_factors_transpositions_and_outputs(dtype: str) -> None:
    rng = np.random.default_rng(new_seed(dtype))
    factors = itertools.product((1.0, -0.5, 2), (0.0, 1.0, 3.0))
    for (alpha, beta), trans_a, trans_b in itertools.product(factors, "NTC", "NTC"):
        a, b, c = draw(rng, dtype, *((4, 6) if trans_a == "N" else (6, 4))), draw(rng, dtype, 6, 5), draw(rng, dtype, 4, 5)
        b = b if trans_b == "N" else np.ascontiguousarray(b.T)
        expected = alpha * (op(a, trans_a) @ op(b, trans_b)) + (beta * c if beta else 0)
        options: Any = {"alpha": alpha, "beta": beta, "trans_a": trans_a, "trans_b": trans_b}
        if beta == 0:
            c[:] = np.nan  # and is not read
        kept = c.copy()
        for _ in range(2):
            assert np.allclose(portatile.gemm(a, b, c, **options), expected, rtol=1e-4, atol=1e-5)
            assert np.array_equal(c, kept, equal_nan=True)
            for out in (np.full((4, 5), np.nan, dtype), np.full((4, 5), np.nan, dtype, order="F"), c.copy()):
                assert portatile.gemm(a, b, c, out=out, **options) is out
                assert np.allclose(out, expected, rtol=1e-4, atol=1e-5)
        assert portatile.gemm(a, b, c, out=c, **options) is c
        assert np.allclose(c, expected, rtol=1e-4, atol=1e-5)


def test_what_overlaps_or_does_not_fit_goes_on_to_the_routine() -> None:
    a, memory = np.eye(6), np.random.default_rng(3).random((20, 6))
    refused: list[Callable[[], object]] = [
        lambda: portatile.gemm(a, a, out=a),
        lambda: portatile.gemm(memory[:6], a, out=memory[3:9]),
        lambda: portatile.gemm(a, a, memory[:6], beta=1.0, out=memory[3:9]),
        lambda: portatile.gemm(a, a, memory[:6, ::-1], beta=1.0),
        lambda: portatile.gemm(a[:, ::-1], a),
        lambda: portatile.gemm(a, a, memory[:5], beta=1.0),
        lambda: portatile.gemm(a, a, beta=1.0),
        lambda: portatile.gemm(a, a, memory[:6].astype("float32"), beta=1.0),
        lambda: portatile.matmul(a, memory[:5]),
        lambda: portatile.matmul(a, np.array(2.0)),
        lambda: portatile.matmul(a[0], a[0, :5]),
        lambda: portatile.matmul(a, a, out=np.empty((5, 6))),
        lambda: portatile.gemm(a, a, alpha=1j),
    ]
    for call in refused:
        for _ in range(2):
            with pytest.raises(ArgumentError):
                call()
    unaligned = np.frombuffer(bytes(36 * 8 + 1), np.uint8)[1:].view(np.float64).reshape(6, 6)
    for call in (lambda: portatile.gemm(a, unaligned), lambda: portatile.gemm(a, a, unaligned, beta=1.0)):
        portatile.gemm(a, a, a, beta=1.0)
        with pytest.raises(ArgumentError, match="unaligned"):
            call()
    assert np.array_equal(portatile.matmul(a, unaligned), unaligned)
    read_only = np.empty((6, 6))
    read_only.flags.writeable = False
    for routine in (portatile.matmul, portatile.gemm):
        assert routine(a, a, out=np.empty((6, 6))) is not None
        with pytest.raises(ArgumentError, match="read-only"):
            routine(a, a, out=read_only)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_other_dtypes_are_left_to_the_device(dtype: str) -> None:
    a = np.ones((4, 4), dtype)
    for _ in range(2):
        with pytest.raises(NoDevice):
            portatile.matmul(a, a, dtype="float32")


def test_what_is_converted_first_is_left_to_numpy_too() -> None:
    rng = np.random.default_rng(new_seed("converted"))
    a = rng.integers(-9, 9, (5, 5))
    expected = a.astype(float) @ a
    for given in (a, a.astype("int16"), a.tolist(), a.astype(">f8"), a.astype(">i4")):
        for _ in range(2):
            result = portatile.matmul(given, given)
            assert result.dtype == np.float64
            assert np.array_equal(result, expected)
    for out in (np.empty((5, 5), complex), np.empty((5, 10))[:, ::-2], np.empty((5, 5), "f4")):
        assert portatile.matmul(a.astype(float), a.tolist(), out=out) is out
        assert np.array_equal(out, expected)
    assert np.array_equal(portatile.matmul(a, a[0]), expected[:, 0] * 0 + a.astype(float) @ a[0])
    with pytest.raises(ArgumentError):
        portatile.matmul(a.tolist(), a[:3])


def test_what_takes_longer_than_a_launch_is_left_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the multiply-adds that NumPy does in that time on this machine; what it does beside them counts for each matrix of a stack."""
    monkeypatch.setattr(numpy_products, "LEAST_LAUNCH", 1e-6)
    monkeypatch.setattr(numpy_products, "multiply_adds_per_second", lambda dtype: 1e9 * (60.0 if dtype == np.float32 else 27.0))
    perform.forget()
    small, large = np.ones((30, 30)), np.ones((31, 30))
    for product in (portatile.matmul, portatile.gemm):
        assert product(small, small)[0, 0] == 30.0
        with pytest.raises(NoDevice):
            product(large, small)
        assert product(large.astype(np.float32), small.astype(np.float32))[0, 0] == 30.0
    assert portatile.matmul(np.ones((5, 2, 2)), np.ones((2, 2))).shape == (5, 2, 2)
    for stack in (np.ones((9, 2, 2)), np.ones((3, 3, 2, 2))):
        with pytest.raises(NoDevice):
            portatile.matmul(stack, np.ones((2, 2)))
    assert numpy_products.at_once(27000, np.dtype("float64"))
    assert not numpy_products.at_once(27001, np.dtype("float64"))
    assert not numpy_products.at_once(1, np.dtype("float16"))


def test_the_speed_of_numpys_products_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.count()
    monkeypatch.setattr(numpy_speed, "_per_second", {})
    monkeypatch.setattr(numpy_speed, "time", SimpleNamespace(perf_counter=lambda: next(times) / 1000))
    found = [numpy_speed.multiply_adds_per_second(np.dtype("complex64")) for _ in range(3)]
    assert found == pytest.approx([64**3 * 1000] * 3)
    assert next(times) == 2 * numpy_speed._RUNS


def test_products_of_nothing_are_left_to_numpy_only_of_its_types() -> None:
    empty = np.empty((3, 0))
    assert np.array_equal(portatile.matmul(empty, empty.T), np.zeros((3, 3)))
    assert numpy_products.product(empty.astype(np.int32), empty.T.astype(np.int32), None) is None
    assert numpy_products.product(empty.astype(np.float16), empty.T.astype(np.float16), None) is None


@pytest.mark.parametrize("letter", ["X", "t", "", 5, None])
def test_other_letters_are_left_to_the_routine(letter: Any) -> None:
    a = np.ones((4, 4))
    for _ in range(2):
        portatile.gemm(a, a)
        for name in ("trans_a", "trans_b"):
            assert numpy_products.scaled(a, a, None, (1.0, 0.0), (letter, "N") if name == "trans_a" else ("N", letter), None) is None
            with pytest.raises(ArgumentError, match=name):
                portatile.gemm(a, a, **{name: letter})


def test_a_selected_device_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones((4, 4))
    portatile.matmul(a, a)
    portatile.gemm(a, a)
    monkeypatch.setenv("PORTATILE_DEVICE", "any")
    for routine in (portatile.matmul, portatile.gemm):
        with pytest.raises(NoDevice):
            routine(a, a)


def test_overflows_are_silent_in_every_thread() -> None:
    huge, failures = np.full((40, 40), 3e38, np.float32), list[BaseException]()

    def multiply() -> None:
        try:
            with np.errstate(all="raise"):
                for _ in range(50):
                    assert np.isposinf(portatile.matmul(huge, huge)).all()
                    assert np.isposinf(portatile.gemm(huge, huge, huge, alpha=2.0, beta=2.0)).all()
                with pytest.raises(FloatingPointError):  # the caller's own state is as it was
                    huge * huge
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint64", "bool", ">f8", ">i4"])
def test_small_products_of_other_types_are_converted_for_numpy(dtype: str) -> None:
    """With the types and rounding of the routine: integers in float64, floats of 16 and 8 bits with sums in float32."""
    rng = np.random.default_rng(new_seed(dtype))
    kind = dtypes.ELEMENTS[dtype].numpy if dtype in dtypes.ELEMENTS else np.dtype(dtype)
    whole = (4 * rng.random((9, 9))).astype(kind)
    wide = np.float32 if kind.itemsize < 4 and kind.kind not in "biu" else np.float64
    for a, b in (
        (whole[:5, :7], whole[:7, :3]),
        (whole[0], whole),
        (whole, whole[:, 1]),
        (whole[1], whole[2]),
        (whole[::2, ::-3], whole.T[:3]),
    ):
        expected = (a.astype(wide) @ b.astype(wide)).astype(kind if kind.itemsize == 2 and wide is np.float32 else wide)
        result = portatile.matmul(a, b)
        assert np.array_equal(result, expected)
        assert result.dtype == expected.dtype
        if expected.ndim:
            out = np.full(expected.shape, np.nan, expected.dtype)
            assert portatile.matmul(a, b, out=out) is out
            assert np.array_equal(out, expected)
            assert numpy_converted.product(a, b, np.empty(expected.shape, np.complex128)) is None
    with pytest.raises(ArgumentError):
        portatile.matmul(whole[:, :4], whole)
    with pytest.raises(ArgumentError):
        portatile.matmul(whole, whole, out=np.empty((9, 8), np.float64))
    assert numpy_converted.product(np.ones((3, 2, 2), kind), np.ones((2, 2), kind), None) is None


def test_lists_and_mixed_types_are_numpys_too() -> None:
    numbers: Any = [[1, 2], [3, 4]]
    others: list[Any] = [numbers, [1.0, 2.0], (1, 2), np.ones((2, 2), np.float32), [1j, 2]]
    for a, b in [(numbers, other) for other in others] + [(other, numbers) for other in others]:
        expected = np.matmul(a, b)
        result = portatile.matmul(a, b)
        assert np.array_equal(result, expected)
        assert result.dtype == np.result_type(expected, np.float64)
    for wrong in ([[1, 2], [3]], ["a", "b"], [None, 1], 3, [], [[[1]]] * 2):
        with pytest.raises((ArgumentError, NoDevice)):
            portatile.matmul(numbers, wrong)
    assert numpy_converted.product([[0.0] * 300], [[0.0]] * 300, None) is None
    narrow = np.ones((2, 2), np.float16)
    assert portatile.matmul(narrow, narrow, out=narrow) is narrow
    assert np.array_equal(narrow, np.full((2, 2), 2.0))
