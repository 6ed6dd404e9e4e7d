"""Devices that one thread feeds: what a failure and a mistake leave behind, and that nobody waits for another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from portatile.errors import DeviceError
from portatile.runtime.several_devices.in_turn import in_turn
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.splits import Share

STEPS = 128


class Simulated:
    """A device that computes a piece while it is asked ``slowness`` times; ``each`` is called for every piece that it begins."""

    def __init__(self, name: str, slowness: int = 1, each: Callable[[], None] = lambda: None) -> None:
        self.share = Share(name)
        self._slowness, self._each = slowness, each
        self._under_way: deque[tuple[int, int]] = deque()
        self._left = slowness
        self.most = 0

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def advance(self, pieces: Pieces) -> bool:
        try:
            return self._end(pieces) or self._begin(pieces)
        except BaseException:
            while self._under_way:
                pieces.give_back(*self._under_way.popleft())
            raise

    def _end(self, pieces: Pieces) -> bool:
        self._left -= 1
        if not self._under_way or self._left > 0:
            return False
        low, high = self._under_way.popleft()
        pieces.done(self.share.device, high - low, 1e-3 * self._slowness)
        self.share.steps += high - low
        self._left = self._slowness
        return True

    def _begin(self, pieces: Pieces) -> bool:
        if len(self._under_way) > 1 or (piece := pieces.take(self.share.device, 8, wait=False)) is None:
            return False
        self._under_way.append(piece)
        self.most = max(self.most, len(self._under_way))
        self._each()
        return True


def pieces(**rates: float) -> Pieces:
    return Pieces(STEPS, 1, rates)


def raising(error: BaseException, after: int = 0) -> Callable[[], None]:
    left = [after]

    def each() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error

    return each


def test_all_is_computed_and_the_faster_device_does_more() -> None:
    devices = Simulated("a", 2), Simulated("b", 8)
    in_turn(devices, pieces(a=0.0, b=0.0))
    steps = [one.share.steps for one in devices]
    assert sum(steps) == STEPS
    assert steps[0] > steps[1] > 0
    assert devices[1].most == 2, "one piece waits while another is computed"


@pytest.mark.parametrize("after", [0, 3])
def test_a_device_that_fails_leaves_its_pieces_to_the_others(after: int) -> None:
    devices = Simulated("a", 1, raising(DeviceError("it fell off the bus"), after)), Simulated("b", 3)
    with pytest.warns(RuntimeWarning, match=r"a failed \(it fell off the bus\); the other devices computed its part"):
        in_turn(devices, pieces(a=1.0, b=1.0))
    assert devices[0].share.failure == "it fell off the bus"
    assert sum(one.share.steps for one in devices) == STEPS


def test_the_last_failure_is_raised_where_all_fail() -> None:
    devices = Simulated("a", 1, raising(DeviceError("first"))), Simulated("b", 1, raising(MemoryError("second"), 2))
    with pytest.raises(MemoryError, match="second"):
        in_turn(devices, pieces(a=1.0, b=1.0))


@pytest.mark.parametrize("mistake", [ZeroDivisionError("a mistake"), KeyboardInterrupt("a mistake")])
def test_a_mistake_ends_all(mistake: BaseException) -> None:
    devices = Simulated("a", 1, raising(mistake, 1)), Simulated("b")
    with pytest.raises(type(mistake), match="a mistake"):
        in_turn(devices, pieces(a=1.0, b=1.0))
    assert devices[1].share.steps < STEPS
