"""``matmul`` by NumPy's rules: vectors, strides, lists, promotion and outputs of any kind, on the host and as Buffers."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer
from portatile.device.base import Device
from portatile.errors import ArgumentError
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

F = np.float32
RNG = np.random.default_rng(11)
A, B = RNG.random((6, 5)).astype(F), RNG.random((5, 7)).astype(F)
K, M = RNG.random(10).astype(F), RNG.random(6).astype(F)
STACK, OTHER = RNG.random((2, 1, 6, 5)).astype(F), RNG.random((3, 5, 4)).astype(F)

OPERANDS: dict[str, tuple[Any, Any]] = {
    "a vector on the right": (A, K[:5]),
    "a vector on the left": (M, A),
    "two vectors": (K[:5], K[5:]),
    "a vector with a step": (A, K[::2]),
    "a vector backwards": (A, K[4::-1]),
    "a vector and a stack": (M, STACK),
    "a stack and a vector": (STACK, K[:5]),
    "rows backwards": (A[::-1], B),
    "steps in both": (np.repeat(np.repeat(A, 2, 0), 2, 1)[::2, ::2], B[:, ::-2]),
    "one row for all": (np.broadcast_to(A[:1], A.shape), B),
    "stacks backwards": (STACK[:, :, ::-1], OTHER[::-1, ::-1]),
    "integers": ((9 * A).astype(np.int16), (9 * B).astype(np.uint64)),
    "bool and float32": (A > 0.5, B),
    "float32 and float64": (A, B.astype(np.float64)),
    "foreign byte order": (A.astype(">f4"), B),
    "no sum": (A[:, :0], B[:0]),
    "no rows": (A[:0], K[:5]),
}
ALIKE: dict[str, tuple[Any, Any]] = {
    "lists": (A.tolist(), B.tolist()),
    "a tuple and an array": (((1, 2), (3, 4)), B[:2]),
    "blocks of memory": (memoryview(A), array.array("d", [1.0, 2.0, 3.0, 4.0, 5.0])),
}


def alike(got: Any, a: Any, b: Any) -> None:
    expected = np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64))
    assert np.shape(got) == expected.shape
    assert np.allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("what", [*OPERANDS, *ALIKE])
def test_operands_on_the_host(device: Device, what: str) -> None:
    a, b = (OPERANDS | ALIKE)[what]
    for _ in range(2):  # the first time, and as a call that comes again
        result = portatile.matmul(a, b, device=device.info.id)
        alike(result, a, b)
    alike(portatile.matmul(a, b), a, b)
    kind = np.result_type(np.asarray(a), np.asarray(b))
    assert result.dtype == (kind if kind.kind == "f" else np.float64)


@pytest.mark.parametrize("what", OPERANDS)
def test_operands_on_the_device(device: Device, what: str) -> None:
    a, b = OPERANDS[what]
    if what == "foreign byte order":
        return
    whole = [Buffer.from_numpy(np.ascontiguousarray(one), device) for one in (a, b)]
    result = portatile.matmul(*whole)
    alike(result.numpy(), a, b)
    shown = Buffer.from_numpy(np.repeat(np.asarray(a), 2, -1), device)[..., ::2]
    again = portatile.matmul(shown, whole[1], out=Buffer.empty(result.shape, result.dtype, device))
    alike(again.numpy(), a, b)


def test_two_vectors_give_a_scalar(device: Device) -> None:
    result = portatile.matmul(K, K, device=device.info.id)
    assert type(result) is np.float32
    assert portatile.matmul(Buffer.from_numpy(K, device), Buffer.from_numpy(K, device)).shape == ()


class Labelled:
    """Something that NumPy makes an array of."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return A if dtype is None else A.astype(dtype)


def test_what_has_an_array_in_it(device: Device) -> None:
    alike(portatile.matmul(Labelled(), B, device=device.info.id), A, B)  # type: ignore[type-var]


GAPS = (6, 7, 2)
OUTPUTS: dict[str, Callable[[], Any]] = {
    "wider": lambda: np.zeros((6, 7)),
    "complex": lambda: np.zeros((6, 7), complex),
    "narrower": lambda: np.zeros((6, 7), np.float16),
    "gaps": lambda: np.zeros(GAPS, F)[..., 1],
    "backwards": lambda: np.zeros((6, 7), F)[::-1, ::-1],
    "columns": lambda: np.zeros((7, 6), F).T,
    "several": lambda: np.zeros((3, 6, 7), F),
    "foreign byte order": lambda: np.zeros((6, 7), ">f4"),
}


@pytest.mark.parametrize("what", OUTPUTS)
def test_outputs_on_the_host(device: Device, what: str) -> None:
    for given in (lambda out: out, lambda out: (out,)):
        out = OUTPUTS[what]()
        assert portatile.matmul(A, B, given(out), device=device.info.id) is out
        assert np.allclose(out, A @ B, rtol=1e-2 if what == "narrower" else 1e-5)
        if what == "gaps":
            assert not out.base[..., 0].any()


def test_outputs_of_vectors(device: Device) -> None:
    out = np.zeros((6, 3), F)
    assert portatile.matmul(A, K[:5], out=out[:, 1], device=device.info.id).base is out
    assert np.allclose(out[:, 1], A @ K[:5])
    assert not out[:, ::2].any()
    one = np.zeros((), F)
    assert portatile.matmul(K, K, out=one, device=device.info.id) is one
    assert np.isclose(one, K @ K)


def test_integers_into_integers(device: Device) -> None:
    whole = RNG.integers(-9, 9, (5, 5))
    out = np.zeros((5, 5), np.int32)
    portatile.matmul(whole, whole, out=out, device=device.info.id)
    assert (out == whole @ whole).all()
    flags = whole > 0
    out = np.zeros((5, 5), bool)
    portatile.matmul(flags, flags, out=out, device=device.info.id)
    assert (out == flags @ flags).all()


