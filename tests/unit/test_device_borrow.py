"""Buffers over host arrays that come again: made at the second time, by place, bounded, and keeping no array alive."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("pyopencl")

from portatile.device.copies import address
from portatile.device.opencl import host_buffers
from portatile.device.opencl.host_buffers import HostBuffers


class Block:
    """Memory over an array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.released = array, False

    def release(self) -> None:
        self.released = True


@pytest.fixture
def borrowed() -> HostBuffers:
    return HostBuffers(lambda array: Block(array))  # type: ignore[arg-type,return-value]


def test_what_comes_again_is_known_by_its_place(borrowed: HostBuffers) -> None:
    array = np.arange(24.0)
    assert borrowed.of(array) is None
    block: Any = borrowed.of(array)
    assert np.frombuffer(block.array, array.dtype).tolist() == array.tolist()
    assert address(block.array) == address(array)
    assert block.array.flags.writeable
    assert borrowed.of(array.reshape(4, 6)) is block
    for other in (array[:12], array[12:]):
        assert borrowed.of(other) is None
        assert borrowed.of(other) is not block
    array.flags.writeable = False
    assert borrowed.of(array) is None
    frozen: Any = borrowed.of(array)
    assert not frozen.array.flags.writeable


def test_no_array_is_kept_alive(borrowed: HostBuffers) -> None:
    array = np.arange(24.0)
    watched = weakref.ref(array)
    borrowed.of(array)
    assert borrowed.of(array) is not None
    del array
    assert watched() is None


def test_gaps_are_not_shared(borrowed: HostBuffers) -> None:
    array = np.zeros((6, 6))[:, ::2]
    assert [borrowed.of(array) for _ in range(3)] == [None] * 3


def test_what_was_not_asked_for_lately_is_given_back(borrowed: HostBuffers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_buffers, "_MOST", 3)
    first, second, *others = (np.zeros(size) for size in range(1, 6))
    blocks: list[Any] = []
    for array in (first, second):
        borrowed.of(array)
        blocks.append(borrowed.of(array))
    for array in others:
        borrowed.of(array)
        assert borrowed.of(first) is blocks[0]
    assert [block.released for block in blocks] == [False, True]
    borrowed.release()
    assert blocks[0].released
    assert borrowed.of(first) is None


def test_addresses() -> None:
    array = np.arange(12.0).reshape(3, 4)
    frozen = array.copy()
    frozen.flags.writeable = False
    for one in (
        array,
        array[1:],
        array[:, 1:],
        array.T,
        array.T[1:],
        array.T[:, 1:],
        array[::-1],
        frozen,
        frozen.T,
        np.empty(0),
        np.empty(()).T,
    ):
        assert address(one) == one.ctypes.data
