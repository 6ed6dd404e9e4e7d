"""Level-3 routines on stacks and vectors: every matrix as if it came alone, broadcast as NumPy's, on the host and as Buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import portatile
from portatile import Buffer
from portatile.device.base import Device
from portatile.errors import ArgumentError
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

N, M, K = 9, 7, 5

# Of each routine: the call on arrays by name, and the core shapes of the arrays, the last of which is the result's.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, int]]]] = {
    "trsm": (lambda a, b, **o: portatile.trsm(a, b, **o), {"a": (N, N), "b": (N, M)}),
    "trsm from the right": (lambda a, b, **o: portatile.trsm(a, b, side="R", uplo="U", **o), {"a": (N, N), "b": (M, N)}),
    "trmm": (lambda a, b, **o: portatile.trmm(a, b, trans="T", alpha=2.0, **o), {"a": (N, N), "b": (N, M)}),
    "trmm from the right": (lambda a, b, **o: portatile.trmm(a, b, side="R", **o), {"a": (N, N), "b": (M, N)}),
    "symm": (lambda a, b, c, **o: portatile.symm(a, b, c, beta=0.5, **o), {"a": (N, N), "b": (N, M), "c": (N, M)}),
    "symm from the right": (lambda a, b, c, **o: portatile.symm(a, b, c, side="R", beta=0.5, **o), {"a": (N, N), "b": (M, N), "c": (M, N)}),
    "syrk": (lambda a, c, **o: portatile.syrk(a, c, beta=0.5, **o), {"a": (N, K), "c": (N, N)}),
    "syrk transposed": (lambda a, c, **o: portatile.syrk(a, c, beta=0.5, uplo="U", trans="T", **o), {"a": (K, N), "c": (N, N)}),
    "syr2k": (lambda a, b, c, **o: portatile.syr2k(a, b, c, beta=2.0, **o), {"a": (N, K), "b": (N, K), "c": (N, N)}),
}


def drawn(cores: dict[str, tuple[int, int]], batches: dict[str, tuple[int, ...]], seed: str) -> dict[str, np.ndarray]:
    """Arrays of float32; squares are well conditioned as triangles."""
    rng = np.random.default_rng(new_seed(seed))
    made = {name: rng.uniform(-1, 1, (*batches.get(name, ()), *core)).astype(np.float32) for name, core in cores.items()}
    if cores["a"] == (N, N):
        made["a"] = made["a"] / 4 + 2 * np.eye(N, dtype=np.float32)
    return made


def one_by_one(call: Callable[..., Any], arrays: dict[str, np.ndarray], device: Device) -> np.ndarray:
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays.values()))
    whole = {name: np.broadcast_to(array, (*batch, *array.shape[-2:])) for name, array in arrays.items()}
    found = [call(**{name: array[at].copy() for name, array in whole.items()}, device=device.info.id) for at in np.ndindex(*batch)]
    return np.array(found).reshape(*batch, *found[0].shape)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("alone", ["nothing", "a", "the others"])
def test_stacks(device: Device, name: str, alone: str) -> None:
    call, cores = CALLS[name]
    last = list(cores)[-1]
    batches: dict[str, tuple[int, ...]] = dict.fromkeys(cores, (2, 3))
    if alone == "a":
        batches["a"] = ()
    elif alone == "the others":
        batches = {core: (2, 1) if core == "a" else (3,) for core in cores}
    arrays = drawn(cores, batches, name + alone)
    expected = one_by_one(call, arrays, device)
    for _ in range(2):
        assert np.allclose(call(**arrays, device=device.info.id), expected, rtol=1e-4, atol=1e-5)
    moved = {one: Buffer.from_numpy(array, device) for one, array in arrays.items()}
    if alone != "the others":
        assert np.allclose(call(**moved).numpy(), expected, rtol=1e-4, atol=1e-5)
        for given, place in ((arrays, {"device": device.info.id}), (moved, {})):
            for _ in range(2):  # over the last operand
                mine = {one: array.copy() for one, array in given.items()}
                assert call(**mine, out=mine[last], **place) is mine[last]
                result = mine[last].numpy() if isinstance(mine[last], Buffer) else mine[last]
                held = result if "sy" not in name or name.startswith("symm") else np.where(_triangle(name), result, expected)
                assert np.allclose(held, expected, rtol=1e-4, atol=1e-5)
    out = np.full(expected.shape, 7, np.float32)
    assert call(**arrays, out=out, device=device.info.id) is out
    if name.startswith(("syrk", "syr2k")):
        assert (out[..., ~_triangle(name)] == 7).all(), "the other triangle stays"
        expected = np.where(_triangle(name), expected, 7)
    assert np.allclose(out, expected, rtol=1e-4, atol=1e-5)


def _triangle(name: str) -> np.ndarray:
    lower = np.tri(N, dtype=bool)
    return lower.T if name == "syrk transposed" else lower


@pytest.mark.parametrize("side", ["L", "R"])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("routine", [portatile.trsm, portatile.trmm])
def test_vectors(device: Device, routine: Any, batch: tuple[int, ...], side: str) -> None:
    a = drawn({"a": (N, N)}, {"a": batch}, f"vectors {side}")["a"]
    b = np.arange(1.0, 2 * N + 1)[::2].astype(np.float32)
    index = (..., None) if side == "L" else (..., None, slice(None))
    expected = np.array([routine(one.copy(), b[index].copy(), side=side, device=device.info.id) for one in a.reshape(-1, N, N)])
    expected = expected.reshape(*batch, N)
    for _ in range(2):
        assert np.allclose(routine(a, b, side=side, device=device.info.id), expected, rtol=1e-5)
    out = np.zeros((*batch, N), np.float32)
    assert routine(a, b, side=side, out=out, device=device.info.id) is out
    assert np.allclose(out, expected, rtol=1e-5)
    moved = Buffer.from_numpy(b, device)
    result = routine(Buffer.from_numpy(a, device), moved, side=side)
    assert result.shape == expected.shape
    assert np.allclose(result.numpy(), expected, rtol=1e-5)
    if not batch:
        mine = b.copy()
        assert routine(a, mine, side=side, out=mine, device=device.info.id) is mine
        assert np.allclose(mine, expected, rtol=1e-5)


S = np.ones((3, 4, 4), np.float32)
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "batches": (lambda: portatile.trsm(S, S[:2]), "cannot be broadcast"),
    "orders": (lambda: portatile.trsm(S[:, :3, :3], S), "needs"),
    "dtypes": (lambda: portatile.symm(S, S.astype(float)), "convert one"),
    "out": (lambda: portatile.syrk(S, out=np.zeros((4, 4), np.float32)), "out has shape"),
    "an output over another": (lambda: portatile.trmm(S[:2], S[:2].copy(), out=S[1:]), "overlaps a"),
    "an output over its neighbours": (lambda: portatile.trmm(S[:2].copy(), S[:2], out=S[1:]), "overlaps b"),
    "an output over itself": (
        lambda: portatile.syrk(S, out=as_strided(S.copy(), S.shape, (0, 16, 4))),
        "overlaps itself",
    ),
    "no c": (lambda: portatile.syrk(S, beta=1.0), "pass c, or leave beta out"),
    "a complex factor of a Hermitian update": (lambda: portatile.herk(S.astype("complex64"), alpha=1j), "takes a real one, syrk any"),
    "a list": (lambda: portatile.trsm(S, S.tolist()), "b is a list"),  # type: ignore[arg-type]
    "a vector of another length": (lambda: portatile.trsm(S[0], np.ones(3, np.float32)), "needs"),
    "a vector in syrk": (lambda: portatile.syrk(S[0, 0]), "two dimensions"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told(what: str) -> None:
    call, message = MISTAKES[what]
    before = S.copy()
    with pytest.raises(ArgumentError, match=message):
        call()
    assert (before == S).all()


def test_no_matrices_at_all(device: Device) -> None:
    empty = np.ones((0, 4, 4), np.float32)
    assert portatile.trsm(empty, empty, device=device.info.id).shape == (0, 4, 4)
    assert portatile.syrk(empty, device=device.info.id).shape == (0, 4, 4)
    with pytest.raises(ArgumentError, match="a is float32 and the output float64"):
        portatile.trsm(empty, empty, out=np.ones((0, 4, 4)), device=device.info.id)
    assert not portatile.syrk(np.ones((2, 3, 0), np.float32), device=device.info.id).any()


def test_stacks_of_complex_matrices(device: Device) -> None:
    """Hermitian updates and products, each matrix within the bound of its sum."""
    rng = np.random.default_rng(new_seed("complex"))
    a = (rng.uniform(-1, 1, (2, N, K)) + 1j * rng.uniform(-1, 1, (2, N, K))).astype(np.complex64)
    lower = portatile.herk(a, device=device.info.id)
    expected = a @ a.conj().swapaxes(1, 2)
    assert np.allclose(lower, np.tril(expected), atol=1e-5)
    assert np.allclose(portatile.hemm(lower, a, device=device.info.id), expected @ a, atol=1e-4)


@pytest.mark.parametrize("trans", ["T", "C"])
@pytest.mark.parametrize("side", ["L", "R"])
def test_small_triangles_are_solved_together(device: Device, side: str, trans: str) -> None:
    """Complex ones too, of columns that lie apart, and of Buffers that stay as they are; products add to stacks of other types."""
    rng = np.random.default_rng(new_seed(side + trans))
    count, order, others = (int(size) for size in rng.integers((2, 1, 1), (6, 90, 9)))

    def drawn(*shape: int) -> Any:
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(np.complex64)

    a, b = drawn(count, order, order) / order + 2 * np.eye(order, dtype=np.complex64), drawn(count, order, others)
    b = b if side == "L" else b.swapaxes(1, 2)
    lower = np.tril(a)
    op = (lower if trans == "T" else lower.conj()).swapaxes(1, 2)
    exact = np.linalg.solve(op, b) if side == "L" else np.linalg.solve(op.swapaxes(1, 2), b.swapaxes(1, 2)).swapaxes(1, 2)
    options: Any = {"side": side, "trans": trans}
    assert np.allclose(portatile.trsm(a, b, device=device.info.id, **options), exact, rtol=1e-3, atol=1e-4)
    triangles, right = Buffer.from_numpy(a, device), Buffer.from_numpy(b, device)
    assert np.allclose(portatile.trsm(triangles, right, **options).numpy(), exact, rtol=1e-3, atol=1e-4)
    assert (right.numpy() == b).all()
    added = portatile.gemm(triangles, triangles, triangles, beta=1.0).numpy()
    assert np.allclose(added, a @ a + a, rtol=1e-3, atol=1e-4)


ROUTINES = ("trmm", "trsm", "symm", "hemm", "syrk", "herk", "syr2k", "her2k")

OP: dict[str, Callable[[Any], Any]] = {
    "N": lambda x: x.astype(complex),
    "T": lambda x: x.swapaxes(-1, -2).astype(complex),
    "C": lambda x: x.swapaxes(-1, -2).conj().astype(complex),
}


class Drawn:
    """A random call of a routine on stacks: its arrays and options, and the product before alpha and beta, in complex128.

    What must not be read of ``a`` is NaN. Only the places ``written`` of the result are written; ``c`` is what beta multiplies, or the
    array that may be overwritten.
    """

    def __init__(self, routine: str, rng: np.random.Generator) -> None:
        self.routine, self.rng = routine, rng
        self.kind = self.pick("float32", "complex64")
        self.order, self.others, self.terms = (int(size) for size in rng.integers(1, 40, 3))
        self.batch, self.side, self.uplo = self.pick((3,), (2, 3)), self.pick("L", "R"), self.pick("L", "U")
        self.trans, self.diag = self.pick("N", "T", "C"), self.pick("N", "U")
        self.alpha, self.beta, self.hermitian = self.pick(1.0, -0.5), self.pick(0.0, 0.5), routine.startswith("he")
        self.across = OP["C" if self.hermitian else "T"]
        lower = np.tri(self.order, dtype=bool)
        self.half = lower if self.uplo == "L" else lower.T
        self.eye = np.eye(self.order)
        self.options: dict[str, Any] = {"uplo": self.uplo, "alpha": self.alpha}
        if routine in ("trmm", "trsm"):
            self.draw_triangular()
        elif routine in ("symm", "hemm"):
            self.draw_symmetric()
        else:
            self.draw_update()

    def pick(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def values(self, rows: int, columns: int, batch: tuple[int, ...]) -> np.ndarray:
        """Random matrices, stored by rows or by columns."""
        imaginary = 0 if self.kind == "float32" else 1j
        stored = (self.rng.uniform(-1, 1, (*batch, rows, columns)) + imaginary * self.rng.uniform(-1, 1, (*batch, rows, columns))).astype(
            self.kind
        )
        return np.ascontiguousarray(stored.swapaxes(-1, -2)).swapaxes(-1, -2) if self.pick(True, False) else stored

    def draw_factors(self) -> tuple[np.ndarray, np.ndarray]:
        """The square matrix, and what it is multiplied by, of its side."""
        a = self.values(self.order, self.order, self.pick(self.batch, self.batch[-1:], ()))
        b = self.values(*((self.order, self.others) if self.side == "L" else (self.others, self.order)), self.batch)
        self.written = np.ones(b.shape[-2:], bool)
        return a, b

    def draw_triangular(self) -> None:
        a, b = self.draw_factors()
        a = a / self.order + 2 * self.eye.astype(self.kind)
        unit = (self.diag == "U") * self.eye
        square = OP[self.trans](np.where(self.half & (unit == 0), a, unit))
        square = square if self.routine == "trmm" else np.linalg.inv(square)
        self.options |= {"side": self.side, "trans": self.trans, "diag": self.diag}
        self.arrays, self.beta, self.c = [a, b], 0.0, b
        self.product = square @ b if self.side == "L" else b @ square
        a[..., ~self.half] = np.nan

    def draw_symmetric(self) -> None:
        a, b = self.draw_factors()
        self.c = self.values(*b.shape[-2:], self.batch)
        square = np.where(self.half & (self.eye == 0), a, 0)
        square = square + self.across(square) + self.eye * (a.real if self.hermitian else a)
        self.options |= {"side": self.side, "beta": self.beta}
        self.arrays = [a, b, self.c]
        self.product = square @ b if self.side == "L" else b @ square
        a[..., ~self.half] = np.nan

    def draw_update(self) -> None:
        shape = (self.order, self.terms) if self.trans == "N" else (self.terms, self.order)
        a, b, self.c = self.values(*shape, self.batch), self.values(*shape, self.batch), self.values(self.order, self.order, self.batch)
        left, right = OP[self.trans](a), OP[self.trans](b)
        self.product = left @ self.across(right) + right @ self.across(left) if "2" in self.routine else left @ self.across(left)
        self.options |= {"trans": self.trans, "beta": self.beta}
        self.arrays, self.written = [a, b, self.c] if "2" in self.routine else [a, self.c], self.half

    @property
    def expected(self) -> np.ndarray:
        """The result; the diagonal of a Hermitian ``c`` counts as real."""
        real_diagonal = self.hermitian and self.written is self.half
        return self.alpha * self.product + self.beta * (np.where(self.eye, self.c.real, self.c) if real_diagonal else self.c)


@pytest.mark.parametrize("routine", ROUTINES)
def test_random_stacks(device: Device, routine: str) -> None:
    """Random options, element types, orders in memory and batches, within the bound of a sum; what must not be read is NaN."""
    drawn = Drawn(routine, np.random.default_rng(new_seed(routine)))
    expected, written = drawn.expected, drawn.written
    if drawn.beta == 0 and routine not in ("trmm", "trsm"):
        drawn.c[..., written] = np.nan
    sevens = np.full(expected.shape, 7, drawn.kind)
    for out, before in ((sevens.copy(), sevens), (drawn.c, drawn.c.copy())):
        result = getattr(portatile, routine)(*drawn.arrays, **drawn.options, out=out, device=device.info.id)
        assert np.allclose(result[..., written], expected[..., written], rtol=0, atol=1e-4)
        assert np.array_equal(result[..., ~written], before[..., ~written], equal_nan=True), "the other triangle stays"


@pytest.mark.parametrize("dtype", ["complex64", "float32"])
def test_buffers_of_a_stack_that_lies_apart_come_again(device: Device, dtype: str) -> None:
    """Each matrix is a launch, on the part of the Buffers of its own call."""
    rng = np.random.default_rng(new_seed(dtype))
    for _ in range(3):
        drawn_numbers = rng.uniform(-1, 1, (2, 2, 3, 4, 4))
        x, y = (drawn_numbers[0] if dtype == "float32" else drawn_numbers[0] + 1j * drawn_numbers[1]).astype(dtype)
        a, b, out = (Buffer.from_numpy(np.zeros((3, 4, 6), dtype), device)[:, :, 1:5] for _ in range(3))
        a.assign(x)
        b.assign(y)
        assert portatile.gemm(a, b, alpha=2, trans_a="T", out=out) is out
        np.testing.assert_allclose(out.numpy(), 2 * x.swapaxes(1, 2) @ y, rtol=1e-3, atol=1e-4)
