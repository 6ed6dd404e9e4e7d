"""portatile.compile: the same results as the routines, on arrays of exactly one problem, and every mistake explained."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError, DeviceNotFoundError, UnknownNameError
from portatile.records import Layout
from portatile.runtime import perform
from portatile.verify import compare
from portatile.workloads import operands
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

SIZES = {
    "gemm": {"m": 33, "n": 21, "k": 17},
    "gemm_batched": {"batch": 5, "m": 13, "n": 11, "k": 17},
    "symm": {"m": 33, "n": 21},
    "syrk": {"n": 33, "k": 17},
    "syr2k": {"n": 33, "k": 17},
    "trmm": {"m": 33, "n": 21},
    "matmul": {"m": 33, "n": 21, "k": 17},
    "triangular": {"m": 45, "n": 13},
    "convolution": {"n": 40, "ndat": 24},
    "coulomb": {"atoms": 30, "nx": 9, "ny": 5, "nz": 2},
    "mri": {"samples": 40, "voxels": 50},
}


def close(got: NDArray, expected: NDArray) -> bool:
    """Within a few dozen roundings of float32 of sums of small numbers."""
    return bool(np.abs(np.asarray(got, np.float64) - np.asarray(expected, np.float64)).max() <= 1e-5)


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("where", ["host", "device"])
def test_every_workload_can_be_compiled(device: Device, name: str, where: str) -> None:
    """Operands by name, and within the workload's own bound of its own reference."""
    workload = workloads.get(name)
    rng = np.random.default_rng(new_seed(name))
    compiled = portatile.compile(name, dtype=workload.dtypes[0], device=device.info.id, **SIZES[name])
    problem, shapes = compiled.problem, workload.shapes(compiled.problem)
    inputs = workload.inputs(problem, rng)
    expected = workload.reference(problem, inputs)
    arrays = {operand: operands.view(memory, problem.layout[operand], shapes[operand]) for operand, memory in inputs.operands.items()}
    if where == "device":
        arrays = {operand: Buffer.from_numpy(array, device) for operand, array in arrays.items()}  # type: ignore[misc]
    arrays = {operand: array for operand, array in arrays.items() if array.size}
    result = compiled(**arrays, **inputs.scalars)
    output = next(iter(expected))
    assert result is arrays[output]
    computed = result.numpy() if where == "device" else result
    verdict = compare(np.ascontiguousarray(computed).ravel(), expected[output], workload.bound(problem, compiled.choice.config), output)
    assert verdict.ok, verdict.message


def test_gemm_makes_an_output_and_takes_one(device: Device) -> None:
    rng = np.random.default_rng(new_seed("gemm"))
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((17, 33), (17, 21), (33, 21)))
    product = portatile.compile("gemm", m=33, n=21, k=17, trans_a="T", device=device.info.id)
    assert close(product(a, b), a.T @ b)
    out = np.full((33, 21), np.nan, np.float32)
    assert product(a, b, out=out) is out
    assert close(out, a.T @ b)
    before = c.copy()
    assert product(a, b=b, out=c, alpha=-0.5, beta=2.0) is c
    assert close(c, -0.5 * (a.T @ b) + 2 * before)
    assert close(product(out=c, alpha=0.0, beta=0.5), 0.5 * (-0.5 * (a.T @ b) + 2 * before))
    result = product(Buffer.from_numpy(a, device), Buffer.from_numpy(b, device))
    assert isinstance(result, Buffer)
    assert close(result.numpy(), a.T @ b)


def test_trsm_by_the_name_of_its_routine(device: Device) -> None:
    rng = np.random.default_rng(new_seed("trsm"))
    a = (np.tril(rng.uniform(-1, 1, (40, 40))) / 40 + 2 * np.eye(40)).astype(np.float32)
    x = rng.uniform(-1, 1, (40, 7)).astype(np.float32)
    solve = portatile.compile("trsm", m=40, n=7, device=device.info.id)
    b = a @ x
    assert solve(a=a, b=b) is b
    assert close(b, x)


