"""Calls that come again give the driver what the first call gave it, for other arrays of the same description, without a GPU."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.arguments import described
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError, UsageError
from support.fake_cuda import MAP, FakeDriver, Launched, Tensor, torch
from support.noted_calls import N, driver, named, places, square

__all__ = ["driver"]  # a fixture

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "matmul": lambda a, b, o: portatile.matmul(a, b, out=o),
    "gemm": lambda a, b, o: portatile.gemm(a, b, o, alpha=2.5, beta=0.5, trans_a="T", out=o),
    "gemm of zero": lambda a, b, o: portatile.gemm(a, b, o, alpha=0.0, beta=0.5, out=o),
    "symm": lambda a, b, o: portatile.symm(a, b, out=o, side="R"),
    "syrk": lambda a, b, o: portatile.syrk(a, out=o, alpha=3.0),
    "syr2k": lambda a, b, o: portatile.syr2k(a, b, out=o, trans="T"),
    "trmm": lambda a, b, o: portatile.trmm(a, o, out=o),
    "trsm": lambda a, b, o: portatile.trsm(a, b, out=o, uplo="U", alpha=0.5),
}


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_the_second_call_launches_what_the_first_did(driver: FakeDriver, call: Callable[[Any, Any, Any], Any], dtype: str) -> None:
    first, second = [square(dtype) for _ in range(3)], [square(dtype) for _ in range(3)]
    assert call(*first) is first[2]
    long_way = named(driver.launched, *first)
    driver.log.clear()
    assert call(*second) is second[2]
    assert named(driver.launched, *second) == long_way
    assert long_way


def test_other_factors_reach_the_kernel(driver: FakeDriver) -> None:
    given = [square("float64") for _ in range(3)]
    for alpha in (1.0, 7.25, -2.0):
        driver.log.clear()
        portatile.gemm(*given, alpha=alpha, beta=0.5, out=given[2])
        assert any(struct.pack("d", alpha) in launch.parameters for launch in driver.launched)


def test_tensor_maps_follow_their_tensors(driver: FakeDriver) -> None:
    """Also where two sets of them come by turns, and where only one of them is another."""
    sets = [[Tensor(shape, "float64") for shape in ((392, 232), (232, 216), (392, 216))] for _ in range(2)]
    sets.append([sets[0][0], sets[1][1], sets[0][2]])
    for turn in range(7):
        given = sets[turn % 3]
        driver.log.clear()
        portatile.matmul(given[0], given[1], out=given[2])
        maps = [parameter for launch in driver.launched for parameter in launch.parameters if len(parameter) == MAP]
        assert [places(*given)[one[:8]] for one in maps] == ["array 0", "array 1"]


def test_new_results_and_other_streams(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = square(), square()
    results = [portatile.matmul(a, b) for _ in range(3)]
    assert len({result.data_ptr() for result in results}) == 3
    assert all(result.shape == (N, N) for result in results)
    driver.log.clear()
    with torch(4711, monkeypatch):
        monkeypatch.setattr(described, "known", {})
        portatile.matmul(a, b)
    assert {launch.stream for launch in driver.launched} == {4711}


def test_a_convolution_of_tensors_comes_again(driver: FakeDriver) -> None:
    lines = square()
    kernels = []
    for _ in range(3):
        driver.log.clear()
        assert portatile.convolve1d(lines, (0.25, -1.0, 0.5), lower=-1, transposed=True).shape == (N, N)
        kernels.append([launch.kernel for launch in driver.launched])
    assert kernels[0]
    assert kernels[0] == kernels[1] == kernels[2]


def test_what_is_refused_stays_refused(driver: FakeDriver) -> None:
    a, b, out = square(), square(), square()
    portatile.matmul(a, b, out=out)
    driver.log.clear()
    with pytest.raises(ArgumentError, match="the output overlaps b"):
        portatile.matmul(a, b, out=b)
    shifted = Tensor((N, N), place=a.data_ptr() + 512)
    with pytest.raises(ArgumentError, match="the output overlaps a"):
        portatile.matmul(a, b, out=shifted)
    with pytest.raises(ArgumentError, match="trans_a"):
        portatile.gemm(a, b, trans_a=["N"])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="inner dimensions"):
        portatile.matmul(a, Tensor((N + 1, N)), out=out)
    assert driver.launched == []


def test_an_array_at_another_alignment_is_looked_at_again(driver: FakeDriver) -> None:
    """A kernel may read vectors only where the address allows it."""
    a, b, out = square(), square(), square()
    portatile.matmul(a, b, out=out)
    portatile.matmul(a, b, out=out)
    driver.log.clear()
    odd = Tensor((N, N), place=a.data_ptr() + 4)
    portatile.matmul(odd, b, out=out)
    known = named(driver.launched, odd, b, out)
    driver.log.clear()
    portatile.matmul(odd, b, out=out)
    assert named(driver.launched, odd, b, out) == known


def test_stacks_come_again(driver: FakeDriver) -> None:
    def stacks() -> list[Tensor]:
        return [Tensor((3, 40, 24)), Tensor((3, 24, 40)), Tensor((3, 40, 40))]

    first, second = stacks(), stacks()
    portatile.matmul(first[0], first[1], out=first[2])
    known = named(driver.launched, *first)
    driver.log.clear()
    portatile.matmul(second[0], second[1], out=second[2])
    assert named(driver.launched, *second) == known


@pytest.mark.parametrize(("name", "order", "shared"), [("trmm", 600, False), ("trmm", 600, True), ("trmm", 40, True), ("trsm", 40, False)])
def test_stacks_of_triangles_come_again(driver: FakeDriver, name: str, order: int, shared: bool) -> None:
    """Large matrices are launched for each, in memory that begins with it, so that all are one problem; small ones together."""
    routine = getattr(portatile, name)

    def stacks() -> list[Tensor]:
        return [Tensor((order, order) if shared else (3, order, order)), Tensor((3, order, 24))]

    first, second = stacks(), stacks()
    assert routine(first[0], first[1], out=first[1]) is first[1]
    known = [(launch.kernel, launch.grid) for launch in driver.launched]
    places = [[struct.unpack("Q", given)[0] for given in launch.parameters if len(given) == 8] for launch in driver.launched]
    for at in range(3):
        begins = any(first[1].data_ptr() + at * order * 24 * 4 in given for given in places)
        assert begins == (at == 0 or order == 600)
    driver.log.clear()
    assert routine(second[0], second[1], out=second[1]) is second[1]
    assert [(launch.kernel, launch.grid) for launch in driver.launched] == known


def split_k() -> tuple[Tensor, Tensor, Tensor]:
    """A product whose default takes a workspace."""
    return Tensor((64, 8192)), Tensor((8192, 64)), Tensor((64, 64))


def test_a_workspace_under_capture_belongs_to_the_graph(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocated and zeroed on the device's own stream, waited for, and kept by the graph; what is captured holds launches alone."""
    given = split_k()
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", "off")
    portatile.matmul(given[0], given[1], out=given[2])  # which may check a configuration first
    driver.log.clear()
    portatile.matmul(given[0], given[1], out=given[2])
    usual = [launch.kernel for launch in driver.launched]
    driver.log.clear()
    driver.capturing.add(4711)
    with torch(4711, monkeypatch):
        monkeypatch.setattr(described, "known", {})
        portatile.matmul(given[0], given[1], out=given[2])
    assert [launch.kernel for launch in driver.launched] == usual
    commands = [entry for entry in driver.log if not isinstance(entry, Launched)]
    names = [entry[0] for entry in commands]
    allocated = [entry for entry in commands if entry[0] == "cuMemAllocFromPoolAsync"]
    assert allocated, "the product takes no workspace: choose another for this test"
    assert 4711 not in {entry[2] for entry in allocated}
    assert names.count("cuGraphRetainUserObject") == 1, "one object for all that the graph needs"
    assert "cuMemFreeAsync" not in names
    assert not [entry for entry in commands if entry[0] in ("cuStreamWaitEvent", "cuEventRecord", "cuStreamSynchronize") and 4711 in entry]
    last_wait = max(place for place, entry in enumerate(driver.log) if entry[0] == "cuStreamSynchronize")
    assert all(driver.log.index(entry) < last_wait for entry in allocated), "the memory is there before the graph is"


