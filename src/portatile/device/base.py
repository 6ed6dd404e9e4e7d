"""The interface that every back end implements: a Device loads kernels and allocates memory, a Queue runs commands in order.

These and Memory name one another, so they stand together. Devices know nothing of dialects, tuning or workloads. ``backend.py`` says what
a back end is, ``target.py`` what its compiler does; events, loaded kernels and prepared launches have files of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.device.event import Event
from portatile.device.launches import Repeat, Slot
from portatile.device.module import LoadedKernel, Module
from portatile.device.resources import PageLock, Releasable
from portatile.device.strides import CopiedRows
from portatile.device.target import Target
from portatile.errors import ArgumentError, DeviceError, LaunchError, UsageError
from portatile.images import ImageForm, Sampler, check_view
from portatile.records import Binary, DeviceInfo, Size3, TensorMap

PART_ALIGNMENT = 4096  # bytes; OpenCL asks for the largest vector's size at least, 128, and drivers for more


class Memory(Releasable):
    """A block of device memory. Released by ``release``, by ``with``, or with its last reference."""

    nbytes: int
    device: Device
    generation = 0
    """The device's ``generation`` when the memory was made."""
    views: dict[ImageForm, Image] | None = None
    """Images over this memory, made by ``Device.image_over``; they are released with it."""

    @property
    @abstractmethod
    def handle(self) -> Any:
        """The back end's own object: a ``pyopencl.Buffer``, an integer device pointer."""

    @property
    def alive(self) -> bool:
        """Whether it can be used: neither it nor its device was released."""
        return self.handle is not None and self.generation == self.device.generation

    def release_views(self) -> None:
        """Release the images over this memory."""
        views, self.views = self.views, None
        for view in (views or {}).values():
            view.release()


class Image(Memory):
    """Device memory that kernels read and write as pixels; ``form`` has its type, shape and dtype."""

    form: ImageForm
    copied: bool = False
    """Whether it holds a copy of other memory that is made before each launch: some drivers make no image over part of a buffer."""


Argument = Memory | np.generic | int | Sampler  # an int is the bytes of a __local argument


class ReadyLaunch(NamedTuple):
    """A kernel, its NDRange in work-items, and its arguments; a Slot stands for each argument that a run brings."""

    kernel: LoadedKernel
    global_size: Size3
    local_size: Size3
    args: Sequence[Argument | Slot]


class Ready(ABC):
    """Launches with packed arguments: a run writes its values into the slots and hands them to the driver. Not safe between threads."""

    @abstractmethod
    def run(self, queue: Queue, values: Sequence[float], borrows: bool) -> bool:
        """Queue the launches in order; does not wait. Returns whether they ran as one command, which ``replay`` may give.

        ``values`` are addresses and numbers, in the order of ``Slot.place``. ``borrows``: some addresses belong to memory of the device
        itself; on a queue in another library's stream its reuse must then wait for these launches. Raises OverflowError for a number that
        does not fit its type, before that launch is queued.
        """

    def replay(self, queue: Queue, values: Sequence[float], borrows: bool) -> Callable[[], bool] | None:
        """What queues that command again, or returns False, with nothing done; None where there is none."""
        return None


