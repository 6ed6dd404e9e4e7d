"""Memory for the temporaries of plans, which is kept from run to run and makes way where memory is scarce."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.records import Plan, Temporary

_IMAGES = 8  # that a queue keeps beside its blocks, because an image serves its own shape only
_Place = tuple[int, tuple[int, int, int, str] | None]  # in a plan, below 0 of zeros; an image's form, an exact size


class User(Protocol):
    """Who is given memory: an ``Executable``."""

    plan: Plan

    def give_up(self, queue: Queue) -> None:
        """Use the workspace of a queue no longer: the next run asks for another."""


_Blocks = dict[_Place, tuple[Memory, "WeakSet[User]"]]


class Workspaces:
    """Memory for the temporaries of many executables on one device: on an in-order queue one's workspace is the next one's.

    A queue has a block for each place in a plan, as large as the largest temporary that stood there, another where it holds zeros between
    runs, and the few images, and buffers of an exact size, that were asked for last. Users keep what they were given until it makes
    way for other memory.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._queues: WeakKeyDictionary[Queue, _Blocks] = WeakKeyDictionary()
        self.users = 0  # of the memory just now: then ``spare`` gives nothing back

    def give(self, user: User, queue: Queue) -> dict[str, Memory]:
        """Memory for the temporaries of a user's plan on a queue, by name; all that is kept makes way where it is scarce. Raises
        DeviceError when there is not enough.
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
        """Free everything unless it is being used; whether there was anything."""
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
            blocks[key] = block  # the newest last
            memories[temporary.name] = block[0]
        own = sum(temporary.kind == "image" or temporary.exact for temporary in user.plan.temporaries)
        images = [key for key in blocks if key[1] is not None]
        for key in images[: max(len(images) - max(_IMAGES, own), 0)]:
            self._take(blocks, key, queue)
        return memories

    def release(self) -> None:
        """Free everything; who still runs is given new memory."""
        for queue, blocks in list(self._queues.items()):
            for key in list(blocks):
                self._take(blocks, key, queue)

    def distrust(self, queue: Queue) -> None:
        """Take a queue's zeros from everyone: a run that was broken off may have left something else there."""
        blocks = self._queues.get(queue, {})
        for key in [key for key in blocks if key[0] < 0]:
            self._take(blocks, key, queue)

    def _take(self, blocks: _Blocks, key: _Place, queue: Queue) -> None:
        """Take a block from everyone who uses it; what is queued is done before the device gives it to others."""
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
    """Bytes that a queue's shared workspace has once these plans have run on it: in each place the largest that stood there."""
    largest: dict[_Place, int] = {}
    for plan in plans:
        for place, temporary in enumerate(plan.temporaries):
            key = _place(place, temporary)
            largest[key] = max(largest.get(key, 0), temporary.nbytes)
    return sum(largest.values())


def _place(place: int, temporary: Temporary) -> _Place:
    """A key of temporaries that share memory: buffers in the same place of their plans; others only with equal form or size too."""
    if temporary.zeroed:
        return -1 - place, None
    if temporary.exact:
        return place, (temporary.nbytes, 0, 0, "exact")
    form = temporary.width, temporary.height, temporary.channels, temporary.dtype
    return place, form if temporary.kind == "image" else None


def round_up(nbytes: int) -> int:
    """Bytes in whole words."""
    return -(-nbytes // 4) * 4