def test_an_output_over_an_operand_is_written_last(device: Device) -> None:
    square = RNG.random((9, 9))
    expected = square @ square
    assert portatile.matmul(square, square, out=square, device=device.info.id) is square
    assert np.allclose(square, expected)


@pytest.mark.parametrize("steps", [(0, 1), (1, 1), (7, 0)])
def test_an_output_whose_elements_share_memory_is_refused(device: Device, steps: tuple[int, int]) -> None:
    """The result cannot be there; also where it would be cast."""
    for kind in (np.float64, np.float32):
        place = np.full(60, 7, kind)
        out = np.lib.stride_tricks.as_strided(place, (6, 7), tuple(step * place.itemsize for step in steps))
        with pytest.raises(ArgumentError, match="out overlaps itself"):
            portatile.matmul(A, B, out=out, device=device.info.id)
        assert (place == 7).all()


def test_outputs_on_the_device(device: Device) -> None:
    a, b = Buffer.from_numpy(A, device), Buffer.from_numpy(B, device)
    for out in (Buffer.from_numpy(np.zeros((6, 7)), device), Buffer.from_numpy(np.zeros(GAPS, F), device)[..., 1]):
        assert portatile.matmul(a, b, out=out) is out
        assert np.allclose(out.numpy(), A @ B)
    assert np.allclose((a @ b).numpy(), A @ B)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a scalar": (lambda: portatile.matmul(np.float32(1), B), "no dimensions"),
    "an inner dimension": (lambda: portatile.matmul(A, K), "inner dimensions differ, 5 and 10"),
    "ragged": (lambda: portatile.matmul([[1.0], [1.0, 2.0]], B), "equally long"),  # type: ignore[list-item]
    "text": (lambda: portatile.matmul("text", B), "a is a str"),
    "objects": (lambda: portatile.matmul(A.astype(object), B), "Python objects"),
    "a vector of objects": (lambda: portatile.matmul(A[0].astype(object), B), "a holds Python objects"),
    "dates beside integers": (lambda: portatile.matmul(A.astype(int), B.astype("M8[s]")), "b has dtype datetime64"),
    "two places": (lambda: portatile.matmul(A, Buffer.from_numpy(B)), "different places"),
    "two places and the left": (lambda: A @ Buffer.from_numpy(B), "different places"),
    "two outputs": (lambda: portatile.matmul(A, B, out=(1, 2)), "tuple of 2"),  # type: ignore[arg-type]
    "a list as output": (lambda: portatile.matmul(A, K[:5], out=[1.0]), "out is a list"),  # type: ignore[arg-type]
    "an integer output": (lambda: portatile.matmul(A, B, out=np.zeros((6, 7), int)), "pass another array"),
    "a masked operand": (lambda: portatile.matmul(np.ma.masked_greater(A, 0.5)[::-1], B), "masked"),
    "a read-only output": (lambda: portatile.matmul(A, K[:5], out=np.broadcast_to(F(0), (6,))), "read-only"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told(what: str) -> None:
    call, message = MISTAKES[what]
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.drawn(1 / 4)
@pytest.mark.parametrize("draw", range(24))
def test_random_views(device: Device, draw: int) -> None:
    """Whatever strides two random arrays and an output have, the result is NumPy's, and nothing beside it is written."""
    rng = np.random.default_rng(new_seed(f"views {draw}"))
    batch = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    m, n, k = rng.integers(1, 12, 3)

    def view(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(len(shape))
        steps = rng.choice([1, 1, 2, -1, -2], len(shape))
        whole = rng.random([shape[at] * abs(steps[at]) for at in order]).astype(rng.choice([np.float32, np.float64]))
        shown = whole.transpose(np.argsort(order))[(*(slice(None, None, step) for step in steps), ...)]
        return shown, whole

    left = () if not batch and rng.random() < 0.3 else (m,)
    right = () if not batch and rng.random() < 0.3 else (n,)
    (a, _), (b, _), (out, whole) = view((*batch, *left, k)), view((*batch, k, *right)), view((*batch, *left, *right))
    expected, before = np.matmul(a, b), whole.copy()
    assert portatile.matmul(a, b, out=out, device=device.info.id) is out
    assert np.allclose(out, expected, rtol=1e-4)
    out[...] = 0
    assert np.count_nonzero(whole == before) == whole.size - out.size


def test_results_of_another_dtype(device: Device) -> None:
    """What the caller asks for by ``dtype`` or ``out``; int8 is multiplied as such where the result is asked to be int32."""
    small, place = RNG.integers(-9, 9, (6, 6)).astype(np.int8), {"device": device.info.id}
    expected = small.astype(int) @ small
    assert portatile.matmul(small, small, **place).dtype == np.float64
    for given in ((small, small), (small[::-1, ::-1], small[::-1, ::-1])):
        assert portatile.matmul(*given, dtype="int32", **place).dtype == np.int32
        assert (np.sort(portatile.matmul(*given, dtype=np.int32, **place).ravel()) == np.sort(expected.ravel())).all()
    out = np.zeros((6, 6), np.int32)
    assert portatile.matmul(small, small, out=out, **place) is out
    assert (out == expected).all()
    cast = portatile.matmul(A, B, dtype="float64", **place)
    assert np.allclose(cast, np.matmul(A, B, dtype=np.float64), rtol=1e-14)
    assert portatile.matmul(A, K[:5], dtype="float64", **place).shape == (6,)
    with pytest.raises(ArgumentError, match="no result of dtype"):
        portatile.matmul(A, B, dtype="int32")
