"""Products of level 3 on small NumPy arrays: NumPy computes them, no device is looked for, and the rules are the routines' own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.errors import ArgumentError
from portatile.runtime.host import blas_calls, numpy_level3, numpy_products
from portatile.runtime.host.host_calls import Forms
from portatile.runtime.request import RoutineCall
from support.no_devices import NoDevice, devices_refused
from support.seeds import DRAWS, new_seed

DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def no_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with devices_refused(monkeypatch):
        yield


def draw(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    values = rng.uniform(-1, 1, shape)
    return (values + 1j * rng.uniform(-1, 1, shape) if dtype.startswith("complex") else values).astype(dtype)


def half(a: Any, uplo: str, strict: bool = False) -> Any:
    return np.tril(a, -strict) if uplo == "L" else np.triu(a, strict)


def op(a: Any, trans: str) -> Any:
    return a if trans == "N" else a.T if trans == "T" else a.conj().T


def unread(a: Any, uplo: str, diag: str = "N") -> Any:
    """The matrix with NaN where a routine does not look."""
    read = half(np.ones(a.shape, bool), uplo, diag == "U")
    return np.where(read, a, np.nan).astype(a.dtype)


def close(got: Any, expected: Any, dtype: str) -> bool:
    return bool(got.dtype == np.dtype(dtype) and np.allclose(got, expected, rtol=0, atol=200 * np.finfo(dtype).eps))


def outputs(c: Any) -> Iterator[Any]:
    """None, and arrays with the values of c, by rows, by columns, and with gaps; each twice: the second call repeats the first."""
    for make in (lambda: None, c.copy, lambda: np.asfortranarray(c), lambda: np.repeat(c, 2, axis=0)[::2]):
        yield make()
        yield make()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("side", "uplo"), [*itertools.product("LR", "LU")])
def test_triangles(dtype: str, side: str, uplo: str) -> None:
    rng = np.random.default_rng(new_seed(dtype))
    b, order = draw(rng, dtype, 9, 5), 9 if side == "L" else 5
    a = draw(rng, dtype, order, order) / order + 2 * np.eye(order, dtype=dtype)
    for trans, diag, alpha in itertools.product("NTC", "NU", (1.0, -0.5, 0.0)):
        triangle = half(a, uplo, diag == "U") + (np.eye(order) if diag == "U" else 0)
        given = unread(a, uplo, diag) if alpha else np.full_like(a, np.nan)
        options: Any = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "alpha": alpha}
        product = alpha * (op(triangle, trans) @ b if side == "L" else b @ op(triangle, trans))
        for out in outputs(b):
            result = portatile.trmm(given, b, out=out, **options)
            assert close(result, product, dtype)
            assert out is None or result is out
        over = b.copy()
        assert close(portatile.trmm(given, over, out=over, **options), product, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("routine", ["symm", "hemm"])
def test_symmetric_matrices(dtype: str, routine: str) -> None:
    rng = np.random.default_rng(new_seed(dtype))
    b, c = draw(rng, dtype, 7, 4), draw(rng, dtype, 7, 4)
    call: Callable[..., Any] = getattr(portatile, routine)
    for side, uplo, (alpha, beta) in itertools.product("LR", "LU", ((1.0, 0.0), (-0.5, 2.0), (0.0, 1.0), (0.0, 0.0))):
        a = draw(rng, dtype, *(2 * [7 if side == "L" else 4]))
        whole = half(a, uplo) + op(half(a, uplo, True), "T" if routine == "symm" else "C")
        if routine == "hemm" and dtype.startswith("complex"):
            np.fill_diagonal(whole, whole.diagonal().real)
        expected = alpha * (whole @ b if side == "L" else b @ whole) + beta * c
        given: list[Any] = [unread(a, uplo) if alpha else np.full_like(a, np.nan), b, *([c] if beta else [])]
        for out in outputs(c):
            result = call(*given, side=side, uplo=uplo, alpha=alpha, beta=beta, out=out)
            assert close(result, expected, dtype)
            assert out is None or result is out
        if beta:
            over = c.copy()
            assert close(call(given[0], b, over, side=side, uplo=uplo, alpha=alpha, beta=beta, out=over), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("routine", ["syrk", "herk", "syr2k", "her2k"])
def test_updates(dtype: str, routine: str) -> None:
    """Beside the triangle an output keeps what it has, and a new array has zeros, or what c has."""
    rng = np.random.default_rng(new_seed(dtype))
    c, mirror, call = draw(rng, dtype, 6, 6), "C" if routine.startswith("he") else "T", getattr(portatile, routine)
    for uplo, trans, (alpha, beta) in itertools.product("LU", "NTC", ((1.0, 0.0), (-0.5, 2.0), (0.0, 1.0), (0.0, 0.0))):
        factors = [draw(rng, dtype, *((6, 3) if trans == "N" else (3, 6))) for _ in range(2 if "2" in routine else 1)]
        first, last = op(factors[0], trans), op(factors[-1], trans)
        expected = alpha * (first @ op(last, mirror) + (last @ op(first, mirror) if len(factors) > 1 else 0)) + beta * c
        if mirror == "C" and dtype.startswith("complex"):
            np.fill_diagonal(expected, expected.diagonal().real)
        inside = half(np.ones((6, 6), bool), uplo)
        given = [*(factors if alpha else [np.full_like(factor, np.nan) for factor in factors]), *([c] if beta else [])]
        for out in outputs(draw(rng, dtype, 6, 6)):
            beside = np.zeros((6, 6)) if beta == 0 else c
            beside = beside if out is None else out.copy()
            result = call(*given, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)
            assert close(result, np.where(inside, expected, beside), dtype)
            assert out is None or result is out
        if beta:
            over = c.copy()
            result = call(*given[:-1], over, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=over)
            assert close(result, np.where(inside, expected, c), dtype)


def test_what_is_wrong_or_unusual_is_the_routines() -> None:
    a, b = np.eye(6), np.ones((6, 4))
    portatile.trmm(a, b)
    memory = np.ones((20, 6))
    refused: list[Callable[[], object]] = [
        lambda: portatile.trmm(a, np.ones((5, 4))),
        lambda: portatile.trmm(a, b, out=np.empty((6, 5))),
        lambda: portatile.trmm(a, b.astype(np.float32)),
        lambda: portatile.trmm(a, b, alpha=1j),
        lambda: portatile.trmm(a, memory[:6], out=memory[3:9]),
        lambda: portatile.trmm(memory[:6], memory[10:16], out=memory[3:9]),
        lambda: portatile.syrk(a, beta=1.0),
        lambda: portatile.trmm(a, b, uplo="X"),  # type: ignore[arg-type]
        lambda: portatile.trmm(a, b, uplo=["L"]),  # type: ignore[arg-type]
        lambda: portatile.herk(a.astype(complex), alpha=1j),  # type: ignore[arg-type]
    ]
    portatile.trmm(a, memory[:6], out=memory[10:16])
    portatile.herk(a.astype(complex))
    for call in refused:
        for _ in range(2):
            with pytest.raises(ArgumentError):
                call()
    with pytest.raises(NoDevice):  # stacks that broadcast
        portatile.trmm(np.stack([a, a])[:, None], np.stack([b, b]))
    assert np.array_equal(portatile.trmm(2 * a, np.ones(6)), np.full(6, 2.0)), "a vector is a matrix of one column"


def test_a_device_that_is_selected_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.eye(4)
    portatile.trmm(a, a)
    for options in ({"device": "any"}, {"precision": "emulated"}):
        with pytest.raises(NoDevice):
            portatile.trmm(a, a, **options)  # type: ignore[arg-type]
    monkeypatch.setenv("PORTATILE_DEVICE", "any")
    with pytest.raises(NoDevice):
        portatile.trmm(a, a)


def test_large_ones_are_left_to_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = np.eye(8, dtype=np.float16)
    call = RoutineCall((narrow, narrow), (1.0,), ("L", "L", "N", "N", ""), None, None)
    assert numpy_level3.Level3("trmm").on_host(call, narrow, Forms()) is None
    monkeypatch.setattr(numpy_products, "at_once", lambda multiply_adds, dtype: multiply_adds <= 4000)
    small, large = np.eye(8), np.eye(32)
    for routine in (portatile.trmm, portatile.symm, portatile.syr2k):
        routine(small, small)
        with pytest.raises(NoDevice):
            routine(large, large)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("workload", ["trsm", "trmm"])
def test_vectors_and_systems(dtype: str, workload: str) -> None:
    """Several columns or rows, one, and vectors, contiguous and with steps; the second and third call take the shorter way."""
    rng = np.random.default_rng(new_seed(dtype))
    call: Callable[..., Any] = getattr(portatile, workload)
    shapes = ((7, 4), (7, 1), (1, 7), (7,))
    for side, uplo, trans, diag, shape, step in itertools.product("LR", "LU", "NTC", "NU", shapes, (1, 2)):
        if (len(shape) == 2 and shape[0 if side == "L" else 1] == 1) or (not DRAWS and rng.integers(2)):
            continue
        order = shape[0 if side == "L" else -1]
        a = draw(rng, dtype, order, order) / order + 2 * np.eye(order, dtype=dtype)
        triangle = half(a, uplo, diag == "U") + (np.eye(order) if diag == "U" else 0)
        if workload == "trsm":
            triangle = np.linalg.inv(triangle)
        b = draw(rng, dtype, *(shape if step == 1 else (2 * shape[0], *shape[1:])))[::step]
        by_rows, by_columns = unread(a, uplo, diag), np.asfortranarray(unread(a, uplo, diag))
        for alpha, memory in ((1.0, by_rows), (-0.5, by_columns)) if step == 1 else ((1.0, by_columns), (-0.5, by_rows)):
            want = alpha * (op(triangle, trans) @ b if side == "L" else b @ op(triangle, trans))
            options: Any = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "alpha": alpha}
            out = np.full((2 * shape[0], *shape[1:]), np.nan, dtype)[::2]
            for _ in range(3):
                result = call(memory, b, **options)
                assert result.shape == want.shape
                assert close(result, want, dtype)
                assert call(memory, b, out=out, **options) is out
                assert close(out, want, dtype)
                over = b.copy()
                assert call(memory, over, out=over, **options) is over
                assert close(over, want, dtype)


def test_systems_without_a_solution_have_infinities_or_nan() -> None:
    a = np.array([[0.0, np.nan], [1.0, 2.0]])
    assert not np.isfinite(portatile.trsm(a, np.ones((2, 3)))[0]).any()
    assert not np.isfinite(portatile.trsm(a, np.ones(2))[0])


def test_repeated_calls_check_what_a_record_does_not_know() -> None:
    """Overlaps, outputs that cannot be written, and memory that is not aligned, though the same form was computed before."""
    a, memory = 2 * np.eye(6), np.ones((20, 6))
    for routine in (portatile.trsm, portatile.trmm, portatile.symm):
        out = np.empty((6, 6))
        for _ in range(2):
            routine(a, memory[:6], out=out)
            routine(a, memory[:6], out=memory[10:16])
        for place in (memory[3:9], a):
            with pytest.raises(ArgumentError):
                routine(a, memory[:6], out=place)
        out.flags.writeable = False
        with pytest.raises(ArgumentError):
            routine(a, memory[:6], out=out)
        if routine is portatile.symm:
            b, c = np.ones((6, 6)), np.ones((6, 6))
            for _ in range(2):
                routine(a, b, c, beta=1.0, out=np.empty((6, 6)))
            with pytest.raises(ArgumentError):
                routine(a, b, c, beta=1.0, out=b)
        odd = np.frombuffer(bytearray(8 * 36 + 1), np.uint8)[1:].view(np.float64).reshape(6, 6)
        assert not odd.flags.aligned
        odd[...] = a
        with pytest.raises((NoDevice, ArgumentError)):
            routine(odd, memory[:6])


def test_without_the_routines_a_device_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_calls, "known", lambda workload, dtype: False)
    with pytest.raises(NoDevice):
        portatile.trsm(np.eye(5), np.ones((5, 5)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("routine", ["trsm", "trmm", "symm", "hemm", "syrk", "herk", "syr2k", "her2k"])
def test_stacks_are_their_matrices(dtype: str, routine: str) -> None:
    """Even stacks of two and of three dimensions, with gaps, one matrix for all, new results, outputs and sums; each twice."""
    rng = np.random.default_rng(new_seed(dtype + routine))
    call: Callable[..., Any] = getattr(portatile, routine)
    updates = routine.startswith(("syr", "her"))
    for batch, gap in itertools.product(((5,), (2, 3)), (1, 2)):
        wide = (*batch[:-1], gap * batch[-1])
        a = draw(rng, dtype, *wide, 4, 4)[..., ::gap, :, :] / 4 + 2 * np.eye(4, dtype=dtype)
        b, c = draw(rng, dtype, *wide, 4, 6)[..., ::gap, :, :], draw(rng, dtype, *batch, 4, 4 if updates else 6)
        first = b if updates else a
        for one in (False, True):
            given = [first[(0,) * len(batch)] if one and not updates else first, *([] if routine in ("syrk", "herk") else [b])]
            sums: list[dict[str, Any]] = [{}] if routine in ("trsm", "trmm") else [{}, {"c": c, "beta": -0.5}]
            for options in sums:
                indices = list(np.ndindex(*batch))
                of = [[array if array.ndim == 2 else array[index] for array in given] for index in indices]
                rest = [{name: value[index] if name == "c" else value for name, value in options.items()} for index in indices]
                want = np.array([call(*arrays, **others) for arrays, others in zip(of, rest, strict=True)]).reshape(c.shape)
                for _ in range(2):
                    assert close(call(*given, **options), want, dtype)
                    out = np.zeros_like(c) if "c" not in options else c.copy()
                    assert call(*given, out=out, **options) is out
                    assert close(out, want, dtype)
