"""Calls that are known by the addresses of their tensors, on a GPU: other shapes and types there, modes, threads, streams that go."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU", allow_module_level=True)

import portatile  # noqa: E402
from portatile import device as devices  # noqa: E402
from portatile.errors import UsageError  # noqa: E402
from support.replay_scene import Layout, Scene, Tensors  # noqa: E402
from support.seeds import new_seed  # noqa: E402

OFTEN = 8  # calls until those on the same arrays are known
LONG = 8192  # the inner dimension of a product whose sums are split: it takes a workspace


@pytest.fixture(autouse=True)
def opened() -> None:
    try:
        devices.get("cuda:0")
    except portatile.PortatileError as error:
        pytest.skip(str(error))


class OnGpu(Tensors):
    """PyTorch's tensors."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def block(self, nbytes: int) -> Any:
        return torch.empty(nbytes, dtype=torch.uint8, device="cuda:0")

    def bytes_of(self, block: Any) -> Any:
        torch.cuda.synchronize()
        return block.cpu().numpy()

    def fill(self, block: Any, values: Any) -> None:
        block.copy_(torch.from_numpy(values))
        torch.cuda.synchronize()

    def tensor(self, block: Any, layout: Layout) -> Any:
        return block.view(getattr(torch, layout.dtype)).as_strided(layout.shape, layout.strides, layout.offset)

    def become(self, tensor: Any, block: Any, layout: Layout) -> None:
        tensor.data = self.tensor(block, layout)

    def modes(self) -> Sequence[Callable[[], AbstractContextManager[Any]]]:
        autocast = partial(torch.autocast, "cuda", dtype=torch.bfloat16)
        return (*[nullcontext] * 5, torch.no_grad, torch.inference_mode, autocast, partial(torch.cuda.stream, self._stream), self._strict)

    @contextmanager
    def _strict(self) -> Iterator[None]:
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)


def read(tensor: Any) -> Any:
    torch.cuda.synchronize()
    return tensor.cpu().numpy()


@pytest.mark.parametrize("part", range(4))
def test_random_calls_on_few_addresses(part: int) -> None:
    scene = Scene(OnGpu(), f"{new_seed('replays')}/{part}", devices.get("cuda:0"), largest=17)
    scene.run(250, read)
    print(scene.outcomes)
    assert scene.outcomes["known"] + scene.outcomes["new, known"] > 15, scene.outcomes


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, partial(torch.autocast, "cuda", dtype=torch.bfloat16)])
def test_calls_in_a_mode_are_known_too(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from portatile.runtime.repeated.replayed import Replays

    a, b, out = (torch.rand(32, 32, device="cuda:0") for _ in range(3))
    known, run = [], Replays.run
    monkeypatch.setattr(Replays, "run", lambda *given: (known.append(run(*given)), known[-1])[1])
    for _ in range(2):
        for context in (mode, nullcontext):
            with context():
                for _ in range(OFTEN):
                    portatile.matmul(a, b, out=out)
                assert known[-2:] == [True, True]
    torch.testing.assert_close(out, a @ b)


def test_threads_with_streams_of_their_own() -> None:
    """And products that need a workspace; each thread looks at what it gets."""
    wrong: list[str] = []

    def work(number: int) -> None:
        try:
            generator = torch.Generator(device="cuda:0").manual_seed(number)
            a = torch.rand(64, LONG, device="cuda:0", generator=generator) - 0.5
            b = torch.rand(LONG, 64, device="cuda:0", generator=generator) - 0.5
            out = torch.empty(64, 64, device="cuda:0")
            expected = (a.double() @ b.double()).float()
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(60):
                    out.fill_(float("nan"))
                    found = portatile.matmul(a, b, out=out) if turn % 3 else portatile.matmul(a, b)
                    if not torch.allclose(found, expected, rtol=1e-3, atol=1e-2):
                        wrong.append(f"thread {number}, call {turn}")
        except Exception as error:
            wrong.append(repr(error))

    portatile.matmul(torch.rand(64, LONG, device="cuda:0"), torch.rand(LONG, 64, device="cuda:0"))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:5]


def test_streams_that_come_and_go() -> None:
    """CuPy destroys its streams; the next one may have the same address."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    a, b = (cupy.random.rand(64, 64, dtype=cupy.float32) for _ in range(2))
    out, expected = cupy.empty((64, 64), cupy.float32), a @ b
    numbers = set()
    for _ in range(20):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            numbers.add(stream.ptr)
            for _ in range(OFTEN):
                out.fill(cupy.nan)
                portatile.matmul(a, b, out=out)
            found = portatile.matmul(a, b)
            stream.synchronize()
            cupy.testing.assert_allclose(out, expected, rtol=1e-4)
            cupy.testing.assert_allclose(found, expected, rtol=1e-4)
            stream.synchronize()
        del stream
    assert len(numbers) < 20, "no address came again"


def test_threads_on_the_default_stream_of_each() -> None:
    """The stream number 2 is another one in each thread, so workspaces must be others too."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    wrong: list[str] = []
    start = threading.Barrier(3)

    def work(number: int) -> None:
        try:
            a, b = (
                cupy.random.RandomState(number + at).rand(*shape).astype("f") - 0.5 for at, shape in enumerate([(64, LONG), (LONG, 64)])
            )
            out, expected = cupy.empty((64, 64), "f"), a @ b
            cupy.cuda.Device().synchronize()
            start.wait(20)
            with cupy.cuda.Stream.ptds:
                for turn in range(300):
                    portatile.matmul(a, b, out=out)
                    cupy.cuda.Stream.ptds.synchronize()
                    if not cupy.allclose(out, expected, rtol=1e-3, atol=1e-2):
                        wrong.append(f"thread {number}, call {turn}")
        except Exception as error:
            wrong.append(repr(error))

    portatile.matmul(cupy.ones((64, LONG), "f"), cupy.ones((LONG, 64), "f"))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, (len(wrong), wrong[:5])


def test_a_forked_process_is_told() -> None:
    """Also by a call that is known by its addresses: by portatile, or by PyTorch, which is asked for the tensor's memory."""
    a, b, out = (torch.rand(32, 32, device="cuda:0") for _ in range(3))
    for _ in range(OFTEN):
        portatile.matmul(a, b, out=out)
        portatile.matmul(a, b)
    child = os.fork()
    if child == 0:
        refused = 0
        for given in ({"out": out}, {}):
            try:
                portatile.matmul(a, b, **given)
            except (UsageError, RuntimeError):
                refused += 1
        os._exit(2 - refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    portatile.matmul(a, b, out=out)
    torch.testing.assert_close(out, a @ b)


@pytest.mark.parametrize("size", [7, 64, 256, 500, 512, 700])
def test_arrays_of_the_host_come_again(size: int) -> None:
    """Through pinned memory or not; other arrays, other numbers, and a C that is read."""
    rng = np.random.default_rng(size)
    for turn in range(OFTEN):
        a, b, c = (rng.random((size, size), dtype=np.float32) - 0.5 for _ in range(3))
        expected = a.astype(float) @ b
        out = np.full((size, size), np.nan, np.float32)
        portatile.matmul(a, b, out=out, device="cuda:0")
        np.testing.assert_allclose(out, expected, atol=1e-3)
        np.testing.assert_allclose(portatile.matmul(a, b.T, device="cuda:0"), a.astype(float) @ b.T, atol=1e-3)
        given = c.copy()
        portatile.gemm(a, b, c, alpha=2.0, beta=float(turn % 2), out=c, device="cuda:0")
        np.testing.assert_allclose(c, 2 * expected + turn % 2 * given, atol=2e-3)