def test_what_was_never_called_is_refused_under_capture(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.capturing.add(4711)
    with torch(4711, monkeypatch):
        monkeypatch.setattr(described, "known", {})
        with pytest.raises(UsageError, match="before this capture"):
            portatile.matmul(square(), square())
    assert driver.launched == []


def test_a_plan_of_many_launches_becomes_a_graph(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds what the launches were given one by one; not for other arrays, and not while the stream is captured."""
    sets = [(Tensor((1024, 1024)), Tensor((1024, 64))) for _ in range(3)]

    def solve(at: int, alpha: float) -> tuple[list[Any], bool]:
        driver.log.clear()
        a, b = sets[at]
        portatile.trsm(a, b, out=b, alpha=alpha)
        launches = [launch for launch in driver.launched if launch.stream in (1, 4711)]  # others check a configuration
        replayed = any(entry[0] == "cuGraphLaunch" for entry in driver.log if not isinstance(entry, Launched))
        return named([launch._replace(stream=0) for launch in launches], a, b), replayed

    usual = {alpha: solve(2, alpha)[0] for alpha in (1.0, 0.5)}
    assert len(usual[1.0]) >= 4, "too few launches for a graph: choose another problem"
    assert usual[1.0] != usual[0.5]
    for turn in range(4):
        for at in range(2):
            for alpha in (1.0, 0.5):
                solved, replayed = solve(at, alpha)
                assert solved == usual[alpha]
                assert replayed == (turn >= 2)
    with torch(4711, monkeypatch):
        monkeypatch.setattr(described, "known", {})
        for turn in range(6):
            driver.capturing = {4711} if turn == 4 else set()
            solved, replayed = solve(2, 0.5)
            assert [launch.kernel for launch in solved] == [launch.kernel for launch in usual[0.5]]
            assert replayed == (turn in (2, 3, 5))


def test_a_compiled_product_comes_again(driver: FakeDriver) -> None:
    product = portatile.compile("gemm", m=N, n=N, k=N, device="cuda:0")
    first, second = [square() for _ in range(3)], [square() for _ in range(3)]
    product(first[0], first[1], out=first[2])
    known = named(driver.launched, *first)
    driver.log.clear()
    assert product(second[0], second[1], out=second[2]) is second[2]
    assert named(driver.launched, *second) == known
    with pytest.raises(ArgumentError, match="compiled for shape"):
        product(Tensor((N, N + 1)), second[1], out=second[2])
    with pytest.raises(ArgumentError, match="overlaps a"):
        product(second[0], second[1], out=second[0])
    driver.log.clear()
    assert product(a=second[0], b=second[1], alpha=3.0).shape == (N, N)
    assert struct.pack("f", 3.0) in driver.launched[0].parameters


def test_memory_goes_round_on_the_default_queue(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is asked again while there is another queue of ours; that queue waits for the default one."""
    device = portatile.get_device("cuda:0")
    a, b = (portatile.Buffer.empty((N, N), "float32", device) for _ in range(2))
    portatile.matmul(a, b)
    result = portatile.matmul(a, b)
    place = result.memory.handle
    del result
    driver.log.clear()
    result = portatile.matmul(a, b)
    assert result.memory.handle == place
    assert driver.log == driver.launched, "only launches"
    with device.queue():
        waits = [entry for entry in driver.log if entry[0] == "cuStreamWaitEvent"]
        assert waits
        del result
        assert portatile.matmul(a, b).memory.handle != place
    driver.log.clear()
    for _ in range(2):
        portatile.matmul(a, b)
    assert driver.log[-1] == driver.launched[-1], "and goes round again"


def test_memory_goes_round_beside_other_libraries_streams(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other where memory may have gone from one to the other since, and only then."""
    a, b = (portatile.Buffer.empty((N, N), "float32", "cuda:0") for _ in range(2))
    device: Any = a.device
    for _ in range(2):
        portatile.matmul(a, b)

    def foreign() -> Any:
        driver.log.clear()
        with torch(4711, monkeypatch):
            monkeypatch.setattr(described, "known", {})
            portatile.matmul(*split_k()[:2])  # its workspace is the device's own
        (queue,) = (queue for queue in device._foreign if int(queue.stream) == 4711)
        return queue

    def own() -> list[Any]:
        driver.log.clear()
        portatile.matmul(a, b)
        return [entry for entry in driver.log if entry[0].startswith(("cuEvent", "cuStream"))]

    queue, default = foreign(), device.default_queue().stream
    fence = ("cuEventRecord", device._fence_event, default), ("cuStreamWaitEvent", 4711, device._fence_event, 0)
    assert [entry for entry in driver.log if entry in fence] == [*fence]
    foreign()
    assert not [entry for entry in driver.log if entry[0] == "cuStreamWaitEvent"], "nothing was handed on since"
    assert ("cuEventRecord", queue.last, 4711) in driver.log
    assert own() == [("cuStreamWaitEvent", default, queue.last, 0)]
    assert own() == []
    foreign()
    assert [entry for entry in driver.log if entry in fence] == [*fence]
    driver.capturing.add(4711)
    own()
    device.claimed = object()
    driver.log.clear()
    queue.enter()
    waited = [entry for entry in driver.log if entry[0] == "cuStreamSynchronize"]
    assert ("cuStreamSynchronize", default) in waited, "a graph waits for nothing outside of it"


def test_another_context_of_the_thread(driver: FakeDriver) -> None:
    """The driver refuses a launch there; then it is made in the device's own context, once."""
    given = [square() for _ in range(3)]
    for _ in range(2):
        portatile.matmul(given[0], given[1], out=given[2])
    driver.log.clear()
    driver.current = 78
    portatile.matmul(given[0], given[1], out=given[2])
    assert len(driver.launched) == 1
    assert driver.current == 78


def test_one_array_in_two_places_and_then_two(driver: FakeDriver) -> None:
    a, b, out = square(), square(), square()
    portatile.syr2k(a, a, out=out)
    once = named(driver.launched, a, b, out)
    for first, second in ((a, b), (b, b), (a, b), (b, a)):
        driver.log.clear()
        portatile.syr2k(first, second, out=out)
        seen = named(driver.launched, first, *([] if second is first else [second]), out)
        assert len(seen) == len(once)
        assert {entry for launch in seen for entry in launch.parameters if isinstance(entry, str)} == (
            {"array 0", "array 1"} if second is first else {"array 0", "array 1", "array 2"}
        )


def test_what_is_not_read_does_not_cross_the_link(driver: FakeDriver) -> None:
    """On the first call and on those that come again."""
    a, b, out = (np.zeros((N, N), np.float32) for _ in range(3))
    for _ in range(3):
        driver.log.clear()
        portatile.matmul(a, b, out=out, device="cuda:0")
        assert [entry[0] for entry in driver.log].count("cuMemcpyHtoDAsync") == 2
    driver.log.clear()
    portatile.gemm(a, b, out, beta=1.0, out=out, device="cuda:0")
    assert [entry[0] for entry in driver.log].count("cuMemcpyHtoDAsync") == 3
