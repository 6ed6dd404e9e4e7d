"""Calls that come again on the very arrays of before are made by one look-up and one launch of a graph, and only those; without a GPU."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile.arguments import described
from portatile.device.buffer import Buffer
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.runtime import perform
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.repeated.replayed import Replays
from support import fake_cuda
from support.fake_cuda import FakeDriver, Launched, Tensor, TensorGuards
from support.noted_calls import N, driver, named, square

__all__ = ["driver"]  # a fixture
pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

Product = Callable[[Any, Any, Any], Any]


def compiled() -> Product:
    product = portatile.compile("gemm", m=N, n=N, k=N, device="cuda:0")
    return lambda a, b, out: product(a, b, out=out)


PRODUCTS: dict[str, Callable[[], Product]] = {
    "matmul": lambda: lambda a, b, out: portatile.matmul(a, b, out=out),
    "gemm": lambda: lambda a, b, out: portatile.gemm(a, b, trans_a="T", alpha=float("2.5"), out=out),
    "compiled": compiled,
}


def described_calls(monkeypatch: pytest.MonkeyPatch, library: type[described.Library] = described.Torch) -> list[int]:
    """Notes each time that arrays are described."""
    notes: list[int] = []
    usual: Any = library.describe

    def describe(self: described.Library, arrays: Any, key: list[object]) -> Any:
        notes.append(len(arrays))
        return usual(self, arrays, key)

    monkeypatch.setattr(library, "describe", describe)
    return notes


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_very_arrays_of_before_are_looked_up(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Several sets of them by turns, of two shapes, each after a few calls; nothing is described any more."""
    product, sets = PRODUCTS[name](), [[square() for _ in range(3)] for _ in range(3)]
    if name == "matmul":
        sets.insert(1, [Tensor((N // 2, N)), square(), Tensor((N // 2, N))])
    once = []
    for given in sets:
        driver.log.clear()
        product(*given)
        once.append(named(driver.launched, *given))
    for _ in range(4):
        for given in sets:
            product(*given)
    notes = described_calls(monkeypatch)
    for given, launches in zip(sets * 3, once * 3, strict=True):
        driver.log.clear()
        assert product(*given) is given[2]
        assert named(driver.launched, *given) == launches
        assert driver.log[0] == ("cuGraphLaunch", 1)
    assert not notes


def test_what_differs_goes_the_long_way(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other shapes or strides at the same addresses, other factors, options and devices, an output that overlaps, gradients."""
    given = [square() for _ in range(3)]
    for _ in range(6):
        portatile.matmul(given[0], given[1], out=given[2])
    notes = described_calls(monkeypatch)
    at = [one.data_ptr() for one in given]
    transposed = Tensor((N, N), strides=(1, N), place=at[0])
    driver.log.clear()
    portatile.matmul(transposed, given[1], out=given[2])
    assert notes
    portatile.matmul(Tensor((N - 8, N), place=at[0]), given[1], out=Tensor((N - 8, N), place=at[2]))
    with pytest.raises(ArgumentError, match="must have shape"):
        portatile.matmul(Tensor((N - 8, N), place=at[0]), given[1], out=given[2])
    with pytest.raises(ArgumentError, match="overlaps a"):
        portatile.matmul(given[0], given[1], out=given[0])
    notes.clear()
    portatile.matmul(given[0], given[1], out=given[2], device="cuda:0")
    portatile.gemm(given[0], given[1], out=given[2], alpha=2.0)
    driver.log.clear()
    portatile.gemm(given[0], given[1], out=given[2], alpha=-0.0)
    portatile.gemm(given[0], given[1], out=given[2], alpha=0.0)
    assert any(struct.pack("f", -0.0) in launch.parameters for launch in driver.launched[:1])
    assert len(notes) >= 3


def test_new_results_where_earlier_ones_lay_are_known_too(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sets of arrays by turns; a result that lies elsewhere is computed the usual way, in the memory that was made for it."""
    sets, places = [[square() for _ in range(2)] for _ in range(2)], [1 << 45, 1 << 46]
    made: list[int] = []

    def new_empty(self: Tensor, shape: tuple[int, ...]) -> Tensor:
        made.append(places[0])
        return Tensor(shape, self._dtype.name, place=places[0])

    monkeypatch.setattr(Tensor, "new_empty", new_empty)
    usual = []
    for a, b in sets:
        driver.log.clear()
        out = portatile.matmul(a, b)
        usual.append(named(driver.launched, a, b, out))
    for _ in range(4):
        for a, b in sets:
            portatile.matmul(a, b)
    notes = described_calls(monkeypatch)
    made.clear()
    for turn in range(6):
        if turn == 4:
            places.reverse()
        (a, b), launches = sets[turn % 2], usual[turn % 2]
        driver.log.clear()
        out = portatile.matmul(a, b)
        assert out.data_ptr() == places[0] == made.pop()
        assert not made
        assert named(driver.launched, a, b, out) == launches
        assert (driver.log[0] == ("cuGraphLaunch", 1)) == (turn < 4)
    assert not notes
    portatile.matmul(Tensor((N - 8, N), place=sets[0][0].data_ptr()), sets[0][1])
    assert notes


def buffers() -> list[Buffer]:
    return [Buffer.empty((N, N), "float32", "cuda:0") for _ in range(3)]


def test_buffers_are_known_until_they_lie_otherwise(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an output that is given and by new ones; other views of the same memory, and what was released, are looked at again."""
    a, b, out = buffers()
    for _ in range(8):
        portatile.matmul(a, b, out=out)
        portatile.matmul(a, b)
    notes = described_calls(monkeypatch, described.Buffers)
    for call in (lambda: portatile.matmul(a, b, out=out), lambda: portatile.matmul(a, b)):
        driver.log.clear()
        assert call().shape == (N, N)
        assert [entry[0] for entry in driver.log if not isinstance(entry, Launched)] == ["cuGraphLaunch"]
    assert portatile.matmul(a.T.T, b[:], out=out) is out, "views of just this call too"
    assert not notes
    upper, driver.log[:] = a[: N // 2], []
    with pytest.raises(ArgumentError, match="must have shape"):
        portatile.matmul(upper, b, out=out)
    assert portatile.matmul(upper, b, out=out[: N // 2]).shape == (N // 2, N)
    assert portatile.matmul(a.T, b, out=out) is out
    with pytest.raises(ArgumentError, match="different libraries"):
        portatile.matmul(a, Tensor((N, N), place=b.memory.handle))
    assert len(notes) >= 3
    a.release()
    with pytest.raises(ArgumentError, match="was released"):
        portatile.matmul(a, b, out=out)
    again = buffers()[0]
    assert portatile.matmul(again, b, out=out) is out


@pytest.mark.parametrize("beginning", [4, 64])
def test_arrays_that_are_not_aligned_are_known_too(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, beginning: int) -> None:
    given = [Tensor((N, N), place=square().data_ptr() + beginning) for _ in range(3)]
    for _ in range(6):
        portatile.matmul(given[0], given[1], out=given[2])
    notes = described_calls(monkeypatch)
    assert portatile.matmul(given[0], given[1], out=given[2]) is given[2]
    assert not notes


def test_a_plan_with_a_workspace_is_known_until_the_workspace_is_another_one(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another library's stream an event stands behind it, for which the workspace's next user waits."""
    a, b, out = Tensor((64, 8192)), Tensor((8192, 64)), Tensor((64, 64))
    for _ in range(6):
        portatile.matmul(a, b, out=out)
    notes = described_calls(monkeypatch)
    driver.log.clear()
    portatile.matmul(a, b, out=out)
    assert [entry[0] for entry in driver.log if not isinstance(entry, Launched)] == ["cuGraphLaunch", "cuEventRecord"]
    assert not notes
    engine_of(devices.get("cuda:0")).free_workspaces()
    portatile.matmul(a, b, out=out)
    assert notes


def test_the_default_stream_of_each_thread_has_a_queue_for_each(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is the same in all threads, but streams and workspaces are not; so it tells no call apart."""
    engine = engine_of(devices.get("cuda:0"))
    own, others = engine.queue_of(2), []
    thread = threading.Thread(target=lambda: others.append(engine.queue_of(2)))
    thread.start()
    thread.join()
    assert engine.queue_of(2) is own
    assert others[0] is not own
    given = [square() for _ in range(3)]
    with fake_cuda.torch(2, monkeypatch):
        monkeypatch.setattr(described, "known", {})
        for _ in range(6):
            portatile.matmul(given[0], given[1], out=given[2])
        found: list[bool] = []
        run = Replays.run

        def noted(*asked: Any) -> bool:
            found.append(run(*asked))
            return found[-1]

        monkeypatch.setattr(Replays, "run", noted)
        portatile.matmul(given[0], given[1], out=given[2])
        assert found == [] or not any(found)
        assert driver.launched[-1].stream == 2


def test_gradients_that_would_be_lost_are_refused(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the same tensors were taken while none were recorded."""
    given = [square() for _ in range(3)]
    given[0].requires_grad = True
    with fake_cuda.torch(0, monkeypatch) as raw:
        for turn in range(8):
            raw.gradients = turn % 4 == 3
            if raw.gradients:
                with pytest.raises(ArgumentError, match="requires gradients"):
                    portatile.matmul(given[0], given[1], out=given[2])
            else:
                assert portatile.matmul(given[0], given[1], out=given[2]) is given[2]


def test_tensors_that_are_negated_lazily_are_copied(driver: FakeDriver) -> None:
    """Their memory holds other numbers, also when they come again; as outputs they are refused."""
    given = [square() for _ in range(3)]
    for _ in range(6):
        portatile.matmul(given[0], given[1], out=given[2])
    lazy = Tensor((N, N), place=given[0].data_ptr())
    lazy.lazy = True
    for _ in range(6):
        driver.log.clear()
        portatile.matmul(lazy, given[1], out=given[2])
        assert "array 0" not in {parameter for launch in named(driver.launched, *given) for parameter in launch.parameters}
    given[2].lazy = True
    with pytest.raises(ArgumentError, match="lazily conjugated"):
        portatile.matmul(given[0], given[1], out=given[2])


@pytest.mark.parametrize(
    ("made_for", "like", "unlike"),
    [("abb", ("oaa",), ("abo", "aob", "aaa")), ("aab", ("bbo",), ("abo", "aba")), ("aba", ("bab",), ("aab", "abb")),
     ("aaa", ("bbb",), ("aab", "baa", "abo")), ("aabb", ("bboo",), ("abab", "aabo", "aaaa"))],
)  # fmt: skip
def test_operands_that_are_one_tensor_have_to_be_one_again(driver: FakeDriver, made_for: str, like: Any, unlike: Any) -> None:
    tensors = {name: square() for name in "abo"}
    check = described.Torch(Tensor).checking([tensors[name] for name in made_for])
    assert check is not None
    for names in (made_for, *like, *unlike):
        assert check([tensors[name] for name in names]) == (names not in unlike)


class Array:
    """An array of CuPy's, as far as anybody looks at one."""

    def __init__(self, shape: tuple[int, ...], place: int) -> None:
        self.shape, self.strides, self.dtype = shape, (4 * shape[1], 4), np.dtype("float32")
        self.data = SimpleNamespace(ptr=place, device_id=0)


def test_arrays_of_cupy_are_known_by_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other shapes, places that are not aligned, and arrays of other libraries are not."""
    runtime = SimpleNamespace(getDeviceCount=lambda: 1)
    current = SimpleNamespace(ptr=7)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: current, runtime=runtime)))
    library = described.Cupy(Array)
    arrays = [Array((4, 8), 1 << 20), Array((8, 4), 1 << 21)]
    check = library.checking(arrays)
    assert check is not None
    guard = described.Guard(check, library.locate, 2)
    assert guard.places(arrays) == [1 << 20, 1 << 21]
    assert guard.places([arrays[0], Array((8, 4), 1 << 22)]) == [1 << 20, 1 << 22]
    for others in ([arrays[0], Array((8, 5), 1 << 22)], [arrays[0], Array((8, 4), (1 << 22) + 4)], arrays[:1], [*arrays, arrays[0]]):
        assert guard.places(others) is None
    for foreign in (np.ones((4, 8), np.float32), Tensor((4, 8)), object()):
        assert guard.places([foreign, foreign]) is None
    assert library.current_stream(arrays[0])() == library.stream(arrays[0]) == 7


def test_new_arrays_of_cupy_lie_on_the_device_of_the_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which need not be the current one; only a single device is always that."""
    current = []

    class Place:
        def __enter__(self) -> None:
            current.append(1)

        def __exit__(self, *ended: object) -> None:
            current.clear()

    class Made(Array):
        device = Place()

        def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
            super().__init__(shape, 1 + len(current))

    for count in (1, 2):
        runtime = SimpleNamespace(getDeviceCount=lambda: count)  # noqa: B023
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=None, runtime=runtime)))
        model = Made((4, 4), "float32")
        array, place = described.Cupy(Made).maker(model, None)(model)
        assert place == array.data.ptr == count


def test_new_tensors_are_made_directly_on_the_current_device_alone(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another device, and where memory is not contiguous or PyTorch lacks the function, by the operand's method."""
    module: Any = sys.modules["torch"]
    current = [0]
    made: list[tuple[object, ...]] = []

    def empty(*described: object) -> Tensor:
        made.append(described)
        return Tensor((N, N), place=1 << 40)

    class OnGpu(Tensor):
        is_cuda = True

        def is_contiguous(self) -> bool:
            return self._strides == (N, 1)

    assert described.Torch(Tensor).maker(square(), None)(square())[1] != 1 << 40
    monkeypatch.setattr(module._C._dynamo.guards, "_empty_strided_cuda", empty, raising=False)
    monkeypatch.setattr(module._C, "_cuda_getDevice", lambda: current[0], raising=False)
    model, transposed = OnGpu((N, N)), OnGpu((N, N), strides=(1, N))
    make = described.Torch(OnGpu).maker(model, None)
    assert make(model)[1] == 1 << 40
    assert made.pop() == ((N, N), (N, 1), "torch.float32")
    current[0] = 1
    assert make(model)[1] != 1 << 40
    current[0] = 0
    assert described.Torch(OnGpu).maker(transposed, None)(model)[1] != 1 << 40
    assert not made


def test_another_stream_and_another_context(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [square() for _ in range(3)]
    with fake_cuda.torch(4711, monkeypatch) as raw:
        monkeypatch.setattr(described, "known", {})
        for turn in range(18):
            raw.stream = (4711, 0, 4712)[turn % 3]
            driver.capturing = {4712} if turn >= 12 else set()
            driver.current = 78 if turn >= 15 else fake_cuda.CONTEXT
            driver.log.clear()
            portatile.matmul(given[0], given[1], out=given[2])
            assert [launch.stream for launch in driver.launched] == [raw.stream or 1]
            graph = any(entry[0] == "cuGraphLaunch" for entry in driver.log if not isinstance(entry, fake_cuda.Launched))
            assert graph == (turn >= 7 and not (turn >= 12 and raw.stream == 4712)), "a graph does not go into another"


def test_tensors_that_come_again_are_known_by_one_check(driver: FakeDriver) -> None:
    """And whatever differs from them goes the long way: sizes, strides, alignment, gradients, arguments that are one tensor."""
    given = [square() for _ in range(3)]
    for _ in range(12):
        portatile.matmul(given[0], given[1], out=given[2])
    before = TensorGuards.checks
    described_ways = named(driver.launched[:1], *given)
    for _ in range(3):
        given = [square() for _ in range(3)]
        driver.log.clear()
        assert portatile.matmul(given[0], given[1], out=given[2]) is given[2]
        assert named(driver.launched, *given) == described_ways
    assert TensorGuards.checks == before + 3, "the first of them looked for a guard"
    driver.log.clear()
    for tensor in (Tensor((N, N), strides=(1, N)), Tensor((N, N), place=(1 << 50) + 16), Tensor((N, 2 * N))):
        product = portatile.matmul(given[0], tensor)
        assert product.shape == (N, tensor.shape[1])
    assert portatile.matmul(given[0], given[0]).shape == (N, N)
    assert struct.pack("Q", (1 << 50) + 16) in {parameter[:8] for launch in driver.launched for parameter in launch.parameters}


def test_what_was_known_by_one_check_is_forgotten(driver: FakeDriver) -> None:
    """The launches of before a tuning, and of another device's life, are not taken again."""
    given = [square() for _ in range(3)]
    for _ in range(12):
        portatile.matmul(given[0], given[1], out=given[2])
    with pytest.raises(ArgumentError, match="the output overlaps a"):
        portatile.matmul(given[0], given[1], out=Tensor((N, N), place=given[0].data_ptr() + 512))
    before = TensorGuards.checks
    perform.forget()
    portatile.matmul(given[0], given[1], out=given[2])
    assert TensorGuards.checks == before
