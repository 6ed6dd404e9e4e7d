"""Routines inside CUDA graphs that PyTorch and CuPy capture: after one call on any stream, also with a workspace, on a stream of its own.

Every public routine at a small size, and level 3 at sizes that take workspaces and many launches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import wavelets
from portatile.errors import UsageError
from portatile.runtime import perform
from support import capture_cases

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")


def random(*shape: int) -> Any:
    return torch.rand(shape, device="cuda", dtype=torch.float64)


def triangle(size: int) -> Any:
    return torch.tril(random(size, size)) + size * torch.eye(size, device="cuda", dtype=torch.float64)


LARGE: dict[str, tuple[Callable[[], tuple[Any, ...]], Callable[..., Any]]] = {
    "matmul": (lambda: (random(200, 100), random(100, 150), random(200, 150)), lambda a, b, o: portatile.matmul(a, b, out=o)),
    "new result": (lambda: (random(200, 100), random(100, 150)), lambda a, b: portatile.matmul(a, b)),
    "split k": (lambda: (random(64, 9000), random(9000, 64), random(64, 64)), lambda a, b, o: portatile.matmul(a, b, out=o)),
    "split k of a large product": (
        lambda: (random(5120, 2368), random(2368, 1536), random(5120, 1536)),
        lambda a, b, o: portatile.matmul(a, b, out=o),
    ),
    "stack": (lambda: (random(7, 40, 50), random(7, 50, 60), random(7, 40, 60)), lambda a, b, o: portatile.matmul(a, b, out=o)),
    "trsm": (lambda: (triangle(600), random(600, 130), random(600, 130)), lambda a, b, o: portatile.trsm(a, b, out=o)),
    "trmm": (lambda: (triangle(300), random(300, 130), random(300, 130)), lambda a, b, o: portatile.trmm(a, b, out=o)),
    "symm": (lambda: (random(300, 300), random(300, 130), random(300, 130)), lambda a, b, o: portatile.symm(a, b, out=o)),
    "syrk": (lambda: (random(300, 130), random(300, 300)), lambda a, o: portatile.syrk(a, out=o)),
    "syr2k": (lambda: (random(300, 130), random(300, 130), random(300, 300)), lambda a, b, o: portatile.syr2k(a, b, out=o)),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_large_problem_is_captured_after_one_call(case: str) -> None:
    make, call = LARGE[case]
    given = make()
    expected = call(*given).clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(*given)
    for _ in range(3):  # a workspace must be as it was when the graph runs again
        result.fill_(float("nan")) if case not in ("syrk", "syr2k") else None
        graph.replay()
        torch.cuda.synchronize()
        assert torch.allclose(result, expected, rtol=1e-12)
    assert torch.allclose(call(*given), expected, rtol=1e-12), "a call after the capture"


@pytest.mark.parametrize("sizes", [(200, 300, 100), (100, 90, 5000), (64, 64, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_that_need_each_other_follow_each_other(sizes: tuple[int, int, int], dtype: str) -> None:
    """Their launches overlap, their work does not: each replay multiplies what the one before it left."""
    (m, n, k), kind = sizes, getattr(torch, dtype)
    a, b, e = (torch.rand(shape, device="cuda", dtype=kind) for shape in ((m, k), (k, n), (n, k)))
    c = torch.empty((m, n), device="cuda", dtype=kind)
    for _ in range(2):
        portatile.matmul(a, b, out=c)
        portatile.matmul(c, e, out=a)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            portatile.matmul(a, b, out=c)
            portatile.matmul(c, e, out=a)
    start = torch.rand((m, k), device="cuda", dtype=kind) / (n * k)
    expected = start.double()
    for _ in range(3):
        expected = (expected @ b.double()) @ e.double()
    for _ in range(4):
        a.copy_(start)
        c.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.allclose(a.double(), expected, rtol=1e-3 if dtype == "float32" else 1e-9)


def test_what_was_never_called_is_refused_and_the_context_stays_usable() -> None:
    a, b = random(173, 91), random(91, 67)
    torch.cuda.synchronize()
    with pytest.raises(UsageError, match="before this capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        portatile.matmul(a, b)
    torch.cuda.synchronize()
    assert torch.allclose(portatile.matmul(a, b), a @ b)


SMALL = capture_cases.cases()


def parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", SMALL)
def test_every_routine_in_a_graph_of_pytorch(name: str) -> None:
    case = SMALL[name]
    given = [torch.from_numpy(array).cuda() for array in case.arrays]
    expected = [part.clone() for part in parts(case.call(*given))]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = case.call(*given)
    for _ in range(3):
        for one in parts(result):
            if name not in ("syrk", "syr2k"):
                one.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(one, wanted) for one, wanted in zip(parts(result), expected, strict=True))
    assert all(torch.equal(one, wanted) for one, wanted in zip(parts(case.call(*given)), expected, strict=True)), "a call after the capture"


@pytest.mark.parametrize("name", SMALL)
def test_every_routine_in_a_graph_of_cupy(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    case = SMALL[name]
    given = [cupy.asarray(array) for array in case.arrays]
    out = len(case.arrays) > 1 and not case.arrays[-1].any()  # CuPy makes no new arrays while it captures
    expected = [part.copy() for part in parts(case.call(*given))]
    if not out:
        pytest.skip("the call makes a new array, which CuPy does not while it captures")
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        result = case.call(*given)
        graph = stream.end_capture()
        for _ in range(3):
            result.fill(float("nan"))
            graph.launch(stream)
            stream.synchronize()
            assert all(bool((one == wanted).all()) for one, wanted in zip(parts(result), expected, strict=True))


@pytest.mark.parametrize("name", SMALL)
def test_every_routine_is_refused_before_its_first_call(name: str) -> None:
    """The message says what to do, the graph has nothing of it, and the context stays usable."""
    case = SMALL[name]
    given = [torch.from_numpy(array).cuda() for array in case.arrays]
    torch.cuda.synchronize()
    perform.forget()
    with pytest.raises(UsageError, match="before this capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        case.call(*given)
    torch.cuda.synchronize()
    assert all(bool(torch.isfinite(part).all()) for part in parts(case.call(*given)))


def test_numbers_on_the_host_are_refused() -> None:
    psi, potential = (torch.from_numpy(array).cuda() for array in SMALL["apply_potential"].arrays)
    energy = wavelets.potential_energy(psi, potential)
    with pytest.raises(UsageError, match="cannot be captured"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        wavelets.potential_energy(psi, potential)
    assert np.array_equal(wavelets.potential_energy(psi, potential), energy)


def test_many_launches_come_again_as_a_graph_of_our_own() -> None:
    """A solution of many launches, for other arrays, on several streams, and in the middle of what those hold."""
    streams = [torch.cuda.Stream() for _ in range(3)]
    problems = [(triangle(1024), random(1024, 64)) for _ in range(3)]
    expected = [torch.linalg.solve_triangular(a, b, upper=False) for a, b in problems]
    torch.cuda.synchronize()
    for turn in range(12):
        with torch.cuda.stream(streams[turn % 3]):
            a, b = problems[(turn + turn // 3) % 3]
            twice = b * 2
            found = portatile.trsm(a, twice) / 2
        streams[turn % 3].synchronize()
        assert torch.allclose(found, expected[(turn + turn // 3) % 3], rtol=1e-9, atol=1e-12)


def test_another_context_of_the_thread() -> None:
    """A launch that the driver refuses there is made in the device's own context."""
    from portatile.device.cuda.driver import call, driver

    a, b = random(64, 64), random(64, 64)
    expected = a @ b
    out = torch.empty_like(expected)
    for _ in range(3):
        portatile.matmul(a, b, out=out)
    out.zero_()
    torch.cuda.synchronize()
    own = call(driver.cuCtxGetCurrent)
    call(driver.cuCtxSetCurrent, driver.CUcontext(0))
    try:
        portatile.matmul(a, b, out=out)
    finally:
        call(driver.cuCtxSetCurrent, own)
    torch.cuda.synchronize()
    assert torch.allclose(out, expected)
