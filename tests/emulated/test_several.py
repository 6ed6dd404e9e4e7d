"""One product over two GPUs on whose memories the operands lie: the driver copies between them, past the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import portatile
from portatile import Buffer, device, wavelets
from portatile.device import page_locked, staging
from portatile.device.base import Device
from portatile.device.cuda import packed
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import driver as cuda
from portatile.device.cuda.queue import CudaQueue
from portatile.device.strides import CopiedRows
from portatile.errors import DeviceError
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.several_devices import at_once, forecast, ready_parts, tries
from portatile.runtime.several_devices.device_threads import Part, together
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.splits import Share
from portatile.wavelets import flow, over_devices
from support.compiling import Interpreted
from support.cuda_driver import EmulatedDriver


@pytest.fixture
def pair(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    other = device.get("cuda:1")
    other.target = Interpreted(other.info.architecture)
    monkeypatch.setattr(forecast, "_quickest", lambda together, alone: "")
    monkeypatch.setattr(tries, "may_be_disturbed", lambda *times: False)  # nor is one of them timed alone once more
    monkeypatch.setattr(forecast, "_LITTLE", 0.0)
    monkeypatch.setattr(Pieces, "_late", lambda pieces, device: False)
    monkeypatch.setattr(over_devices, "_settled", {})
    return [gpu, other]


def drawn(*shape: int) -> Any:
    return (np.random.default_rng(sum(shape)).random(shape) - 0.5).astype(np.float32)


def test_what_lies_elsewhere_is_copied_by_the_driver(pair: list[Device], driver: EmulatedDriver) -> None:
    a, b = drawn(4, 3), drawn(3, 5)
    there = Buffer.from_numpy(a, pair[1]), Buffer.from_numpy(b, pair[0])
    before = driver.count("peer_copies")
    result = portatile.matmul(*there, device=[one.info.id for one in pair])
    assert result.device is pair[1]
    np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-5, atol=1e-6)
    assert driver.count("peer_copies") > before
    assert there[0].to_device(pair[0]).device is pair[0]


def test_rows_that_lie_apart_are_copied_at_once(pair: list[Device]) -> None:
    source, target = Buffer.from_numpy(drawn(4, 6), pair[0]), Buffer.from_numpy(np.zeros((4, 3), np.float32), pair[0])
    queue = pair[0].default_queue()
    queue.copy_rows(target.memory, source.memory, CopiedRows(4, 12, 0, 12, 8, 24))
    np.testing.assert_array_equal(target.numpy(), drawn(4, 6)[:, 2:5])


class Tensor:
    """An array of another library on a GPU, which makes views and results beside it as PyTorch's do."""

    def __init__(self, kept: Buffer) -> None:
        self.kept = kept
        self.shape, self.dtype, self.ndim = kept.shape, kept.dtype, len(kept.shape)
        self.__cuda_array_interface__ = {**kept.__cuda_array_interface__, "stream": 1}

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(Buffer.empty(shape, self.dtype, self.kept.device))

    def reshape(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(self.kept.reshape(shape))

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.kept[key])


def product(where: Callable[[Any], Any], device: Any) -> Any:
    return portatile.matmul(where(drawn(4, 3)), where(drawn(3, 5)), device=device)


def lines(where: Callable[[Any], Any], device: Any) -> Any:
    return portatile.convolve1d(where(drawn(3, 4)), [0.25, 0.75], lower=0, transposed=True, device=device)


def potential(where: Callable[[Any], Any], device: Any) -> Any:
    return portatile.coulomb_potential(where(drawn(3, 4)), (4, 5), 0.3, device=device)


def sums(where: Callable[[Any], Any], device: Any) -> Any:
    return portatile.mri_q(*(where(drawn(3)) for _ in range(5)), *(where(drawn(6)) for _ in range(3)), device=device)[1]


def orbitals(where: Callable[[Any], Any], device: Any) -> Any:
    psi = where(drawn(2, 2, 2, 2))
    return wavelets.kinetic(psi, device=device)


