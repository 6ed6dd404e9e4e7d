"""TRMM and TRSM with a result beside B, as NVIDIA's GPUs compute them: what lies beside the triangle is not used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import portatile
from portatile import Buffer, workloads
from portatile.device.base import Device
from portatile.records import Problem
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from portatile.workloads.gemm.forms.gpu.stream import SharedTiles, streamed, tailed
from portatile.workloads.gemm.forms.gpu.triangle import doubled, quartered

FACTORS = ((1.0, 0.0), (-2.0, 0.5))  # alpha and beta
CASES = [
    *(("trmm", "float64", "LLNU"), ("trmm", "float64", "RLTN"), ("trmm", "float32", "LUTN"), ("trmm", "float32", "RUNU")),
    *(("trsm", "float64", "RUNN"), ("trsm", "float32", "LLTU")),
]


def triangle(order: int, uplo: str, diag: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """A triangle near the identity as it is stored, NaN beside it, and as it counts."""
    rng = np.random.default_rng(order)
    stored = (rng.random((order, order)) / order).astype(dtype) + np.eye(order, dtype=dtype)
    read = np.tri(order, k=-1 if diag == "U" else 0, dtype=bool)
    read = read.T if uplo == "U" else read
    counts = np.where(read, stored, 0).astype(np.float64) + (np.eye(order) if diag == "U" else 0)
    return np.where(read, stored, np.nan).astype(dtype), counts


@pytest.mark.parametrize(("routine", "dtype", "case"), CASES)
def test_a_result_beside_b(gpu: Device, routine: str, dtype: str, case: str) -> None:
    side, uplo, trans, diag = case
    m, n = (40, 12) if side == "L" else (12, 40)
    stored, counts = triangle(40, uplo, diag, dtype)
    b = np.random.default_rng(1).random((m, n)).astype(dtype)
    op = counts.T if trans == "T" else counts
    op = np.linalg.inv(op) if routine == "trsm" else op
    expected = op @ b if side == "L" else b @ op
    a, given, out = (Buffer.from_numpy(x, gpu) for x in (stored, b, np.full_like(b, np.nan)))
    call = getattr(portatile, routine)
    for alpha in (0.5, 0.0):
        assert call(a, given, side=side, uplo=uplo, trans=trans, diag=diag, alpha=alpha, out=out) is out
        np.testing.assert_allclose(out.numpy(), alpha * expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(given.numpy(), b)


def test_a_triangle_in_more_local_memory_than_a_text_may_declare(gpu: Device) -> None:
    """One launch solves a system of 100 unknowns in float64."""
    stored, counts = triangle(100, "L", "N", "float64")
    b = np.random.default_rng(1).random((100, 5))
    out = Buffer.from_numpy(np.full_like(b, np.nan), gpu)
    problem = workloads.get("triangular").problem({"m": 100, "n": 5}, "float64", {"apart": True})
    plan = workloads.get("triangular").plan(problem, workloads.get("triangular").default(problem, gpu.info), gpu.info)
    assert [arg.kind for step in plan.steps for arg in step.args].count("local") == 1
    portatile.trsm(Buffer.from_numpy(stored, gpu), Buffer.from_numpy(b, gpu), out=out)
    np.testing.assert_allclose(out.numpy(), np.linalg.solve(counts, b), rtol=1e-12)


@pytest.mark.parametrize(("routine", "dtype", "case"), [("syrk", "float64", "LN")])
def test_shared_tiles_of_a_triangle(gpu: Device, routine: str, dtype: str, case: str) -> None:
    """Tiles whose k several groups share, on matrix units where there are some: the wanted triangle, and nothing beside it."""
    rng = np.random.default_rng(3)
    order, terms = 40, 140
    factors = [rng.random((order, terms)).astype(dtype) for _ in range(2 if routine == "syr2k" else 1)]
    expected = factors[0].astype(np.float64) @ factors[-1].astype(np.float64).T
    expected = expected + expected.T if routine == "syr2k" else expected
    written = np.tri(order, dtype=bool) if case[0] == "L" else np.tri(order, dtype=bool).T
    given = [Buffer.from_numpy(np.ascontiguousarray(one if case[1] == "N" else one.T), gpu) for one in factors]
    out = Buffer.from_numpy(np.where(written, np.nan, 7).astype(dtype), gpu)
    getattr(portatile, routine)(*given, uplo=case[0], trans=case[1], out=out)
    np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-4 if dtype == "float32" else 1e-12)
    assert np.all(out.numpy()[~written] == 7)


@pytest.mark.parametrize(("uplo", "trans", "lanes"), [("L", "N", 8), ("U", "T", 4)])
def test_matrix_units_share_tiles(gpu: Device, uplo: str, trans: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text comes once for each piece; rows and columns of the instructions in each other's place or not."""
    point = matrix((1, 1), (2, 2), 16, 2, lanes=lanes)
    rng = np.random.default_rng(5)
    order, terms = 50, 70
    a = rng.random((order, terms))
    written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T

    def shared(called: Problem, _: object, triangle: Triangle) -> tuple[Gpu, SharedTiles]:
        stream = streamed(order, terms, triangle.zeros, point, 4)
        assert stream is not None
        assert not stream.looped
        return point, stream

    monkeypatch.setattr(zeros, "shared", shared)
    given = Buffer.from_numpy(np.ascontiguousarray(a if trans == "N" else a.T), gpu)
    out = Buffer.from_numpy(np.where(written, np.nan, 7), gpu)
    portatile.syrk(given, uplo=uplo, trans=trans, out=out)  # type: ignore[arg-type]
    np.testing.assert_allclose(out.numpy()[written], (a @ a.T)[written], rtol=1e-12)
    assert np.all(out.numpy()[~written] == 7)


