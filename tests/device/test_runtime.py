"""What every device must do, whichever back end it comes from: memory, queues, events, kernels, limits, and giving back."""

from __future__ import annotations

import dataclasses
import gc
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device, Module, Queue
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError, CompileError, DeviceError, LaunchError
from portatile.records import Binary, Source

SEED = 20
TEXT = """
__kernel void scale(__global const float *x, __global float *y, const float a, const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        y[i] = a * x[i];
}

__kernel void scalars(__global double *out, const int i, const uint u, const long l, const ulong w, const float f, const double d)
{
    if (get_global_id(0) == 0) {
        out[0] = i; out[1] = u; out[2] = l; out[3] = w; out[4] = f; out[5] = d;
    }
}

__kernel void reverse(__global int *x, __local int *first, const int unused, __local int *second)
{
    const int l = get_local_id(0), n = get_local_size(0), i = get_group_id(0) * n + l;
    first[l] = x[i];
    second[l] = -x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[i] = first[n - 1 - l] + 1000 * second[n - 1 - l];
}

__kernel __attribute__((reqd_work_group_size(8, 2, 1))) void fixed(__global int *x)
{
    __local int part[16];
    const int l = get_local_id(1) * 8 + get_local_id(0);
    part[l] = l;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[l] = part[15 - l];
}

struct pair { int first; float second; };

__kernel void structure(__global float *out, const struct pair p)
{
    out[0] = p.first + p.second;
}

__kernel void increment(__global int *x)
{
    x[get_global_id(0)] += 1;
}
"""


@pytest.fixture(scope="module")
def binaries() -> dict[str, Binary]:
    return {}


@pytest.fixture
def binary(device: Device, binaries: dict[str, Binary]) -> Binary:
    if device.info.id not in binaries:
        binaries[device.info.id] = program.build(Source("runtime.cl", TEXT), device.target, None)
    return binaries[device.info.id]


@pytest.fixture
def module(device: Device, binary: Binary) -> Iterator[Module]:
    with device.load(binary) as loaded:
        yield loaded


@pytest.fixture
def queue(device: Device) -> Iterator[Queue]:
    with device.queue() as made:
        yield made


def test_info_is_complete(device: Device) -> None:
    info = device.info
    assert info.id.startswith(info.backend)
    assert info.name
    assert info.chip
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
        got = np.zeros(count + 8, np.uint8)
        queue.download(got, other)
    assert (got[4:-4] == data).all()
    assert (got[:4] == 0xAB).all()
    assert (got[-4:] == 0xAB).all()


def test_copy_takes_offsets(device: Device, queue: Queue) -> None:
    data = np.arange(100, dtype=np.int32)
    with device.allocate(400) as one, device.allocate(400) as other:
        queue.upload(one, data)
        queue.fill(other, bytes(4))
        queue.copy(other, one, 40, target_offset=80, source_offset=200)
        got = np.empty(100, np.int32)
        queue.download(got, other)
    assert got[20:30].tolist() == data[50:60].tolist()
    assert np.count_nonzero(got) == 10


