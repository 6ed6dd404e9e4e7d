"""Canaries on both sides of device memory: what a kernel writes outside of its array is found, and counted in elements."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import program
from portatile.device.base import PART_ALIGNMENT, Device, Queue
from portatile.device.module import Module
from portatile.errors import ArgumentError
from portatile.guarded_memory import GuardedMemory
from portatile.records import Source

TEXT = "kernel void put(global float *y, int first, int count) { for (int i = 0; i < count; i++) y[first + i] = 3.0f; }"


@pytest.fixture
def put(device: Device) -> Module:
    return device.load(program.build(Source("put.cl", TEXT), device.target, None))


@pytest.mark.parametrize("elements", [1, 7, 1024, 5000])
@pytest.mark.parametrize(
    ("first", "count", "complaint"),
    [
        (0, 1, None),
        (-1, 1, "wrote 1 element before y, as far as y[-1]"),
        (-200, 3, "wrote 3 elements before y, as far as y[-200]"),
        (0, 2, "wrote 1 element behind y, as far as y[{one}]"),
        (6000, 28, "wrote 28 elements behind y, as far as y[{far}]"),
    ],
)
def test_what_lies_outside_is_found(
    device: Device, queue: Queue, put: Module, elements: int, first: int, count: int, complaint: str | None
) -> None:
    start = first if first <= 0 else elements + first
    start += elements - 1 if (first, count) == (0, 2) else 0  # the last element and the one behind it
    with GuardedMemory(device, queue, 4 * elements) as y:
        queue.launch(put.kernel("put"), (1, 1, 1), (1, 1, 1), [y.memory, np.int32(start), np.int32(count)])
        result = y.out_of_bounds(queue, "y", 4)
    expected = complaint and complaint.format(one=elements, far=elements + 6027) + f", which has {elements}"
    assert result == expected


@pytest.mark.parametrize(("type_", "size"), [("float", 4), ("int", 4), ("double", 8)])
@pytest.mark.parametrize("statement", ["y[{n}] += 0.001f + {one}", "y[{n}] -= 0.001f + {one}", "y[{n}] *= 1 + {one}"])
def test_what_is_added_to_a_canary_is_found(device: Device, queue: Queue, type_: str, size: int, statement: str) -> None:
    if type_ == "double" and not device.info.fp64:
        pytest.skip("no float64")
    one = "1" if type_ == "int" else "0"
    change = statement.format(n=10, one=one).replace("1 + 0", "1.001f")
    text = f"kernel void change(global {type_} *y) {{ {change}; }}"
    module = device.load(program.build(Source("change.cl", text), device.target, None))
    with GuardedMemory(device, queue, size * 10) as y:
        queue.launch(module.kernel("change"), (1, 1, 1), (1, 1, 1), [y.memory])
        assert y.out_of_bounds(queue, "y", size) == "wrote 1 element behind y, as far as y[10], which has 10"


def test_any_canary_is_looked_at_near_and_far_and_written_anew(device: Device, queue: Queue, put: Module) -> None:
    def write(first: int) -> None:
        queue.launch(put.kernel("put"), (1, 1, 1), (1, 1, 1), [y.memory, np.int32(first), np.int32(1)])

    with GuardedMemory(device, queue, 4 * 10, 4 * PART_ALIGNMENT, word=0x12345678) as y:
        assert y.out_of_bounds(queue, "y", 4) is None
        write(-1000)
        assert y.out_of_bounds(queue, "y", 4, reach=400) is None
        assert y.out_of_bounds(queue, "y", 4) == "wrote 1 element before y, as far as y[-1000], which has 10"
        y.restore(queue)
        assert y.out_of_bounds(queue, "y", 4) is None
        write(50)
        assert y.out_of_bounds(queue, "y", 4, reach=400) == "wrote 1 element behind y, as far as y[50], which has 10"


def test_sizes_that_are_no_words_are_guarded_too(device: Device, queue: Queue) -> None:
    for nbytes in (1, 2, 3, 5, 4097):
        with GuardedMemory(device, queue, nbytes) as memory:
            assert memory.out_of_bounds(queue, "y", 1) is None


def test_a_part_lies_within_its_memory(device: Device, queue: Queue) -> None:
    with device.allocate(4 * PART_ALIGNMENT) as memory:
        part = device.part(memory, PART_ALIGNMENT, 8)
        queue.fill(memory, b"\1")
        queue.fill(part, b"\2")
        whole = np.empty(4 * PART_ALIGNMENT, np.uint8)
        queue.download(whole, memory)
        assert np.flatnonzero(whole == 2).tolist() == list(range(PART_ALIGNMENT, PART_ALIGNMENT + 8))
        for offset, nbytes in ((1, 4), (-PART_ALIGNMENT, 4), (3 * PART_ALIGNMENT, PART_ALIGNMENT + 1), (0, -1)):
            with pytest.raises(ArgumentError, match="no part of"):
                device.part(memory, offset, nbytes)
        part.release()
