"""Several threads build, launch and release on one OpenCL device, each through a queue of its own, and share a text: see ``turns.py``."""

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
    for _ in range(steps):
        start = start * np.uint32(1664525) + np.uint32(add)
    return start


def test_threads_build_launch_and_release(device: Device) -> None:
    """Launches of the shared text become wider and narrower, so that PoCL loads it again while others run it."""
    if device.info.backend != "opencl":
        pytest.skip(f"{device.info.id} has no OpenCL queue")
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
