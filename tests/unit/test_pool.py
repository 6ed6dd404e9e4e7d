"""The pool of OpenCL memory: what it hands on, what it lets go of, and when it keeps nothing."""

from __future__ import annotations

from portatile.device.pool import SHARE, Pool


class Block:
    """In place of a driver's buffer."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_the_newest_of_a_size_is_handed_on() -> None:
    pool, one, two = Pool(100 * SHARE), Block(), Block()
    pool.give(one, 40)
    pool.give(two, 40)
    assert pool.take(41) is None
    assert pool.take(40) is two
    assert pool.take(40) is one
    assert pool.take(40) is None
    assert pool.held == 0
    assert not one.released + two.released


def test_the_oldest_size_makes_way() -> None:
    pool, blocks = Pool(100 * SHARE), [Block() for _ in range(4)]
    for block, nbytes in zip(blocks, (30, 40, 30, 30), strict=True):
        pool.give(block, nbytes)
    assert [block.released for block in blocks] == [0, 1, 0, 0]  # 40 bytes were given back before the last 30
    assert pool.held == 90
    pool.give(large := Block(), 101)
    pool.give(nothing := Block(), 0)
    assert large.released == nothing.released == 1
    assert pool.held == 90


def test_nothing_is_handed_on_beside_other_queues() -> None:
    pool, before, meanwhile = Pool(100 * SHARE), Block(), Block()
    pool.give(before, 10)
    pool.enter()
    assert pool.take(10) is None
    pool.give(meanwhile, 10)
    assert meanwhile.released == 1
    pool.leave()
    assert not pool.handed
    assert pool.take(10) is before
    assert pool.handed


def test_everything_is_let_go_of_when_memory_is_short_and_at_the_end() -> None:
    pool, blocks = Pool(100 * SHARE), [Block() for _ in range(4)]
    for block in blocks[:2]:
        pool.give(block, 10)
    assert pool.clear()
    assert not pool.clear()
    pool.give(blocks[2], 10)
    assert pool.held == 10
    pool.close()
    pool.give(blocks[3], 10)
    assert [block.released for block in blocks] == [1] * 4
    assert pool.held == 0
