"""Several queues of one OpenCL device run one text in launches of several widths, in one thread or several: see ``first_launches.py``."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device
from portatile.records import Source
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

TEXT = """__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void count(__global uint* x, const uint steps)
{
    uint value = x[get_global_id(0)];
    for (uint i = 0; i < steps; ++i)
        value = value * 1664525u + {add}u;
    x[get_global_id(0)] = value;
}
"""
THREADS, ROUNDS, WIDEST = 4, 8, 1 << 14


def counted(start: np.ndarray, steps: int, add: int) -> np.ndarray:
    """``steps`` steps at once, by squaring: a step is a product and a sum, and so are several."""
    factor, summand, product, total = 1664525, add, 1, 0
    while steps:
        if steps & 1:
            product, total = product * factor % 2**32, (total * factor + summand) % 2**32
        factor, summand, steps = factor * factor % 2**32, (summand * factor + summand) % 2**32, steps >> 1
    return start * np.uint32(product) + np.uint32(total)


@pytest.fixture
def opencl(device: Device) -> Device:
    if device.info.backend != "opencl":
        pytest.skip(f"{device.info.id} has no OpenCL queue")
    return device


@pytest.mark.parametrize(("first", "second"), [(64, 6400), (6400, 64), (640, 6400)])
def test_a_queue_launches_wider_while_another_runs(opencl: Device, first: int, second: int) -> None:
    rng = np.random.default_rng(new_seed("queues"))
    binary = program.build(Source("count.cl", TEXT.replace("{add}", "9")), opencl.target, None)
    with opencl.load(binary) as one, opencl.load(binary) as other, opencl.queue() as busy, opencl.queue() as queue:
        starts = [rng.integers(0, 2**32, width, np.uint32) for width in (first, second)]
        places = [opencl.allocate(start.nbytes) for start in starts]
        steps = (20_000_000 // first, 100)
        for module, on, start, place, count in zip((one, other), (busy, queue), starts, places, steps, strict=True):
            on.upload(place, start)
            on.launch(module.kernel("count"), (start.size, 1, 1), (64, 1, 1), [place, np.uint32(count)])
            on.flush()
        busy.finish()
        for on, start, place, count in zip((busy, queue), starts, places, steps, strict=True):
            result = np.empty_like(start)
            on.download(result, place)
            np.testing.assert_array_equal(result, counted(start, count, 9))
            place.release()


def test_a_binary_is_made_while_a_queue_runs(opencl: Device) -> None:
    """PoCL compiles for it, and looks for the kernel that runs."""
    start = np.random.default_rng(new_seed("binary")).integers(0, 2**32, 640, np.uint32)
    binary, finish = opencl.target.defer(Source("count.cl", TEXT.replace("{add}", "11")))
    with opencl.load(binary) as module, opencl.queue() as queue, opencl.allocate(start.nbytes) as memory:
        queue.upload(memory, start)
        for _ in range(2):
            queue.launch(module.kernel("count"), (start.size, 1, 1), (64, 1, 1), [memory, np.uint32(20_000)])
        queue.flush()
        made = finish()
        result = np.empty_like(start)
        queue.download(result, memory)
    np.testing.assert_array_equal(result, counted(start, 40_000, 11))
    with opencl.load(made) as module:
        assert module.kernel("count").name == "count"


def test_threads_build_launch_and_release(opencl: Device) -> None:
    """Launches of the shared text become wider and narrower, so that PoCL loads it again while others run it."""
    device = opencl
    seed, mistakes = new_seed("threads"), list[str]()

    def work(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        for turn in range(ROUNDS):
            add = 7 if turn % 4 else 1000 * number + turn  # a text that all have, or one of this thread's own
            source = Source("count.cl", TEXT.replace("{add}", str(add)))
            width, steps = 64 * int(rng.integers(1, WIDEST // 64)), int(rng.integers(50, 400))
            start = rng.integers(0, 2**32, width, np.uint32)
            loaded = device.load(program.build(source, device.target, None))
            with loaded as module, device.queue() as queue, device.allocate(start.nbytes) as memory:
                queue.upload(memory, start)
                for part in (width, 64, width):
                    queue.launch(module.kernel("count"), (part, 1, 1), (64, 1, 1), [memory, np.uint32(steps)])
                result = np.empty_like(start)
                queue.download(result, memory)
            expected = counted(start, 2 * steps, add)
            expected[:64] = counted(expected[:64], steps, add)
            if not np.array_equal(result, expected):
                mistakes.append(f"thread {number}, turn {turn}: {int((result != expected).sum())} of {width} numbers are wrong")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mistakes