def test_nothing_is_looked_up_again(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call makes no problem, chooses nothing and builds nothing."""
    product = portatile.compile("gemm", m=9, n=8, k=7, device=device.info.id)
    monkeypatch.setattr("portatile.select.choose", None)
    monkeypatch.setattr("portatile.program.build", None)
    monkeypatch.setattr("portatile.workload.Workload.problem", None)
    portatile.runtime.perform.forget()  # type: ignore[attr-defined]
    assert close(product(np.ones((9, 7), np.float32), np.ones((7, 8), np.float32)), np.full((9, 8), 7.0))


def test_compiled_again_it_takes_what_was_tuned_since(device: Device, own_directories: None) -> None:
    """Also where no routine was called before."""
    perform.forget()
    sizes = {"m": 13, "n": 11, "k": 7}
    before = portatile.compile("matmul", device=device.info.id, **sizes)
    portatile.tune("matmul", device=device.info.id, budget="2", **sizes)
    after = portatile.compile("matmul", device=device.info.id, **sizes)
    perform.forget()
    assert before.choice.trial is None
    assert after.choice.trial is not None


def test_from_threads(device: Device) -> None:
    product = portatile.compile("gemm", m=48, n=40, k=32, device=device.info.id)
    rng = np.random.default_rng(new_seed("threads"))
    pairs = [(rng.random((48, 32), np.float32), rng.random((32, 40), np.float32)) for _ in range(4)]
    results: dict[int, NDArray] = {}
    threads = [threading.Thread(target=lambda i=i: results.update({i: product(*pairs[i])})) for i in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(results[i], a @ b, rtol=1e-4) for i, (a, b) in enumerate(pairs))


F = np.float32
A, B, C = np.ones((4, 3), F), np.ones((3, 5), F), np.ones((4, 5), F)


def read_only() -> NDArray[np.float32]:
    array = C.copy()
    array.flags.writeable = False
    return array


def released(buffer: Buffer) -> Buffer:
    buffer.release()
    return buffer


Call = Callable[[portatile.Compiled], object]
MISTAKES: dict[str, tuple[Call, type[Exception], str]] = {
    "shape": (lambda p: p(B, A), ArgumentError, r"a has shape \(3, 5\)"),
    "dtype": (lambda p: p(A.astype("float64"), B), ArgumentError, "compiled for shape"),
    "view": (lambda p: p(np.ones((4, 6), F)[:, ::2], B), ArgumentError, "C-contiguous"),
    "list": (lambda p: p([[1.0]], B), ArgumentError, "NumPy array"),
    "missing": (lambda p: p(A), ArgumentError, "b is missing"),
    "nothing but an output": (lambda p: p(out=np.ones((4, 5), F)), ArgumentError, "a is missing"),
    "nothing": (lambda p: p(), ArgumentError, "no operands"),
    "too many": (lambda p: p(A, B, C, C), ArgumentError, "4 operands"),
    "twice": (lambda p: p(A, B, a=A), ArgumentError, "given twice"),
    "two outputs": (lambda p: p(A, B, C, out=C.copy()), ArgumentError, "both given"),
    "beta without c": (lambda p: p(A, B, beta=1.0), ArgumentError, "c is missing"),
    "scalar": (lambda p: p(A, B, alpha="x"), ArgumentError, "not a real number"),
    "name": (lambda p: p(A, B, gamma=1.0), UnknownNameError, "gamma"),
    "read-only": (lambda p: p(A, B, out=read_only()), ArgumentError, "read-only"),
    "places": (lambda p: p(Buffer.from_numpy(A, p.device), B), ArgumentError, "a and b are in different places"),
    "released": (
        lambda p: p(released(Buffer.from_numpy(A, p.device)), Buffer.from_numpy(B, p.device)),
        ArgumentError,
        "a is a Buffer whose",
    ),
    "offset": (lambda p: p(Buffer.from_numpy(np.ones((5, 3), F), p.device)[1:], Buffer.from_numpy(B, p.device)), ArgumentError, "begins"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_explained(mistake: str) -> None:
    call, kind, message = MISTAKES[mistake]
    product = portatile.compile("gemm", m=4, n=5, k=3)
    with pytest.raises(kind, match=message):
        call(product)


@pytest.mark.unoptimised
def test_a_triangle_that_is_missing_is_not_read() -> None:
    solve, right = portatile.compile("trsm", m=4, n=4), np.ones((4, 4), F)
    for arguments in ((None, right), (None, Buffer.from_numpy(right, solve.device))):
        with pytest.raises(ArgumentError, match="a is missing"):
            solve(*arguments)
    with pytest.raises(ArgumentError, match="a is missing"):
        solve(b=right)


def test_aliased_output_is_refused() -> None:
    square = np.ones((4, 4), F)
    with pytest.raises(ArgumentError, match="overlaps"):
        portatile.compile("gemm", m=4, n=4, k=4)(square, np.eye(4, dtype=F), out=square)


def test_what_to_compile_must_be_there() -> None:
    with pytest.raises(UnknownNameError, match="gemm"):
        portatile.compile("gem", m=1, n=1, k=1)
    with pytest.raises(UnknownNameError, match="Did you mean 'trsm'"):
        portatile.compile("trsn", m=1, n=1)
    with pytest.raises(UnknownNameError, match="trans_a"):
        portatile.compile("gemm", m=1, n=1, k=1, transa="T")
    with pytest.raises(ArgumentError, match="'k'"):
        portatile.compile("gemm", m=1, n=1)
    with pytest.raises(ArgumentError, match="whole number"):
        portatile.compile("gemm", m="one", n=1, k=1)
    with pytest.raises(DeviceNotFoundError):
        portatile.compile("gemm", m=1, n=1, k=1, device="no such device")


def test_an_empty_problem_does_nothing() -> None:
    assert portatile.compile("gemm", m=0, n=5, k=3)(np.empty((0, 3), F), B).shape == (0, 5)


def test_the_layout_is_packed() -> None:
    compiled = portatile.compile("gemm", m=4, n=5, k=3)
    assert compiled.problem.layout["a"] in (Layout((3, 1), 0, 16), Layout((3, 1), 0, 128))
    assert "gemm" in repr(compiled)