@pytest.mark.parametrize("pattern", [b"\x5a", b"\x01\x02", b"\x01\x02\x03\x04"])
def test_fill_repeats_its_pattern(device: Device, queue: Queue, pattern: bytes) -> None:
    with device.allocate(64) as memory:
        queue.fill(memory, b"\0")
        queue.fill(memory, pattern, 8, 32)
        got = np.empty(64, np.uint8)
        queue.download(got, memory)
    assert got.tobytes() == bytes(8) + pattern * (32 // len(pattern)) + bytes(24)


def test_bad_copies_raise(device: Device, queue: Queue) -> None:
    with device.allocate(64) as memory:
        with pytest.raises(ArgumentError, match="do not lie in memory"):
            queue.upload(memory, np.zeros(65, np.uint8))
        with pytest.raises(ArgumentError, match="do not lie in memory"):
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


def test_kernel_computes(device: Device, module: Module, queue: Queue) -> None:
    x = np.random.default_rng(SEED).standard_normal(1000, np.float32)
    with device.allocate(x.nbytes) as source, device.allocate(x.nbytes) as target:
        queue.upload(source, x)
        queue.fill(target, b"\xff")
        kernel = module.kernel("scale")
        assert queue.launch(kernel, (1024, 1, 1), (64, 1, 1), [source, target, np.float32(2.5), np.int32(997)]) is None
        got = np.empty_like(x)
        queue.download(got, target)
    assert (got[:997] == np.float32(2.5) * x[:997]).all()
    assert np.isnan(got[997:]).all()


def test_scalars_arrive_as_they_are(device: Device, module: Module, queue: Queue) -> None:
    values = [np.int32(-3), np.uint32(2**31 + 5), np.int64(-(2**40)), np.uint64(2**50 + 1), np.float32(0.1), np.float64(0.1)]
    with device.allocate(48) as out:
        queue.launch(module.kernel("scalars"), (1, 1, 1), (1, 1, 1), [out, *values])
        got = np.empty(6)
        queue.download(got, out)
    assert got.tolist() == [float(v) for v in values]


def test_structures_are_passed_by_value(device: Device, module: Module, queue: Queue) -> None:
    pair = np.dtype([("first", np.int32), ("second", np.float32)])
    with device.allocate(4) as out:
        kernel = module.kernel("structure")
        for first in (3, 40):
            queue.launch(kernel, (1, 1, 1), (1, 1, 1), [out, np.array((first, 0.5), pair)[()]])
            got = np.empty(1, np.float32)
            queue.download(got, out)
            assert got[0] == first + 0.5
        if device.info.backend == "cuda":  # OpenCL's drivers may take any size
            with pytest.raises(LaunchError, match="argument 1"):
                queue.launch(kernel, (1, 1, 1), (1, 1, 1), [out, np.zeros((), [("first", np.int32)])[()]])


def test_local_arguments_are_apart(device: Device, module: Module, queue: Queue) -> None:
    x = np.arange(96, dtype=np.int32)
    with device.allocate(x.nbytes) as memory:
        queue.upload(memory, x)
        queue.launch(module.kernel("reverse"), (96, 1, 1), (48, 1, 1), [memory, 4 * 48, np.int32(0), 4 * 48])
        got = np.empty_like(x)
        queue.download(got, memory)
    mirrored = x.reshape(2, 48)[:, ::-1].ravel()
    assert got.tolist() == (mirrored - 1000 * mirrored).tolist()


def test_local_arguments_past_48_kb(device: Device, module: Module, queue: Queue) -> None:
    """CUDA gives that much only to kernels that opt in; NVIDIA's OpenCL not at all."""
    if device.info.local_memory <= 49_152:
        pytest.skip(f"{device.info.id} has {device.info.local_memory} bytes of local memory for arguments")
    x = np.arange(32, dtype=np.int32)
    with device.allocate(x.nbytes) as memory:
        queue.upload(memory, x)
        queue.launch(module.kernel("reverse"), (32, 1, 1), (32, 1, 1), [memory, 60_000, np.int32(0), 128])
        got = np.empty_like(x)
        queue.download(got, memory)
    assert got.tolist() == (-999 * x[::-1]).tolist()


def test_required_work_group(device: Device, module: Module, queue: Queue) -> None:
    kernel = module.kernel("fixed")
    assert kernel.entry.work_group == (8, 2, 1)
    with device.allocate(64) as memory:
        queue.launch(kernel, (8, 2, 1), (8, 2, 1), [memory])
        got = np.empty(16, np.int32)
        queue.download(got, memory)
        assert got.tolist() == list(range(15, -1, -1))
        with pytest.raises(LaunchError, match=r"requires the local size \(8, 2, 1\)"):
            queue.launch(kernel, (16, 1, 1), (16, 1, 1), [memory])


def test_bad_launches_raise_and_queue_nothing(device: Device, module: Module, queue: Queue) -> None:
    kernel, size = module.kernel("increment"), device.info.max_work_group_size
    with device.allocate(64) as memory:
        queue.fill(memory, b"\0")
        for sizes, args, message in [
            (((10, 1, 1), (4, 1, 1)), [memory], "multiple of the local size"),
            (((0, 1, 1), (1, 1, 1)), [memory], "positive"),
            (((4 * size, 1, 1), (4 * size, 1, 1)), [memory], "at most"),
            (((4, 1, 1), (4, 1, 1)), [], "takes 1 arguments"),
            (((4, 1, 1), (4, 1, 1)), [memory, memory], "takes 1 arguments"),
            (((4, 1, 1), (4, 1, 1)), [np.float32(1)], "argument 0"),
            (((4, 1, 1), (4, 1, 1)), ["x"], "argument 0"),
        ]:
            with pytest.raises(LaunchError, match=message):
                queue.launch(kernel, *sizes, args)  # type: ignore[arg-type]
        reverse, too_much = module.kernel("reverse"), device.info.local_memory + 1
        with pytest.raises(LaunchError, match="local memory"):
            queue.launch(reverse, (4, 1, 1), (4, 1, 1), [memory, too_much, np.int32(0), 16])
        got = np.empty(16, np.int32)
        queue.download(got, memory)
        assert not got.any()
        memory.release()
        with pytest.raises(LaunchError, match="released"):
            queue.launch(kernel, (4, 1, 1), (4, 1, 1), [memory])


def test_unknown_kernel_lists_the_others(module: Module) -> None:
    with pytest.raises(ArgumentError, match="scale"):
        module.kernel("missing")


def test_compile_error_has_file_and_line(device: Device) -> None:
    with pytest.raises(CompileError) as caught:
        program.build(Source("mine.cl", "__kernel void f(__global int *x)\n{\n    x[0] = missing;\n}\n"), device.target, None)
    assert "missing" in caught.value.log
    assert re.search(r"mine\.cl[:(]3\b", caught.value.log)


def test_definitions_and_options_reach_the_compiler(device: Device, queue: Queue) -> None:
    text = "__kernel void f(__global int *x) { x[0] = VALUE; }"
    built = program.build(Source("f.cl", text, (("VALUE", "(6 * 7)"),)), device.target, None)
    with device.load(built) as module, device.allocate(4) as memory:
        queue.launch(module.kernel("f"), (1, 1, 1), (1, 1, 1), [memory])
        got = np.empty(1, np.int32)
        queue.download(got, memory)
    assert got[0] == 42


def test_binary_survives_storage(device: Device, binary: Binary, queue: Queue) -> None:
    stored = dataclasses.replace(binary, data=bytes(bytearray(binary.data)))
    for _ in range(2):  # the second load cannot come from a program kept since the compilation
        with device.load(stored) as module, device.allocate(64) as memory:
            queue.fill(memory, b"\0")
            queue.launch(module.kernel("increment"), (16, 1, 1), (16, 1, 1), [memory])
            got = np.empty(16, np.int32)
            queue.download(got, memory)
            assert (got == 1).all()


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "kind"])
def test_damaged_binary_is_refused(device: Device, binary: Binary, damage: str) -> None:
    data = {"cut": binary.data[: len(binary.data) // 2], "empty": b"", "foreign": b"\x7fELF" + bytes(500), "kind": binary.data}[damage]
    kind = {"opencl": "cubin"}.get(binary.kind, "opencl") if damage == "kind" else binary.kind
    with pytest.raises(CompileError):
        device.load(dataclasses.replace(binary, data=data, kind=kind))  # type: ignore[arg-type]


def test_events_tell_time(device: Device, module: Module) -> None:
    with device.queue(profiling=True) as queue, device.allocate(4 << 16) as memory:
        queue.fill(memory, b"\0")
        before = queue.marker()
        events = [queue.launch(module.kernel("increment"), (1 << 16, 1, 1), (64, 1, 1), [memory]) for _ in range(5)]
        after = queue.marker()
        after.wait()
        assert after.done
        assert after.seconds_since(before) > 0
        for event in events:
            assert event is not None
            assert event.duration is not None
            assert 0 < event.duration <= after.seconds_since(before)
        with device.queue() as plain, pytest.raises(ArgumentError, match="profiling"):
            plain.marker().seconds_since(before)


@pytest.mark.parametrize("out_of_order", [False, True])
def test_dependencies_between_queues(device: Device, module: Module, out_of_order: bool) -> None:
    """A chain that hops between two queues: every link waits for the one before it."""
    count, steps = 1 << 14, 20
    with (
        device.queue(out_of_order=out_of_order) as one,
        device.queue(out_of_order=out_of_order) as two,
        device.allocate(4 * count) as memory,
    ):
        one.fill(memory, b"\0")
        last = one.marker()
        last.wait()
        for step in range(steps):
            queue = (one, two)[step % 2]
            event = queue.launch(module.kernel("increment"), (count, 1, 1), (64, 1, 1), [memory], wait=[last])
            assert event is not None
            queue.flush()
            last = event
        two.wait_for(last)
        got = np.empty(count, np.int32)
        two.download(got, memory)
        one.finish()
    assert (got == steps).all()


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
        got = np.empty(1 << 20, np.uint8)
        queue.download(got, memory)
    assert (got == 7).all()


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
        got = np.empty_like(array)
        queue.download(got, copy)
    assert (got == array).all()
    assert device.share(np.empty(0)) is None
    assert device.share(np.zeros((4, 4)).T[1:]) is None


def test_too_much_memory_raises(device: Device) -> None:
    with pytest.raises(DeviceError, match="cannot allocate"):
        device.allocate(1 << 60)


def test_kernels_may_be_launched_from_threads(device: Device, module: Module) -> None:
    """Kernels hold their arguments: two threads with one kernel must not mix theirs."""
    rounds, kernel, wrong = 50, module.kernel("scale"), []
    x = np.random.default_rng(SEED).standard_normal(64, np.float32)

    def work(factor: float) -> None:
        with device.queue() as queue, device.allocate(x.nbytes) as source, device.allocate(x.nbytes) as target:
            queue.upload(source, x)
            for step in range(rounds):
                a = np.float32(factor + step)
                queue.launch(kernel, (64, 1, 1), (64, 1, 1), [source, target, a, np.int32(64)])
                got = np.empty_like(x)
                queue.download(got, target)
                if not (got == a * x).all():
                    wrong.append((factor, step))

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1.0, 1000.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


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


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_foreign_cuda_arrays_are_used_in_place(device: Device, module: Module, library: str) -> None:
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    xp = pytest.importorskip(library)
    array = xp.arange(100, dtype=xp.int32) if library == "cupy" else xp.arange(100, dtype=xp.int32, device="cuda")
    from portatile.device.buffer import caller_stream

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


def test_everything_is_given_back(device: Device, binary: Binary) -> None:
    """References to the context (OpenCL) or bytes in the pool (CUDA), before and after using everything there is."""

    def use() -> None:
        with device.load(binary) as module, device.queue(profiling=True) as queue, device.allocate(4096) as memory:
            queue.upload(memory, np.zeros(1024, np.int32), blocking=False)
            queue.launch(module.kernel("increment"), (1024, 1, 1), (64, 1, 1), [memory])
            queue.download(np.empty(1024, np.int32), memory, blocking=False)
            queue.marker().wait()
            array = device.pinned(100)
            array[:] = 1
            if device.info.images:
                with device.image(4, 4, 4, "float32") as image:
                    queue.upload(image, np.zeros((4, 4, 4), np.float32))
            memory.release()  # twice is once
            device.allocate(100)  # dropped without being released

    use()
    gc.collect()
    before = _held(device)
    for _ in range(20):
        use()
    gc.collect()
    assert _held(device) <= before


def _held(device: Device) -> int:
    if device.info.backend == "cuda":
        return int(device.memory_in_use())  # type: ignore[attr-defined]
    return int(device.context.reference_count)  # type: ignore[attr-defined]


def test_a_process_that_cleans_nothing_up_ends_quietly(device: Device) -> None:
    """Whatever is alive at the end of the interpreter is dropped in no order, some of it after the driver's module."""
    script = f"""
import numpy as np
from portatile import device, program
from portatile.records import Source
chip = device.get({device.info.id!r})
module = chip.load(program.build(Source("f.cl", "__kernel void f(__global int *x) {{ x[0] = 1; }}"), chip.target, None))
queue, memory, pinned = chip.queue(profiling=True), chip.allocate(64), chip.pinned(64)
upload = queue.upload(memory, pinned, blocking=False)
event = queue.launch(module.kernel("f"), (1, 1, 1), (1, 1, 1), [memory])
kept = [module, queue, memory, pinned, upload, event, chip.default_queue()]
kept.append(kept)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert "Error" not in done.stderr


def test_device_can_be_released_and_used_again(device: Device, binary: Binary) -> None:
    for _ in range(2):
        with device, device.load(binary) as module, device.queue() as queue, device.allocate(64) as memory:
            queue.fill(memory, b"\0")
            queue.launch(module.kernel("increment"), (16, 1, 1), (16, 1, 1), [memory])
            got = np.empty(16, np.int32)
            queue.download(got, memory)
            assert (got == 1).all()
    device.release()
