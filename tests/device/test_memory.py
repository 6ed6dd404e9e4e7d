"""Memory on every device: copies, fills, background copies, arrays shared with the host, views, and what does not fit."""

from __future__ import annotations

import gc
import mmap
import weakref

import numpy as np
import pytest

import portatile
from portatile.device.base import Device, Queue
from portatile.device.buffer import Buffer
from portatile.device.module import Module
from portatile.device.opencl import host_buffers
from portatile.errors import ArgumentError, DeviceError

SEED = 20


def test_info_is_complete(device: Device) -> None:
    info = device.info
    assert info.id.startswith(info.backend)
    assert info.name
    assert info.physical_id
    assert info.architecture
    assert info.compiler
    assert min(info.compute_units, info.max_work_group_size, *info.max_work_item_sizes) > 0
    assert 0 < info.local_memory < info.max_allocation <= info.global_memory
    assert (min(info.image_2d_max) > 0) == info.images


@pytest.mark.parametrize("count", [1, 7, 1021, 100_003])
def test_copies_return_what_was_sent(device: Device, queue: Queue, count: int) -> None:
    data = np.random.default_rng(SEED).integers(0, 256, count, np.uint8)
    with device.allocate(count + 8) as one, device.allocate(count + 8) as other:
        queue.fill(one, b"\xab")
        queue.upload(one, data, offset=4)
        queue.copy(other, one, count + 8)
        result = np.zeros(count + 8, np.uint8)
        queue.download(result, other)
    assert (result[4:-4] == data).all()
    assert (result[:4] == 0xAB).all()
    assert (result[-4:] == 0xAB).all()


def test_copy_takes_offsets(device: Device, queue: Queue) -> None:
    data = np.arange(100, dtype=np.int32)
    with device.allocate(400) as one, device.allocate(400) as other:
        queue.upload(one, data)
        queue.fill(other, bytes(4))
        queue.copy(other, one, 40, target_offset=80, source_offset=200)
        result = np.empty(100, np.int32)
        queue.download(result, other)
    assert result[20:30].tolist() == data[50:60].tolist()
    assert np.count_nonzero(result) == 10