class Queue(Releasable):
    """Commands in order. Nothing here waits for the device unless its name or ``blocking`` says so."""

    device: Device
    profiling: bool
    out_of_order: bool

    @property
    def capturing(self) -> bool:
        """Whether commands go into a graph that another library captures, which runs them later."""
        return False

    def of_graph(self, place: Hashable, nbytes: int, zeroed: bool) -> Memory:
        """Memory that belongs to the graph being captured and lives as long as the graph; CUDA only. The caller does not release it.

        Later calls of the same capture get the same memory at the same ``place``, ``zeroed`` or not. ``zeroed`` memory holds zeros before
        the graph's first run; its commands leave it so. Raises DeviceError elsewhere, and where there is no memory.
        """
        raise DeviceError(f"{self.device.info.id} captures no graphs")

    def forget_graph(self) -> None:
        """Let ``of_graph`` return new memory, after a call failed that had written to the old."""

    @abstractmethod
    def launch(
        self, kernel: LoadedKernel, global_size: Size3, local_size: Size3, args: Sequence[Argument], wait: Sequence[Event] = ()
    ) -> Event | None:
        """Run a kernel over an NDRange of work-items.

        The event is None unless the queue profiles, is out of order, or ``wait`` is given. An ``int`` among ``args`` is the bytes of a
        ``__local`` argument; scalars are NumPy scalars. LaunchError, with nothing queued, where arguments or sizes do not fit.
        """

    @abstractmethod
    def upload(self, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        """Copy a C-contiguous host array to ``target``, ``offset`` bytes in; images take the whole array of their form.

        With ``blocking=False`` the array must not change until the event is done; the queue keeps it alive.
        """

    def send(self, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
        """Upload without blocking and without an event; the caller keeps the array, unchanged, until the queue has finished."""
        self.upload(target, array, offset, blocking=False)

    @abstractmethod
    def download(self, array: NDArray[Any], source: Memory, offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        """Copy from ``source``, ``offset`` bytes in, to a C-contiguous host array; the counterpart of ``upload``.

        For memory that ``Device.share`` made of this very array nothing is copied, but the host then sees what kernels wrote.
        """

    def fetch(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        """Download without blocking and without an event; the caller keeps the array until the queue has finished."""
        self.download(array, source, offset, blocking=False)

    def send_rows(self, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
        """As ``send`` of a matrix whose rows lie apart in page-locked memory, and next to each other in ``target``.

        Only of a device with ``locks_pages``.
        """
        raise NotImplementedError

    def fetch_rows(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        """As ``fetch`` into a matrix whose rows lie apart in page-locked memory; the counterpart of ``send_rows``."""
        raise NotImplementedError

    def sending(self, target: Memory, array: NDArray[Any]) -> Callable[[], object]:
        """What does ``send(target, array)`` each time; good as long as both are."""
        return partial(self.send, target, array)

    def fetching(self, array: NDArray[Any], source: Memory) -> Callable[[], object]:
        """What does ``download(array, source)`` each time, without an event; good as long as both are."""
        return partial(self.download, array, source)

    @abstractmethod
    def copy(
        self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0, wait: Sequence[Event] = ()
    ) -> Event:
        """Copy between buffers of one device, or from a buffer to a whole image (``nbytes`` of packed pixels)."""

    def copy_rows(self, target: Memory, source: Memory, rows: CopiedRows) -> None:
        """Copy rows that lie apart between buffers of one device."""
        for row in range(rows.number):
            target_at, source_at = rows.target_offset + row * rows.target_step, rows.source_offset + row * rows.source_step
            self.copy(target, source, rows.nbytes, target_at, source_at)

    def receive(self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0) -> bool:
        """Copy from another device's memory without passing through the host; does not wait. All writes to ``source`` have finished.

        False, with nothing done, where the driver has no such copies.
        """
        return False

    @abstractmethod
    def fill(self, target: Memory, pattern: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        """Repeat ``pattern`` (1, 2 or 4 bytes) over ``nbytes`` of ``target``, a multiple of the pattern's size."""

    @abstractmethod
    def marker(self) -> Event:
        """An event at the end of what is queued so far."""

    @abstractmethod
    def wait_for(self, event: Event) -> None:
        """Make later commands of this queue run after ``event``, which may belong to another queue of the device."""

    def follow(self, other: Queue) -> None:
        """Make later commands run after those that another queue of the device holds now."""
        here = other.marker()
        other.flush()
        self.wait_for(here)

    @abstractmethod
    def flush(self) -> None:
        """Hand what is queued to the device."""

    @abstractmethod
    def finish(self) -> None:
        """Block until everything queued is done."""


class Device(Releasable):
    """One physical device through one back end. Making the object costs nothing; the context is created at first use.

    After ``release`` the next use creates a context anew; ``generation`` counts them, and what belongs to an earlier one is gone.
    After ``abandon`` every use raises UsageError.
    """

    info: DeviceInfo
    target: Target
    generation = 0
    abandoned = False
    spare: Callable[[], bool] = staticmethod(lambda: False)
    """Called where an allocation fails: frees memory that is kept for later, and returns whether there was any."""

    @property
    def memory_rate(self) -> float:
        """The memory's peak bandwidth in bytes per second, from the clock and bus width that the driver reports; 0 if it reports none."""
        return 0.0

    @abstractmethod
    def load(self, binary: Binary) -> Module:
        """Load compiled kernels; raises CompileError when the driver refuses them."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Memory:
        """Device memory; raises DeviceError when there is not enough."""

    def exchanges(self, other: Device) -> bool:
        """Whether arrays are copied between the memories of both without passing through the host's, as by ``Queue.receive``."""
        return False

    def is_open_to(self, other: Device) -> bool:
        """Whether ``open_to`` has nothing to do."""
        return True

    def open_to(self, other: Device) -> None:
        """Let another device reach this one's memory, where the back end connects them: copies between them are faster then. It takes long,
        once, and waits for what the device is doing: before copies begin, and nothing else may be given to either device meanwhile.
        """

    def adopt(self, pointer: int, nbytes: int, owner: object) -> Memory:
        """Another library's device memory as a Memory, without a copy; CUDA only, ArgumentError elsewhere. ``owner`` is kept alive."""
        raise ArgumentError(f"{self.info.id} cannot use another library's memory; that takes a CUDA device")

    def image(self, width: int, height: int, channels: int, dtype: str) -> Image:
        """An ``image2d_t`` of ``height`` x ``width`` pixels with ``channels`` of ``dtype``; see ``image_of``."""
        return self.image_of(ImageForm("image2d_t", (height, width, channels), dtype))

    @abstractmethod
    def image_of(self, form: ImageForm) -> Image:
        """Device memory that kernels sample; raises LaunchError where the device has no images of that form."""

    def tensor_map(self, memory: Memory, form: TensorMap) -> np.void:
        """The tensor map that a kernel takes to copy boxes of a matrix in ``memory``; raises LaunchError where the device has none."""
        raise LaunchError(f"{self.info.id} has no tensor maps")

    def image_over(self, memory: Memory, form: ImageForm) -> Image:
        """The first bytes of ``memory`` as an ``image1d_buffer_t`` that kernels read; it is released with the memory.

        Nothing is copied, unless ``memory`` is a part of other memory and the driver makes no image over a part; then the image is
        ``copied``. A second call gives the same image. Raises LaunchError where the device has no such image, ArgumentError where it would
        take more bytes than there are.
        """
        view = None if memory.views is None else memory.views.get(form)
        if view is None:
            self._check_view(memory, form)
            view = self._view(memory, form)
            if memory.views is None:
                memory.views = {}
            memory.views[form] = view
        return view

    def part(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        """``nbytes`` of ``memory`` from ``offset`` on, without a copy. The part keeps the whole alive; release the part first.

        Raises ArgumentError for what does not lie within it, and where ``offset`` is no multiple of ``PART_ALIGNMENT``.
        """
        if offset % PART_ALIGNMENT or min(offset, nbytes) < 0 or offset + nbytes > memory.nbytes:
            raise ArgumentError(
                f"{nbytes} bytes from {offset} on are no part of {memory.nbytes}; a part begins at a multiple of {PART_ALIGNMENT}"
            )
        return self._part(memory, offset, nbytes)

    @abstractmethod
    def _part(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        """A part that lies within ``memory``."""

    @abstractmethod
    def _view(self, memory: Memory, form: ImageForm) -> Image:
        """A new image over memory that is large enough."""

    def _check_view(self, memory: Memory, form: ImageForm) -> None:
        if not memory.alive:
            raise ArgumentError("this memory has been released")
        if memory.device is not self or isinstance(memory, Image):
            raise ArgumentError(f"an image over a buffer of {self.info.id} cannot show an image, or memory of {memory.device.info.id}")
        check_view(form, memory.nbytes, self.info.image_buffer_max, self.info.id)

    @abstractmethod
    def share(self, array: NDArray[Any]) -> Memory | None:
        """The host array's own memory as device memory, or None where the device cannot reach it without a copy.

        What kernels wrote is certain to be seen by the host after ``Queue.download`` into the same array.
        """

    def borrow(self, array: NDArray[Any]) -> Memory | None:
        """As ``share``, for an array that is used many times. The device keeps the memory object; the caller does not release it.

        None where the device does not keep such objects; call ``share`` then. The host sees what kernels wrote once the queue is finished.
        Not safe between threads.
        """
        return None

    def mapped(self, memory: Memory) -> NDArray[np.uint8] | None:
        """The memory as an array of the host, after the default queue has finished; None where that would take a copy. The array keeps the
        memory alive, and is valid as long as the device is. Later writes show in it once their queue is finished.
        """
        return None

    def ready(self, launches: Sequence[ReadyLaunch]) -> Ready | None:
        """Launches with packed arguments, for many runs; None where the back end cannot pack them."""
        return None

    def repeat(self, launches: Sequence[ReadyLaunch]) -> Repeat | None:
        """Launches with kernel objects of their own, for many runs; None where the back end has no such objects."""
        return None

    @abstractmethod
    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Pinned host memory, which the device copies at full speed; freed with its last reference, invalid once the device is released."""

    locks_pages = False  # whether ``lock`` can

    def lock(self, array: NDArray[Any]) -> PageLock | None:
        """Lock a C-contiguous host array, so that all devices of the back end copy it as ``pinned`` memory; None where that is refused. The
        caller releases the lock before the array frees its memory.
        """
        return None

    def current(self) -> AbstractContextManager[object]:
        """A context manager around several calls of one device in a thread that uses several by turns: that takes less than each alone."""
        return nullcontext()

    @abstractmethod
    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        """A new queue."""

    def foreign_queue(self, stream: int) -> Queue:
        """A queue for commands in another library's stream, which that library goes on to own; CUDA only, ArgumentError elsewhere."""
        raise ArgumentError(f"{self.info.id} has no streams of other libraries; they belong to CUDA devices")

    @abstractmethod
    def default_queue(self) -> Queue:
        """The in-order queue that routines use, created once."""

    def together(self, others: Sequence[Device] = ()) -> tuple[Device, ...]:
        """New Device objects for this device and ``others`` of its platform in one context, so that queues of each use memory and events
        of all.

        Release each one; the context is released with the last. Raises DeviceError where the back end has no such contexts.
        """
        raise DeviceError(f"{self.info.id} has no contexts of several devices")

    @abstractmethod
    def release(self) -> None:
        """Release the context and everything in it; a second call does nothing."""

    def abandon(self) -> None:
        """Never call the driver again, not even to release: this process was forked from the one that opened the device."""
        self.generation += 1
        self.abandoned = True

    def check_own(self) -> None:
        """Raise UsageError in a process that was forked from the one that opened the device."""
        if self.abandoned:
            raise UsageError(
                f"{self.info.id} belongs to the process that this one was forked from, and no driver survives a fork: start "
                "processes with multiprocessing.get_context('spawn'), or fork before portatile first looks for devices"
            )

    def __repr__(self) -> str:
        return f"<{self.info.id}: {self.info.name}>"