@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize("case", [product, lines, potential, sums, orbitals], ids=lambda case: case.__name__)
def test_other_libraries_arrays(pair: list[Device], case: Callable[[Callable[[Any], Any], Any], Any]) -> None:
    """They lie on both GPUs by turns; the result is the library's, on the GPU of the first."""
    places = iter(range(100))

    def there(values: Any) -> Tensor:
        return Tensor(Buffer.from_numpy(values, pair[1 - next(places) % 2]))

    expected = case(lambda values: Buffer.from_numpy(values, pair[0]), None)
    result = case(there, [one.info.id for one in pair])
    assert isinstance(result, Tensor)
    assert result.kept.device in pair
    np.testing.assert_allclose(result.kept.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_orbitals_on_the_host_are_sent_and_fetched_by_turns(pair: list[Device]) -> None:
    """While one is computed the next is sent; every result lies at its place, also where two GPUs share the batch."""
    psi = drawn(2, 2, 2, 2)
    expected = [wavelets.kinetic(Buffer.from_numpy(one, pair[0])).numpy() for one in psi]
    for chosen in ("cuda:0", [one.info.id for one in pair]):
        np.testing.assert_array_equal(wavelets.kinetic(psi, device=chosen), expected)


def test_locked_orbitals_are_fed_by_one_thread(pair: list[Device], driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the results are locked too: nobody waits for a device while another has nothing to do. A device that fails leaves its orbitals
    to the other, and what it still had under way is over before those are computed. A result of another shape is made anew.
    """
    monkeypatch.setattr(page_locked, "_LEAST", 1)
    monkeypatch.setattr(page_locked, "_DROPPED", 1)
    monkeypatch.setattr(forecast, "_TINY", 0.0)
    monkeypatch.setattr(over_devices, "_results", {})
    psi, ids = drawn(3, 2, 2, 2).astype(np.float64), [one.info.id for one in pair]
    expected = np.array(wavelets.magicfilter3d(psi, device=ids[0]))
    fed: list[list[str]] = []
    usual = over_devices.in_turn
    monkeypatch.setattr(over_devices, "in_turn", lambda members, pieces: (fed.append([]), usual(members, pieces))[1])
    through = flow.DevicePipeline.through

    def noted(self: flow.DevicePipeline, orbitals: Any, *rest: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            fed[-1].append(self._device.info.id)
        through(self, orbitals, *rest)

    monkeypatch.setattr(flow.DevicePipeline, "through", noted)
    try:
        assert page_locked.locked._locked(pair[0], psi) is not None
        with monkeypatch.context() as warming:
            warming.setattr(driver, "runs", False)
            for _ in range(3):  # results that are dropped, after which they are locked
                wavelets.magicfilter3d(psi, device=ids)
        fed.clear()
        np.testing.assert_array_equal(wavelets.magicfilter3d(psi, device=ids), expected)
        assert fed
        assert fed[-1][:2] == ids, "each is given something before one is given more"

        def failing(self: flow.DevicePipeline, orbitals: Any, *rest: Any) -> None:
            if self._device is pair[0] and self.sent:
                raise DeviceError("it fell off the bus")
            through(self, orbitals, *rest)

        with monkeypatch.context() as broken:
            broken.setattr(flow.DevicePipeline, "through", failing)
            with pytest.warns(RuntimeWarning, match="cuda:0 failed .it fell off the bus.; the other devices computed its part"):
                np.testing.assert_array_equal(wavelets.magicfilter3d(psi, device=ids), expected)
        ((batch, _),) = over_devices._results.items()
        over_devices._results[batch] = (3, 2, 3, 2), np.dtype(np.float64)  # as if the latest had had other boundaries
        np.testing.assert_array_equal(wavelets.magicfilter3d(psi, device=ids), expected)
    finally:
        page_locked.locked.forget()


def test_what_all_need_whole_crosses_the_link_once(pair: list[Device], driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second GPU takes it from the first; where a driver does not copy, from the host too."""
    monkeypatch.setattr(staging, "worthwhile", lambda device, array: array.nbytes > 0)
    monkeypatch.setattr(staging, "_BLOCK", 64)
    monkeypatch.setattr(forecast, "_TINY", 0)
    a, b = drawn(8, 3), drawn(3, 5)
    ids = [one.info.id for one in pair]
    before = driver.count("peer_copies")
    np.testing.assert_allclose(portatile.matmul(a, b, device=ids), a @ b, rtol=1e-5, atol=1e-6)
    assert driver.count("peer_copies") == before + 1

    def fails(*copy: Any) -> bool:
        raise DeviceError("no way between them")

    monkeypatch.setattr(CudaQueue, "receive", fails)
    np.testing.assert_allclose(portatile.matmul(a, b, device=ids), a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("at_once_from", [0.0, 10.0], ids=["in pieces", "a part each"])
def test_columns_of_locked_matrices_are_copied_by_the_driver(
    pair: list[Device], driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, at_once_from: float
) -> None:
    """A product with more columns than rows is cut between columns: those of B are sent, and those of C come, without being gathered."""
    monkeypatch.setattr(page_locked, "_LEAST", 1)
    monkeypatch.setattr(page_locked, "_ROW", 4)
    monkeypatch.setattr(forecast, "_TINY", 0)
    monkeypatch.setattr(at_once, "_SHORT", at_once_from)
    monkeypatch.setattr(ready_parts, "_SMALL", 1)
    gathered: list[tuple[int, ...]] = []
    usual = staging.copied
    monkeypatch.setattr(staging, "copied", lambda target, source, *most: (gathered.append(source.shape), usual(target, source, *most)))
    a, b, out, ids = drawn(3, 4), drawn(4, 320), np.empty((3, 320), np.float32), [one.info.id for one in pair]
    try:
        for array in (a, b, out):
            assert page_locked.locked._locked(pair[0], array) is not None
        copies = CudaQueue.send_rows, CudaQueue.fetch_rows
        made: list[tuple[int, ...]] = []
        for name, copy in zip(("send_rows", "fetch_rows"), copies, strict=True):
            monkeypatch.setattr(CudaQueue, name, noting(made, copy))
        for _ in range(3):
            out[:] = np.nan
            made.clear()
            portatile.matmul(a, b, out=out, device=ids)
            np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)
            assert {shape[0] for shape in made} == {3, 4}, "of B and of C"
        assert not gathered
    finally:
        page_locked.locked.forget()


def noting(made: list[tuple[int, ...]], copy: Callable[..., None]) -> Callable[..., None]:
    def noted(self: CudaQueue, *ends: Any) -> None:
        made.append(next(end.shape for end in ends if isinstance(end, np.ndarray)))
        copy(self, *ends)

    return noted


@pytest.mark.parametrize("on_device", [False, True])
def test_gpus_open_their_memory_before_anything_travels(pair: list[Device], on_device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each to the other, once, by the caller's thread: the mapping of memory must not change under copies of the devices' threads."""
    monkeypatch.setattr(forecast, "_TINY", 0)
    opened: list[tuple[Device, str]] = []
    usual = CudaContext._open

    def noted(context: CudaContext, other: CudaContext) -> None:
        opened.append((context, threading.current_thread().name))
        usual(context, other)

    monkeypatch.setattr(CudaContext, "_open", noted)
    for one in pair:
        monkeypatch.setattr(one, "_open_to", WeakKeyDictionary())
    operands = [Buffer.from_numpy(drawn(*shape), pair[1]) if on_device else drawn(*shape) for shape in ((8, 3), (3, 5))]
    for _ in range(2):
        portatile.matmul(*operands, device=[one.info.id for one in pair])
    assert opened == [(pair[0], "MainThread"), (pair[1], "MainThread")]
    pair[1].release()
    pair[0].open_to(pair[1])
    assert len(opened) == 3, "its context is another one"


def assert_taken(piece: tuple[int, int] | None) -> None:
    assert piece is not None


def test_memory_is_opened_while_no_other_thread_computes(pair: list[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has begun on either device goes first."""
    for one in pair:
        monkeypatch.setattr(one, "_open_to", WeakKeyDictionary())
    order, computes, asked = list[str](), threading.Event(), threading.Event()
    usual, is_open_to = CudaContext._open, CudaContext.is_open_to
    monkeypatch.setattr(CudaContext, "is_open_to", lambda context, other: (asked.set(), is_open_to(context, other))[1])
    monkeypatch.setattr(CudaContext, "_open", lambda context, other: (order.append("opened"), usual(context, other)))

    def compute() -> None:
        with engine_of(pair[1]).lock:
            computes.set()
            asked.wait(10)
            time.sleep(0.1)
            order.append("computed")

    thread = threading.Thread(target=compute)
    thread.start()
    computes.wait(10)
    part = Part(Share("one"), lambda pieces: assert_taken(pieces.take("one", 1)))
    together([part], Pieces(1, 1, {"one": 1.0}), pair)
    thread.join()
    assert order == ["computed", "opened", "opened"]


def test_launches_that_come_again_are_a_graph_on_each_device(
    pair: list[Device], driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the thread last used another device. Only the last launches are run."""
    replayed: list[int] = []
    usual = packed.driver.cuGraphLaunch
    monkeypatch.setattr(packed.driver, "cuGraphLaunch", lambda graph, stream: (replayed.append(int(stream)), usual(graph, stream))[1])
    orbitals = [Buffer.from_numpy(drawn(1, 2, 3, 4).astype(np.float64), device) for device in pair]
    with monkeypatch.context() as noted:
        noted.setattr(driver, "runs", False)
        for _ in range(6):
            for one in orbitals:
                wavelets.magicfilter3d(one)
    streams = [int(device.default_queue().stream) for device in pair]  # type: ignore[attr-defined]
    counts = [replayed.count(stream) for stream in streams]
    assert min(counts) > 0
    for one in orbitals:
        np.testing.assert_array_equal(wavelets.magicfilter3d(one).numpy(), wavelets.magicfilter3d(orbitals[0]).numpy())


def test_calls_by_turns_on_two_gpus_are_graphs(pair: list[Device], driver: EmulatedDriver) -> None:
    """One launch of a graph for each call, of a batch too, with the context that the thread had before and after it."""
    batches = [Buffer.from_numpy(drawn(3, 4, 4, 4), one) for one in pair]
    driver.runs = False
    try:
        for _ in range(6):
            kept = [wavelets.kinetic(batch) for batch in batches]
        with pair[0].current():  # type: ignore[attr-defined]
            here = int(cuda.cuCtxGetCurrent()[1])
            graphs, launches = driver.count("graphs"), driver.count("launches")
            for _ in range(2):
                kept = [wavelets.kinetic(batch) for batch in batches]
                assert int(cuda.cuCtxGetCurrent()[1]) == here
            assert driver.count("graphs") - graphs == 4
            assert driver.count("launches") == launches, "no launch was alone"
        for one in kept:
            one.device.default_queue().finish()
    finally:
        driver.runs = True