@pytest.mark.parametrize(("uplo", "trans", "dtype", "parts"), [("L", "N", "float64", 1), ("U", "T", "float32", 2)])
def test_tiles_within_a_triangle(gpu: Device, uplo: str, trans: str, dtype: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles on the diagonal, at the edge and within the triangle, which is stored in vectors; alone and added to what was there."""
    point = matrix((1, 1), (1, 1), 16, 2) if dtype == "float64" else replace(pipeline(4, (8, 4), (1, 1), 16, 2, 4), KG=parts)
    rng = np.random.default_rng(5)
    order, terms = 2 * max(point.rows, point.columns) + 4, 20
    a, c = rng.random((order, terms)).astype(dtype), rng.random((order, order)).astype(dtype)
    written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
    monkeypatch.setattr(zeros, "shared", lambda *_: (point, None))
    given = Buffer.from_numpy(np.ascontiguousarray(a if trans == "N" else a.T), gpu)
    for alpha, beta in ((1.0, 0.0), (-2.0, 0.5)):
        out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c).astype(dtype), gpu)
        portatile.syrk(given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type]
        expected = alpha * (a.astype(np.float64) @ a.astype(np.float64).T) + (beta * c if beta else 0)
        np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-4 if dtype == "float32" else 1e-12)
        assert np.all(out.numpy()[~written] == c[~written])


@pytest.mark.parametrize(
    ("uplo", "trans", "point"),
    [
        ("L", "N", matrix((2, 2), (1, 1), 16, 2)),
        ("U", "T", matrix((2, 2), (1, 1), 16, 2, lanes=4)),
    ],
)
def test_quarters_on_the_diagonal(gpu: Device, uplo: str, trans: str, point: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tiles on the diagonal a group has quarters of two; of one tile, of several, and of some that end within a quarter."""
    rng, side = np.random.default_rng(7), point.rows
    monkeypatch.setattr(zeros, "shared", lambda called, *_: (point, quartered(called.sizes["n"], side)))
    for order, terms, factors in (
        (side, 20, FACTORS),
        (2 * side + 4, 20, FACTORS[1:]),
        (4 * side, 8, FACTORS[:1]),
        (side // 2 - 4, 33, FACTORS),
    ):
        a, c = rng.random((order, terms)), rng.random((order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = Buffer.from_numpy(np.ascontiguousarray(a if trans == "N" else a.T), gpu)
        for alpha, beta in factors:
            out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c), gpu)
            portatile.syrk(given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type]
            expected = alpha * (a @ a.T) + (beta * c if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(out.numpy()[~written] == c[~written])


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("uplo", "trans", "lanes"), [("L", "N", 8), ("U", "T", 8), ("L", "T", 4)])
def test_both_products_of_syr2k_at_once(gpu: Device, uplo: str, trans: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles on the diagonal, of one product, and beside it, of both: of one stage, of fewer and of more than there are in local memory."""
    point, rng = matrix((2, 2), (1, 1), 16, 3, lanes=lanes), np.random.default_rng(7)
    monkeypatch.setattr(zeros, "doubled", lambda called, *_: (point, doubled(called.sizes["n"], point.rows)))
    for order, terms, factors in ((32, 16, (*FACTORS, (0.0, 0.5))), (36, 20, FACTORS[1:]), (64, 52, FACTORS[:1]), (20, 33, FACTORS[1:])):
        a, b, c = rng.random((order, terms)), rng.random((order, terms)), rng.random((order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = [Buffer.from_numpy(np.ascontiguousarray(one if trans == "N" else one.T), gpu) for one in (a, b)]
        for alpha, beta in factors:
            out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c), gpu)
            portatile.syr2k(*given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type]
            expected = alpha * (a @ b.T + b @ a.T) + (beta * c if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(out.numpy()[~written] == c[~written])


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("routine", "uplo", "trans"), [("syrk", "L", "N"), ("syrk", "U", "T"), ("syr2k", "L", "T"), ("syr2k", "U", "N")])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_rest_in_smaller_tiles(gpu: Device, routine: str, uplo: str, trans: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole waves of one, two and three large tiles, and the rest: beside the diagonal, on it, past the end of C, and of no tile at all."""
    large, small, parts = matrix((2, 2), (1, 1), 16, 2), matrix((1, 1), (1, 1), 16, 2), 2 if dtype == "complex128" else 1
    rng, both = np.random.default_rng(7), routine == "syr2k"
    cases = ((96, 20, 1, FACTORS), (100, 16, 2, FACTORS[1:]), (112, 5, 3, FACTORS[:1]), (130, 33, 4, FACTORS[1:]))
    for order, terms, slots, factors in cases:
        found = tailed(order, large.rows, small, slots, doubled=both)
        monkeypatch.setattr(zeros, "doubled" if both else "shared", lambda *_, found=found: (large, found))
        order //= parts
        a, b, c = (rng.random(shape).astype(dtype) for shape in ((order, terms), (order, terms), (order, order)))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = [Buffer.from_numpy(np.ascontiguousarray(one if trans == "N" else one.T), gpu) for one in (a, b)[: 1 + both]]
        product = a @ b.T + b @ a.T if both else a @ a.T
        for alpha, beta in factors:
            out = Buffer.from_numpy(np.where(written & (beta == 0), np.nan, c), gpu)
            getattr(portatile, routine)(*given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)
            expected = alpha * product + (beta * c if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(out.numpy()[~written] == c[~written])


@pytest.mark.parametrize("dtype", ["complex128", "float64"])
def test_a_stack_that_comes_again_is_computed_where_it_lies_now(gpu: Device, dtype: str) -> None:
    """Matrix by matrix, because they lie apart: each launch takes the part of the Buffers of its own call."""
    count, alpha = 3, 0.5j if dtype == "complex128" else 0.5
    kept = []
    for call in range(3):
        rng = np.random.default_rng(call)
        stacks = [rng.random((count, 1, 1)).astype(dtype) for _ in range(2)]
        held = [Buffer.from_numpy(np.full((count, 5), np.nan, dtype), gpu) for _ in range(3)]
        a, b, out = (Buffer(each.memory, (count, 1, 1), dtype, (each.strides[0], *each.strides[1:] * 2), 32) for each in held)
        a.assign(stacks[0])
        b.assign(stacks[1])
        kept += held
        assert portatile.trmm(a, b, alpha=alpha, out=out) is out
        np.testing.assert_allclose(out.numpy(), alpha * stacks[0] * stacks[1], rtol=1e-12)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("uplo", "trans", "packed"), [("L", "N", True), ("L", "N", False), ("U", "C", False)])
def test_quarters_of_complex_tiles(gpu: Device, uplo: str, trans: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors packed, kept along k, and reals as they lie; what is imaginary on the diagonal of C is not read, and zero in the result."""
    rng, tile = np.random.default_rng(7), matrix((2, 2), (1, 1), 16, 2)
    point = replace(tile, PACK_A=packed, PACK_B=packed)
    monkeypatch.setattr(zeros, "shared", lambda called, *_: (point, quartered(2 * called.sizes["n"], tile.rows)))
    for order, terms, factors in ((16, 20, FACTORS), (21, 9, FACTORS[1:])):
        a, c = rng.random((order, terms)) + 1j * rng.random((order, terms)), rng.random((order, order)) + 1j * rng.random((order, order))
        written = np.tri(order, dtype=bool) if uplo == "L" else np.tri(order, dtype=bool).T
        given = Buffer.from_numpy(np.ascontiguousarray(a if trans == "N" else a.conj().T), gpu)
        for alpha, beta in factors:
            held = np.where(written & (beta == 0), np.nan, c)
            np.fill_diagonal(held.imag, np.nan)
            out = Buffer.from_numpy(held, gpu)
            portatile.herk(given, out, uplo=uplo, trans=trans, alpha=alpha, beta=beta, out=out)  # type: ignore[arg-type]
            expected = alpha * (a @ a.conj().T) + (beta * (c - 1j * np.diag(np.diag(c).imag)) if beta else 0)
            np.testing.assert_allclose(out.numpy()[written], expected[written], rtol=1e-12)
            assert np.all(np.diag(out.numpy()).imag == 0)
            assert np.all(out.numpy()[~written] == c[~written])


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("routine", "case"), [("trmm", "LLNU"), ("trmm", "RUCN"), ("trsm", "LUNN"), ("trsm", "RLCU")])
def test_complex_triangular_factors(gpu: Device, routine: str, case: str) -> None:
    """Their default on such a GPU: inverses, and products that skip zeros."""
    side, uplo, trans, diag = case
    rng, order = np.random.default_rng(3), 34
    m, n = (order, 5) if side == "L" else (5, order)
    stored = (rng.random((order, order)) + 1j * rng.random((order, order))) / order + np.eye(order)
    read = np.tri(order, k=-1 if diag == "U" else 0, dtype=bool)
    read = read.T if uplo == "U" else read
    counts = np.where(read, stored, 0) + (np.eye(order) if diag == "U" else 0)
    op = counts.conj().T if trans == "C" else counts
    op = np.linalg.inv(op) if routine == "trsm" else op
    b = rng.random((m, n)) + 1j * rng.random((m, n))
    a, given, out = (Buffer.from_numpy(x, gpu) for x in (np.where(read, stored, np.nan), b, np.full_like(b, np.nan)))
    for alpha in (0.5 + 1j, 0.0):
        getattr(portatile, routine)(a, given, side=side, uplo=uplo, trans=trans, diag=diag, alpha=alpha, out=out)
        np.testing.assert_allclose(out.numpy(), alpha * (op @ b if side == "L" else b @ op), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("routine", "dtype"), [("trmm", "float64"), ("trsm", "float64"), ("syrk", "complex64")])
def test_stacks(gpu: Device, routine: str, dtype: str) -> None:
    """All matrices together, into an array of their own and over B."""
    rng, (count, order, sides) = np.random.default_rng(3), (2, 33, 3)

    def drawn(*shape: int) -> np.ndarray:
        return (rng.random(shape) + (1j * rng.random(shape) if dtype.startswith("complex") else 0)).astype(dtype)

    a, b = drawn(count, order, order) / order + np.eye(order, dtype=dtype), drawn(count, order, sides)
    low = np.tril(a)
    stored = np.where(np.tri(order, dtype=bool), a, np.nan).astype(dtype)
    given_a, given_b = (Buffer.from_numpy(x, gpu) for x in (stored, b))
    close = {"rtol": 1e-3 if dtype == "complex64" else 1e-11, "atol": 1e-3 if dtype == "complex64" else 1e-11}
    if routine == "syrk":
        got, want = portatile.syrk(given_b).numpy(), b @ b.mT
        np.testing.assert_allclose(np.tril(got), np.tril(want), **close)
        return
    want = low @ b if routine == "trmm" else np.linalg.inv(low) @ b
    call = getattr(portatile, routine)
    out = Buffer.from_numpy(np.full_like(b, np.nan), gpu)
    np.testing.assert_allclose(call(given_a, given_b, out=out).numpy(), want, **close)
    np.testing.assert_array_equal(given_b.numpy(), b)
    np.testing.assert_allclose(call(given_a, given_b, out=given_b).numpy(), want, **close)