@pytest.mark.parametrize("pattern", [b"\x5a", b"\x01\x02", b"\x01\x02\x03\x04"])
def test_fill_repeats_its_pattern(device: Device, queue: Queue, pattern: bytes) -> None:
    with device.allocate(64) as memory:
        queue.fill(memory, b"\0")
        queue.fill(memory, pattern, 8, 32)
        result = np.empty(64, np.uint8)
        queue.download(result, memory)
    assert result.tobytes() == bytes(8) + pattern * (32 // len(pattern)) + bytes(24)


def test_bad_copies_raise(device: Device, queue: Queue) -> None:
    with device.allocate(64) as memory:
        with pytest.raises(ArgumentError, match="are not within memory"):
            queue.upload(memory, np.zeros(65, np.uint8))
        with pytest.raises(ArgumentError, match="are not within memory"):
            queue.download(np.zeros(64, np.uint8), memory, offset=1)
        with pytest.raises(ArgumentError, match="not C-contiguous"):
            queue.upload(memory, np.zeros((4, 4), np.uint8).T[:, ::2])
        with pytest.raises(ArgumentError, match="does not fill"):
            queue.fill(memory, b"\1\2\3")
        memory.release()
        with pytest.raises(ArgumentError, match="released"):
            queue.upload(memory, np.zeros(4, np.uint8))


def test_empty_copies_do_nothing(device: Device, queue: Queue) -> None:
    with device.allocate(0) as memory:
        assert memory.nbytes == 0
        queue.upload(memory, np.empty(0, np.float32))
        queue.download(np.empty(0, np.float32), memory)
        queue.fill(memory, b"\0")


def test_copies_in_the_background(device: Device, module: Module, queue: Queue) -> None:
    count = 10_007
    source, target = device.pinned(4 * count).view(np.int32), device.pinned(4 * count).view(np.int32)
    source[:] = np.arange(count)
    target[:] = -1
    with device.allocate(4 * count) as memory:
        queue.upload(memory, source, blocking=False)
        queue.launch(module.kernel("increment"), (count, 1, 1), (1, 1, 1), [memory])
        event = queue.download(target, memory, blocking=False)
        event.wait()
        assert event.done
    assert (target == source + 1).all()


def test_background_copies_keep_their_array(device: Device, queue: Queue) -> None:
    with device.allocate(1 << 20) as memory:
        for value in range(8):
            queue.upload(memory, np.full(1 << 20, value, np.uint8), blocking=False)
        result = np.empty(1 << 20, np.uint8)
        queue.download(result, memory)
    assert (result == 7).all()


def test_shared_array_is_the_devices_memory(device: Device, module: Module, queue: Queue) -> None:
    array = np.arange(1000, dtype=np.int32)
    memory = device.share(array)
    if memory is None:
        assert not (device.info.unified_memory and device.info.platform == "Portable Computing Language")
        pytest.skip(f"{device.info.id} does not reach host arrays")
    with memory:
        queue.launch(module.kernel("increment"), (1000, 1, 1), (10, 1, 1), [memory])
        queue.download(array, memory)
    assert (array == np.arange(1, 1001)).all()
    array.flags.writeable = False
    frozen = device.share(array)
    assert frozen is not None
    with frozen, device.allocate(array.nbytes) as copy:
        queue.copy(copy, frozen, array.nbytes)
        result = np.empty_like(array)
        queue.download(result, copy)
    assert (result == array).all()
    assert device.share(np.empty(0)) is None
    assert device.share(np.zeros((4, 4)).T[1:]) is None


def test_an_array_that_comes_again_is_borrowed(device: Device, module: Module, queue: Queue) -> None:
    array = np.arange(1000, dtype=np.int32)
    memory = device.borrow(array) or device.borrow(array)
    if memory is None:
        assert not (device.info.kind == "cpu" and device.info.platform == "Portable Computing Language")
        pytest.skip(f"{device.info.id} keeps nothing of host arrays")
    assert device.borrow(array[:]) is memory
    array += 5  # between two runs the host writes too
    for _ in range(2):
        queue.launch(module.kernel("increment"), (1000, 1, 1), (10, 1, 1), [memory])
        queue.finish()
    assert (array == np.arange(7, 1007)).all()


def test_a_copied_array_is_not_kept(device: Device) -> None:
    """A queue keeps what it copies from until it has copied it, and no longer than to the next copy that it waits for."""
    array, queue = np.arange(1000, dtype=np.float32), device.default_queue()
    alive, found = weakref.ref(array), np.empty_like(array)
    with device.allocate(array.nbytes) as memory:
        queue.upload(memory, array, blocking=False)
        del array
        queue.download(found, memory)
        gc.collect()
        assert alive() is None
    assert (found == np.arange(1000)).all()


def test_borrowed_memory_may_be_gone(device: Device) -> None:
    """Arrays in memory that is unmapped before their buffers are given back, and mapped anew in the same place."""
    if not device.info.unified_memory:
        pytest.skip(f"{device.info.id} has memory of its own and borrows none")
    rng = np.random.default_rng(SEED)
    for size in (16, 32, 16, 32):
        maps = [mmap.mmap(-1, 4 * size * size) for _ in range(3)]
        a, b, out = (np.frombuffer(block, np.float32).reshape(size, size) for block in maps)
        for _ in range(3):
            a[:], b[:] = rng.random((2, size, size))
            portatile.matmul(a, b, out=out, device=device.info.id)
            assert np.allclose(out, a @ b, rtol=1e-5)
        del a, b, out
        for block in maps:
            block.close()
    device.release()


def test_calls_find_memory_that_comes_again(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of one description by turns, in the same places, in others, and where what was known of a place was given back."""
    rng = np.random.default_rng(SEED)
    sets = [(rng.random((5, 7), np.float32), rng.random((7, 3), np.float32), np.zeros((5, 3), np.float32)) for _ in range(3)]
    monkeypatch.setattr(host_buffers, "_MOST", 4)
    for at in (0, 0, 0, 0, 1, 1, 1, 0, 2, 2, 2, 1, 0, 0):
        a, b, c = sets[at]
        a += 1
        assert portatile.matmul(a, b, out=c, device=device.info.id) is c
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_too_much_memory_raises(device: Device) -> None:
    with pytest.raises(DeviceError, match="cannot allocate"):
        device.allocate(1 << 60)


def test_buffer_views(device: Device) -> None:
    x = np.random.default_rng(SEED).standard_normal((4, 6, 5))
    with Buffer.from_numpy(x, device) as buffer:
        assert buffer.shape == x.shape
        assert buffer.nbytes == x.nbytes
        for key in [np.s_[1], np.s_[1, 2, 3], np.s_[:, ::2, 1:], np.s_[::-1], np.s_[..., 0], np.s_[:, None], np.s_[2:2], ()]:
            assert np.array_equal(buffer[key].numpy(), x[key])
        assert np.array_equal(buffer.T.numpy(), x.T)
        assert np.array_equal(buffer[1:].T[2:].numpy(), x[1:].T[2:])
        buffer[2].assign(np.ones((6, 5)))
        assert (buffer.numpy()[2] == 1).all()
        assert np.array_equal(buffer.numpy()[3], x[3])
        with pytest.raises(ArgumentError, match="would copy"):
            buffer[[0, 2]]
        with pytest.raises(ArgumentError, match="leaves memory"):
            Buffer(buffer.memory, (1000,), np.float64)
        assert hasattr(buffer, "__cuda_array_interface__") == (device.info.backend == "cuda")


def test_buffers_of_what_is_no_array(device: Device) -> None:
    with Buffer.from_numpy([[1.5, 2.0]], device) as made:  # type: ignore[arg-type]
        assert made.numpy().tolist() == [[1.5, 2.0]]
    with pytest.raises(ArgumentError, match="negative"):
        Buffer.empty((3, -1), "float32", device)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_foreign_cuda_arrays_are_used_in_place(device: Device, module: Module, library: str) -> None:
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    xp = pytest.importorskip(library)
    array = xp.arange(100, dtype=xp.int32) if library == "cupy" else xp.arange(100, dtype=xp.int32, device="cuda")
    from portatile.device.foreign_arrays import caller_stream

    buffer = Buffer.wrap(array)
    assert buffer.device is device
    with device.foreign_queue(caller_stream(array)) as queue:
        queue.launch(module.kernel("increment"), (100, 1, 1), (100, 1, 1), [buffer.memory])
        array += 1  # the library's own work follows in its stream
        queue.launch(module.kernel("increment"), (100, 1, 1), (100, 1, 1), [buffer.memory])
    assert array.tolist() == list(range(3, 103))
    ours = Buffer.from_numpy(np.arange(12.0).reshape(3, 4), device)
    theirs = xp.from_dlpack(ours.T)
    assert theirs.tolist() == np.arange(12.0).reshape(3, 4).T.tolist()
    seen = xp.asarray(ours) if library == "cupy" else xp.as_tensor(ours, device="cuda")
    assert seen.tolist() == np.arange(12.0).reshape(3, 4).tolist()


@pytest.mark.parametrize("way", ["own to theirs", "theirs to own", "theirs to theirs"])
def test_memory_that_goes_from_queue_to_queue(device: Device, way: str) -> None:
    """What is handed on after it was given back is used when the queue that had it is done with it."""
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    torch = pytest.importorskip("torch")
    streams = [torch.cuda.Stream() for _ in range(2)]
    theirs = [device.foreign_queue(stream.cuda_stream) for stream in streams]
    own = device.default_queue()
    before, after = {"own to theirs": (own, theirs[0]), "theirs to own": (theirs[0], own), "theirs to theirs": theirs}[way]
    nbytes, found = 1 << 20, np.zeros(1 << 20, np.uint8)
    for _ in range(3):
        memory = device.allocate(nbytes)
        place = memory.handle
        with torch.cuda.stream(torch.cuda.ExternalStream(int(before.stream))):  # type: ignore[attr-defined]
            torch.cuda._sleep(50_000_000)
        before.fill(memory, b"\x01")
        memory.release()
        memory = device.allocate(nbytes)
        after.fill(memory, b"\x02")
        torch.cuda.synchronize()
        after.download(found, memory)
        assert memory.handle == place, "the driver was asked"
        assert (found == 2).all()
        memory.release()
    for queue in theirs:
        queue.release()
