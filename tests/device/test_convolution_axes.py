"""What a volume's filters take for each axis, SciPy's names of boundaries, how much device memory they need, other libraries' arrays."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from portatile import wavelets
from portatile.arguments import foreign
from portatile.device.base import Device, Memory, Queue
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.routines.convolve import convolve1d, convolve3d_separable, filter_bank1d
from portatile.routines.convolve_volumes import SeparableFilter
from portatile.runtime import perform, separable
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.one_device.memory_limit import memory_limit
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

SHAPE = (12, 9, 16)
MODES = {"wrap": "periodic", "grid-wrap": "periodic", "constant": "zero", "grid-constant": "zero"}
TAPS: tuple[tuple[float, ...], ...] = ((0.5, -1.0, 2.0), (1.0,), (0.25, 1.0, -0.5, 3.0, -2.0))


def close(got: NDArray[Any], expected: NDArray[Any]) -> bool:
    return got.shape == expected.shape and np.allclose(got, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def random(purpose: str, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(new_seed(purpose)).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("mode", MODES)
def test_boundaries_by_their_names_in_scipy(device: Device, mode: Any) -> None:
    """convolve1d turns the weights round; its window is centred as that of an odd filter from -2 to 2 is."""
    array, name = random(mode, *SHAPE), device.info.id
    taps = np.array(TAPS[2], np.float32)
    expected = ndimage.convolve1d(array.astype(np.float64), taps[::-1], axis=0, mode=mode)
    result = convolve1d(array, taps, lower=-2, boundary=mode, device=name)
    assert close(result, expected)
    assert np.array_equal(result, convolve1d(array, taps, lower=-2, boundary=MODES[mode], device=name))  # type: ignore[arg-type]
    for axis in (1, 2):
        expected = ndimage.convolve1d(expected, taps[::-1], axis=axis, mode=mode)
    assert close(convolve3d_separable(array, taps, lower=-2, boundary=mode, device=name), expected)
    pair = np.stack([taps[:4], taps[1:]])
    banked = filter_bank1d(array, pair, lower=-1, bank="analysis", boundary=mode, device=name)
    assert np.array_equal(banked, filter_bank1d(array, pair, lower=-1, bank="analysis", boundary=MODES[mode], device=name))  # type: ignore[arg-type]
    if MODES[mode] == "periodic":
        values = wavelets.synthesis(array, boundary=mode, device=name)
        assert np.array_equal(values, wavelets.synthesis(array, device=name))


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("kinds", ["any", "same two"])
@pytest.mark.parametrize("on_device", [False, True])
def test_a_filter_for_each_axis(device: Device, monkeypatch: pytest.MonkeyPatch, kinds: str, on_device: bool) -> None:
    """Of different lengths and first places; where the first two are alike, as a GPU takes them, in one launch."""
    monkeypatch.setattr(separable, "_KINDS", (device.info.kind,))
    perform.forget()
    taps = TAPS if kinds == "any" else (TAPS[2], list(TAPS[2]), TAPS[0])
    lower = (-1, 0, -3) if kinds == "any" else (-2, -2, 1)
    boundaries: Any = ("constant", "periodic", "grow")
    array = random(kinds, 12, 64, 7)
    rows = tuple(np.array([row]) for row in taps)
    volume = SeparableFilter.of(rows, lower, "single", boundaries).volume(array)
    assert volume is not None
    assert len(separable.between(volume, device.info)) == (2 if kinds == "any" else 1)
    expected: Any = array
    for row, first, kind in zip(taps, lower, boundaries, strict=True):
        expected = convolve1d(expected, row, lower=first, boundary=kind, transposed=True, device=device.info.id)
    given: Any = Buffer.from_numpy(array, device) if on_device else array
    result: Any = convolve3d_separable(given, taps, lower=lower, boundary=boundaries, device=device.info.id)
    assert close(result.numpy() if on_device else result, expected)
    one = convolve3d_separable(array, TAPS[0], lower=-1, device=device.info.id)
    assert np.array_equal(convolve3d_separable(array, np.array([TAPS[0]] * 3), lower=np.array([-1] * 3), device=device.info.id), one)
    perform.forget()


def test_filters_alike_are_one_operand(device: Device) -> None:
    """So a call with one filter for all axes and one with three equal ones run the same plan."""
    alike = SeparableFilter.of(tuple(np.ones((1, 3)) for _ in range(3)), -1, "single", "periodic")
    assert [axis.name for axis in alike.axes] == ["filter"] * 3
    mixed = SeparableFilter.of((np.ones((1, 3)), np.zeros((1, 3)), np.ones((1, 3))), (0, 1, 2), "single", ("zero", "wrap", "grow"))
    assert [(axis.name, axis.lower, axis.boundary) for axis in mixed.axes] == [
        ("filter", 0, "zero"),
        ("filter1", 1, "periodic"),
        ("filter", 2, "grow"),
    ]


def test_numpy_results_go_where_they_are_wanted() -> None:
    psi = np.random.default_rng(3).random((4, 4, 4), np.float32)
    expected = convolve3d_separable(psi, [1.0, 0.5], lower=0)
    gaps = np.zeros((4, 4, 8), np.float32)
    for out in (np.empty_like(psi), gaps[..., ::2], psi):  # the last one in place
        assert convolve3d_separable(psi, [1.0, 0.5], lower=0, out=out) is out
        assert np.array_equal(out, expected)
    assert not gaps[..., 1::2].any()


class OutOfReach:
    """An array that refuses to be copied to the host, as PyTorch's of a GPU do."""

    def __array__(self, *asked: Any, **options: Any) -> Any:
        raise TypeError("not on the host")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: convolve1d(x, [1.0], lower=0, boundary="mirror"), "numpy.pad"),
        (lambda x: convolve1d(x, [1.0], lower=0, boundary="reflect"), "grid-wrap.*constant"),
        (lambda x: convolve1d(x, [1.0], lower=0, boundary=None), "boundary=None"),
        (lambda x: convolve3d_separable(x, [1.0], lower=0, boundary=("zero", "nearest", "zero")), "boundary='nearest'"),
        (lambda x: convolve3d_separable(x, [[1.0], [2.0]], lower=0), "2 filters for 3 axes"),
        (lambda x: convolve3d_separable(x, np.ones((4, 2)), lower=0), "4 filters for 3 axes"),
        (lambda x: convolve3d_separable(x, ([1.0], [[1.0]], [1.0]), lower=0), "one-dimensional"),
        (lambda x: convolve3d_separable(x, ([1.0], ["a"], [1.0]), lower=0), "real numbers"),
        (lambda x: convolve3d_separable(x, ([1.0], 2.0, [1.0]), lower=0), "one-dimensional"),
        (lambda x: convolve3d_separable(x, "abc", lower=0), "real numbers"),
        (lambda x: convolve3d_separable(x, [1.0], lower=(0, 0)), "2 values of lower"),
        (lambda x: convolve3d_separable(x, [1.0], lower=(0, 0, 99)), "lower=99"),
        (lambda x: convolve3d_separable(x, [1.0], lower="low"), "lower='low'"),
        (lambda x: convolve3d_separable(x, ([1.0], [], [1.0]), lower=0), "0 taps"),
        (lambda x: convolve3d_separable(x, [1.0], lower=0, out=Buffer.from_numpy(x)), "can only go to another such array"),
        (lambda x: convolve3d_separable(x, [1.0], lower=0, out=x[1:]), r"the result has shape \(4, 4, 4\)"),
        (lambda x: convolve3d_separable(x, [1.0], lower=0, out=np.broadcast_to(x, x.shape)), "read-only"),
        (lambda x: convolve3d_separable(x, [1.0], lower=0, out=memoryview(x)), "out is a memoryview"),
        (lambda x: convolve3d_separable(memoryview(x), [1.0], lower=0), "not a memoryview"),  # type: ignore[type-var]
        (lambda x: convolve3d_separable(Buffer.from_numpy(x)[::-1], [1.0], lower=0), "not C-contiguous"),
        (lambda x: convolve1d(x, OutOfReach(), lower=0), "taps is a OutOfReach, which NumPy cannot read: not on the host"),
        (lambda x: convolve3d_separable(x, OutOfReach(), lower=0), "OutOfReach"),
    ],
)
def test_mistakes_are_told(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(np.ones((4, 4, 4), np.float32))


class Ledger:
    """The memory that a device has given and not yet been given back, and the most of it since ``begin``."""

    def __init__(self, allocate: Callable[[int], Memory]) -> None:
        self._allocate = allocate
        self._held: WeakSet[Memory] = WeakSet()
        self.most = 0

    def allocate(self, nbytes: int) -> Memory:
        memory = self._allocate(nbytes)
        self._held.add(memory)
        self.most = max(self.most, sum(one.nbytes for one in self._held if one.handle is not None))
        return memory

    def begin(self) -> None:
        perform.forget()
        gc.collect()
        self.most = 0


@pytest.fixture
def ledger(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The device as if its memory were its own, with a record of what is taken."""
    result = Ledger(device.allocate)
    monkeypatch.setattr(device, "info", replace(device.info, unified_memory=False))
    monkeypatch.setattr(device, "share", lambda array: None)
    monkeypatch.setattr(device, "allocate", result.allocate)
    perform.forget()
    yield result
    perform.forget()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_volume_keeps_to_the_limit(device: Device, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """In one plan where operands and what lies between fit, pass by pass where two arrays do, in slabs where not even they do."""
    monkeypatch.setattr(separable, "_KINDS", (device.info.kind,) if at_once else ())
    array = random("limit", 64, 64, 64)
    name, many = device.info.id, 3 if at_once else 4
    whole = wavelets.magicfilter3d(array, device=name)
    spare = 4096  # the filter
    for limit, most in ((many + 0.1, many), (many - 0.1, 2), (2.1, 2), (1.5, 1.5)):
        ledger.begin()
        with memory_limit(int(limit * array.nbytes)):
            result = wavelets.magicfilter3d(array, device=name)
        assert array.nbytes < ledger.most <= most * array.nbytes + spare, f"{limit}"
        assert close(result, whole)


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("volumes", [9.2, 3.6, 1.7])
def test_orbitals_keep_to_the_limit(device: Device, ledger: Ledger, volumes: float, two: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch takes no more than one orbital at a time does; one that grows takes a multiple of its size. With ``two`` axes at once,
    as a GPU takes them, what one plan keeps between calls is not the next one's.
    """
    monkeypatch.setattr(separable, "_KINDS", (device.info.kind,) if two else ())
    boundary: Any = "grow"
    psi, name = random("batch", 12, 16, 16, 16), device.info.id
    values = wavelets.magicfilter3d(psi, boundary=boundary, device=name)
    potential = random("potential", *values.shape[1:])
    calls: list[Callable[[], Any]] = [
        lambda: wavelets.apply_potential(psi, potential, boundary=boundary, device=name),
        lambda: wavelets.density(psi, boundary=boundary, device=name),
        lambda: wavelets.kinetic(psi, device=name),
        lambda: wavelets.synthesis3d(wavelets.analysis3d(psi, boundary=boundary, device=name), boundary="shrink", device=name),
    ]
    for place, call in enumerate(calls):
        perform.forget()
        expected = call()
        ledger.begin()
        limit = int(volumes * values[0].nbytes)
        with memory_limit(limit):
            result = call()
        assert 0 < ledger.most <= limit, f"call {place}"
        assert close(result, expected)


class ForeignArray:
    """Another library's array, as far as these routines look at one: it says where it lies, and makes others like itself."""

    def __init__(self, there: Buffer) -> None:
        self.there = there
        self.shape, self.dtype, self.ndim = there.shape, there.dtype, there.ndim

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"stream": 7}

    def new_empty(self, shape: tuple[int, ...]) -> ForeignArray:
        return ForeignArray(Buffer.empty(shape, self.dtype, self.there.device))

    def __getitem__(self, key: Any) -> ForeignArray:
        return ForeignArray(self.there[key])


@pytest.fixture
def streams(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The streams that work was queued on or ordered in, with Guests for CUDA arrays on any device."""
    used: list[int] = []

    def foreign_queue(stream: int) -> Queue:
        used.append(stream)
        return device.queue()

    wrap = Buffer.wrap
    monkeypatch.setattr(Buffer, "wrap", lambda array: array.there if isinstance(array, ForeignArray) else wrap(array))
    monkeypatch.setattr(device, "foreign_queue", foreign_queue)
    monkeypatch.setattr(engine_of(device), "_streams", {})
    return used


CALLS: dict[str, Callable[..., Any]] = {
    "convolve": lambda x, _: convolve3d_separable(x[0], TAPS, lower=-1, boundary=("grow", "zero", "wrap")),
    "magic filter": lambda x, _: wavelets.magicfilter3d(x, boundary="grow"),
    "analysis": lambda x, _: wavelets.analysis3d(x[0], boundary=("periodic", "grow", "periodic")),
    "synthesis": lambda x, _: wavelets.synthesis3d(x),
    "kinetic": lambda x, _: wavelets.kinetic(x, spacing=0.5),
    "kinetic of a plane": lambda x, _: wavelets.kinetic(x[0][0], boundary="zero"),
    "potential": lambda x, v: wavelets.apply_potential(x, v),
    "energy": lambda x, v: wavelets.potential_energy(x, v),
    "density": lambda x, _: wavelets.density(x),
    "nothing": lambda x, _: convolve3d_separable(x[0][:0], [1.0], lower=0),
}


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("case", CALLS)
def test_arrays_of_other_libraries(device: Device, streams: list[int], case: str) -> None:
    """On their own stream, and the result is one of them, with the values that Buffers give."""
    psi, potential = random(case, 2, 12, 10, 16), random("potential", 12, 10, 16)
    there = [Buffer.from_numpy(array, device) for array in (psi, potential)]
    expected = CALLS[case](*there)
    assert not streams
    result = CALLS[case](*map(ForeignArray, there))
    assert streams
    assert set(streams) == {7}
    if case == "energy":
        assert np.array_equal(result, expected)
        return
    assert isinstance(result, ForeignArray)
    for queue in engine_of(device)._streams.values():
        queue.finish()
    assert np.array_equal(result.there.numpy(), expected.numpy())


def test_into_another_librarys_array(device: Device, streams: list[int]) -> None:
    array = random("out", *SHAPE)
    there, out = ForeignArray(Buffer.from_numpy(array, device)), ForeignArray(Buffer.empty(SHAPE, "float32", device))
    assert wavelets.magicfilter3d(there, out=out) is out  # type: ignore[type-var]
    engine_of(device).queue_of(7).finish()
    assert np.array_equal(out.there.numpy(), wavelets.magicfilter3d(there.there).numpy())
    with pytest.raises(ArgumentError, match="the result is a C-contiguous"):
        wavelets.magicfilter3d(there, out=there[:4])
    with pytest.raises(ArgumentError, match="lower=64"):
        convolve3d_separable(there, [1.0], lower=64)
    with pytest.raises(ArgumentError, match="dtype"):
        convolve3d_separable(ForeignArray(Buffer.empty(SHAPE, "int32", device)), [1.0], lower=0)


def test_the_order_of_a_guests_stream(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default queue waits for the stream's work, and the stream, whatever happens in between, for the queue's."""
    waits: list[str] = []
    queue, stream = device.default_queue(), device.queue()
    for name, one in (("queue", queue), ("stream", stream)):
        monkeypatch.setattr(one, "wait_for", lambda event, name=name: waits.append(name))
    monkeypatch.setattr(device, "foreign_queue", lambda number: stream)
    monkeypatch.setattr(Buffer, "wrap", lambda array: array.there)
    foreign_array = ForeignArray(Buffer.empty((1,), "float32", device))

    def fail() -> None:
        with foreign.ordered(foreign_array):
            waits.append("work")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert waits == ["queue", "work", "stream"]


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_cuda_arrays_stay_where_they_are(device: Device, library: str) -> None:
    """On a stream of its own a library sees what came before and what comes after in order."""
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    module = pytest.importorskip(library)
    host, potential = random(library, 2, 32, 32, 32), random("potential", 32, 32, 32)
    stream = module.cuda.Stream() if library == "torch" else module.cuda.Stream(non_blocking=True)
    results: dict[str, Any] = {}
    with module.cuda.stream(stream) if library == "torch" else stream:
        make = (lambda array: module.from_numpy(array).cuda()) if library == "torch" else module.asarray
        x, v = make(host) * 2, make(potential) * 2
        for name, call in CALLS.items():
            result = call(x, v)
            results[name] = result if name == "energy" else result * 2
            assert name == "energy" or type(result) is type(x)
        stream.synchronize()
    for name, call in CALLS.items():
        expected = call(2 * host, 2 * potential)
        result = results[name]
        plain = result if name == "energy" else (result.cpu().numpy() if library == "torch" else module.asnumpy(result)) / 2
        assert plain.shape == expected.shape
        assert np.allclose(plain, expected, rtol=0, atol=1e-4 * max(np.abs(expected).max(initial=0), 1)), name
