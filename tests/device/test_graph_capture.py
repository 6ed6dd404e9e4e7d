"""Routines inside CUDA graphs that PyTorch captures: after one call on any stream, also with a workspace, on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import portatile
from portatile.errors import UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")


def random(*shape: int) -> Any:
    return torch.rand(shape, device="cuda", dtype=torch.float64)


def triangle(size: int) -> Any:
    return torch.tril(random(size, size)) + size * torch.eye(size, device="cuda", dtype=torch.float64)


CASES: dict[str, tuple[Callable[[], tuple[Any, ...]], Callable[..., Any]]] = {
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


@pytest.mark.parametrize("case", CASES)
def test_a_routine_is_captured_after_one_call(case: str) -> None:
    make, call = CASES[case]
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


def test_what_was_never_called_is_refused_and_the_context_stays_usable() -> None:
    a, b = random(173, 91), random(91, 67)
    torch.cuda.synchronize()
    with pytest.raises(UsageError, match="before this capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        portatile.matmul(a, b)
    torch.cuda.synchronize()
    assert torch.allclose(portatile.matmul(a, b), a @ b)
