"""Memory for the temporaries of plans, kept from run to run and released when memory is scarce."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.records import Plan, Temporary

_IMAGES = 8  # images and buffers of an exact size that are kept for each queue, because each suits only one shape
_Place = tuple[int, tuple[int, int, int, str] | None]
"""A key of blocks: the index in a plan (below 0 for zeroed memory), and the form of an image or an exact size."""


class User(Protocol):
    """A user of the memory: an ``Executable``."""

    plan: Plan

    def give_up(self, queue: Queue) -> None:
        """Stop using the workspace of a queue: the next run asks for another."""


_Blocks = dict[_Place, tuple[Memory, "WeakSet[User]"]]


class Workspaces:
    """Memory for the temporaries of many executables on one device. On an in-order queue they can all share the same memory.

    A queue has a block for each index in the list of a plan's temporaries, as large as the largest one at that index. Zeroed temporaries
    have their own blocks. Of images, and of buffers of an exact size, the most recently used few are kept. Users keep their memory until
    ``give_up`` tells them that it is needed elsewhere.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._queues: WeakKeyDictionary[Queue, _Blocks] = WeakKeyDictionary()
        self.users = 0  # users that run at this moment; while there are any, ``spare`` frees nothing

    def give(self, user: User, queue: Queue) -> dict[str, Memory]:
        """Memory for the temporaries of a user's plan on a queue, by name.

        If memory is scarce, everything that is kept is freed first. Raises DeviceError if there is still not enough.
        """
        self.users += 1
        try:
            try:
                return self._give(user, queue)
            except DeviceError:
                self.release()
                return self._give(user, queue)
        except DeviceError:
            self.release()
            raise
        finally:
            self.users -= 1

    def spare(self) -> bool:
        """Free everything unless a user runs at this moment; returns whether anything was freed."""
        if self.users or not any(self._queues.values()):
            return False
        self.release()
        return True

    def _give(self, user: User, queue: Queue) -> dict[str, Memory]:
        blocks = self._queues.setdefault(queue, {})
        memories: dict[str, Memory] = {}
        for place, temporary in enumerate(user.plan.temporaries):
            key = _place(place, temporary)
            if key in blocks and temporary.kind == "buffer" and blocks[key][0].nbytes < temporary.nbytes:
                self._take(blocks, key, queue)
            block = blocks.pop(key) if key in blocks else (self._make(temporary, queue), WeakSet[User]())
            block[1].add(user)
            blocks[key] = block  # keeps the newest last
            memories[temporary.name] = block[0]
        own = sum(temporary.kind == "image" or temporary.exact for temporary in user.plan.temporaries)
        images = [key for key in blocks if key[1] is not None]
        for key in images[: max(len(images) - max(_IMAGES, own), 0)]:
            self._take(blocks, key, queue)
        return memories

    def release(self) -> None:
        """Free everything; users that run later receive new memory."""
        for queue, blocks in list(self._queues.items()):
            for key in list(blocks):
                self._take(blocks, key, queue)

    def discard_zeroed(self, queue: Queue) -> None:
        """Free a queue's zeroed memory after a failed run, which may have left other values there."""
        blocks = self._queues.get(queue, {})
        for key in [key for key in blocks if key[0] < 0]:
            self._take(blocks, key, queue)

    def _take(self, blocks: _Blocks, key: _Place, queue: Queue) -> None:
        """Take a block from its users and free it; the device reuses it only after the commands that are queued now."""
        memory, users = blocks.pop(key)
        for user in users:
            user.give_up(queue)
        memory.release()

    def _make(self, temporary: Temporary, queue: Queue) -> Memory:
        if temporary.kind == "image":
            return self._device.image(temporary.width, temporary.height, temporary.channels, temporary.dtype)
        memory = self._device.allocate(max(round_up(temporary.nbytes), 4))
        if temporary.zeroed:
            queue.fill(memory, bytes(4), 0, memory.nbytes)
        return memory


def workspace(plans: Iterable[Plan]) -> int:
    """Bytes of a queue's shared workspace after these plans have run on it: the sum over indices of the largest temporary at each."""
    largest: dict[_Place, int] = {}
    for plan in plans:
        for place, temporary in enumerate(plan.temporaries):
            key = _place(place, temporary)
            largest[key] = max(largest.get(key, 0), temporary.nbytes)
    return sum(largest.values())


def _place(place: int, temporary: Temporary) -> _Place:
    """A key of temporaries that share memory: buffers at the same index of their plans; others only if form or size are equal, too."""
    if temporary.zeroed:
        return -1 - place, None
    if temporary.exact:
        return place, (temporary.nbytes, 0, 0, "exact")
    form = temporary.width, temporary.height, temporary.channels, temporary.dtype
    return place, form if temporary.kind == "image" else None


def round_up(nbytes: int) -> int:
    """Bytes rounded up to whole words."""
    return -(-nbytes // 4) * 4
