"""The interface that every back end implements: a Device loads kernels and allocates memory, a Queue runs commands in order.

Device, Queue and Memory refer to each other, so they share a file. They know nothing of dialects, tuning or workloads. ``backend.py``
defines what a back end is, ``target.py`` its compiler; events, loaded kernels and prepared launches have files of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
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

PART_ALIGNMENT = 4096  # bytes; OpenCL requires at least the size of the largest vector, 128, and drivers require more


class Memory(Releasable):
    """A block of device memory. Released by ``release``, by ``with``, or with its last reference."""

    nbytes: int
    device: Device
    generation = 0
    """The device's ``generation`` when the memory was allocated."""
    views: dict[ImageForm, Image] | None = None
    """Images over this memory, made by ``Device.image_over``; they are released with it."""

    @property
    @abstractmethod
    def handle(self) -> Any:
        """The back end's own object: a ``pyopencl.Buffer`` or an integer device pointer."""

    @property
    def alive(self) -> bool:
        """Whether the memory can be used: neither it nor its device was released."""
        return self.handle is not None and self.generation == self.device.generation

    def release_views(self) -> None:
        """Release the images over this memory."""
        views, self.views = self.views, None
        for view in (views or {}).values():
            view.release()


class Image(Memory):
    """Device memory that kernels read and write as pixels; ``form`` holds its type, shape and dtype."""

    form: ImageForm
    copied: bool = False
    """Whether it holds a copy of other memory that is made before each launch: some drivers cannot make an image over part of a buffer."""


Argument = Memory | np.generic | int | Sampler  # an int is the size of a __local argument in bytes


class ReadyLaunch(NamedTuple):
    """A kernel, its NDRange in work-items, and its arguments; a Slot stands for an argument that is given at each run."""

    kernel: LoadedKernel
    global_size: Size3
    local_size: Size3
    args: Sequence[Argument | Slot]


class Ready(ABC):
    """Launches with prepacked arguments: a run writes its values into the slots and passes the launches to the driver. Not thread-safe."""

    @abstractmethod
    def run(self, queue: Queue, values: Sequence[float], borrows: bool) -> bool:
        """Queue the launches in order; does not wait. Returns whether they ran as one graph, which ``replay`` may repeat.

        ``values`` are addresses and numbers, in the order of ``Slot.place``. ``borrows``: some addresses belong to memory of the device's
        own pool; if the queue is another library's stream, that memory must not be reused before these launches end. Raises OverflowError
        for a number that does not fit its type, before that launch is queued.
        """

    def replay(self, queue: Queue, values: Sequence[float], borrows: bool) -> Callable[[], bool] | None:
        """A function that queues the same graph again, and returns False, with nothing done, if it cannot; None where there is no graph."""
        return None


class Queue(Releasable):
    """Commands in order. A method blocks only if its name or ``blocking`` says so."""

    device: Device
    profiling: bool
    out_of_order: bool

    @property
    def capturing(self) -> bool:
        """Whether another library is capturing the commands of this queue into a graph, which runs them later."""
        return False

    def of_graph(self, place: Hashable, nbytes: int, zeroed: bool) -> Memory:
        """Memory that belongs to the graph being captured and lives as long as the graph; CUDA only. The caller does not release it.

        Later calls during the same capture get the same memory for the same ``place`` and ``zeroed``. ``zeroed`` memory holds zeros before
        the graph's first run, and the graph's commands restore the zeros. Raises DeviceError on other back ends, and where there is not
        enough memory.
        """
        raise DeviceError(f"{self.device.info.id} captures no graphs")

    def keep_in_graph(self, used: Iterable[object]) -> None:
        """Keep kernels and memory that the captured launches use alive as long as the graph."""

    def forget_graph(self) -> None:
        """Have ``of_graph`` return new memory, after a call failed that had written to the old memory."""

    @abstractmethod
    def launch(
        self, kernel: LoadedKernel, global_size: Size3, local_size: Size3, args: Sequence[Argument], wait: Sequence[Event] = ()
    ) -> Event | None:
        """Run a kernel over an NDRange of work-items.

        The event is None unless the queue profiles, is out of order, or ``wait`` is given. An ``int`` among ``args`` is the size of a
        ``__local`` argument in bytes; scalars are NumPy scalars. Raises LaunchError, with nothing queued, where arguments or sizes do not
        fit.
        """

    @abstractmethod
    def upload(self, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        """Copy a C-contiguous host array to ``target``, ``offset`` bytes into it; an image takes a whole array of its form.

        With ``blocking=False`` the array must not change until the event is done; the queue keeps it alive.
        """

    def send(self, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
        """Upload without blocking and without an event; the caller keeps the array, unchanged, until the queue has finished."""
        self.upload(target, array, offset, blocking=False)

    @abstractmethod
    def download(self, array: NDArray[Any], source: Memory, offset: int = 0, blocking: bool = True, wait: Sequence[Event] = ()) -> Event:
        """Copy from ``source``, ``offset`` bytes into it, to a C-contiguous host array; the counterpart of ``upload``.

        Memory that ``Device.share`` made of this same array is not copied; afterwards the host sees what kernels wrote.
        """

    def fetch(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        """Download without blocking and without an event; the caller keeps the array until the queue has finished."""
        self.download(array, source, offset, blocking=False)

    def send_rows(self, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
        """As ``send``, packing a page-locked matrix with gaps between its rows; only for devices with ``locks_pages``."""
        raise NotImplementedError

    def fetch_rows(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        """As ``fetch``, into a matrix with gaps between its rows in page-locked memory; the counterpart of ``send_rows``."""
        raise NotImplementedError

    def sending(self, target: Memory, array: NDArray[Any]) -> Callable[[], object]:
        """A function that calls ``send(target, array)`` with less overhead; valid as long as both arguments live."""
        return partial(self.send, target, array)

    def fetching(self, array: NDArray[Any], source: Memory) -> Callable[[], object]:
        """A function that calls ``download(array, source)``, without an event and with less overhead; valid while both arguments live."""
        return partial(self.download, array, source)

    @abstractmethod
    def copy(
        self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0, wait: Sequence[Event] = ()
    ) -> Event:
        """Copy between buffers of one device, or from a buffer to a whole image (``nbytes`` of packed pixels)."""

    def copy_rows(self, target: Memory, source: Memory, rows: CopiedRows) -> None:
        """Copy rows with gaps between them between buffers of one device."""
        for row in range(rows.number):
            target_at, source_at = rows.target_offset + row * rows.target_step, rows.source_offset + row * rows.source_step
            self.copy(target, source, rows.nbytes, target_at, source_at)

    def receive(self, target: Memory, source: Memory, nbytes: int, target_offset: int = 0, source_offset: int = 0) -> bool:
        """Copy from another device's memory without passing through the host; does not wait. All writes to ``source`` must have finished.

        False, with nothing done, where the driver has no such copies.
        """
        return False

    @abstractmethod
    def fill(self, target: Memory, pattern: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        """Repeat ``pattern`` (1, 2 or 4 bytes) over ``nbytes`` of ``target``, a multiple of the pattern's size."""

    @abstractmethod
    def marker(self) -> Event:
        """An event after everything that is queued so far."""

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
        """Submit queued commands to the device."""

    @abstractmethod
    def finish(self) -> None:
        """Block until all queued commands are done."""


class Device(Releasable):
    """One physical device through one back end. Making the object costs nothing; the context is created at first use.

    After ``release`` the next use creates a new context. ``generation`` counts contexts; objects of an earlier generation are invalid.
    After ``abandon`` every use raises UsageError.
    """

    info: DeviceInfo
    target: Target
    generation = 0
    abandoned = False
    spare: Callable[[], bool] = staticmethod(lambda: False)
    """Called when an allocation fails: frees memory that is kept for reuse, and returns whether there was any."""

    @property
    def memory_rate(self) -> float:
        """The memory's peak bandwidth in bytes per second, from the clock and bus width that the driver reports; 0 if unknown."""
        return 0.0

    @abstractmethod
    def load(self, binary: Binary) -> Module:
        """Load compiled kernels; raises CompileError if the driver refuses them."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Memory:
        """Allocate device memory; raises DeviceError if there is not enough."""

    def exchanges(self, other: Device) -> bool:
        """Whether data is copied between the two devices without passing through host memory, see ``Queue.receive``."""
        return False

    def is_open_to(self, other: Device) -> bool:
        """Whether ``open_to`` has nothing to do."""
        return True

    def open_to(self, other: Device) -> None:
        """Enable peer access: let another device read and write this one's memory, which makes copies between them faster, where the back
        end can.

        This is slow, happens once, and waits for both devices: call it before copies begin, while no other thread uses either device.
        """

    def adopt(self, pointer: int, nbytes: int, owner: object) -> Memory:
        """Wrap another library's device memory, without a copy; CUDA only, ArgumentError elsewhere. ``owner`` is kept alive."""
        raise ArgumentError(f"{self.info.id} cannot use another library's memory; that takes a CUDA device")

    def image(self, width: int, height: int, channels: int, dtype: str) -> Image:
        """An ``image2d_t`` of ``height`` x ``width`` pixels with ``channels`` of ``dtype``; see ``image_of``."""
        return self.image_of(ImageForm("image2d_t", (height, width, channels), dtype))

    @abstractmethod
    def image_of(self, form: ImageForm) -> Image:
        """Device memory that kernels sample; raises LaunchError where the device has no images of that form."""

    def tensor_map(self, memory: Memory, form: TensorMap) -> np.void:
        """A tensor map, with which a kernel copies tiles of a matrix in ``memory``; raises LaunchError where the device has none."""
        raise LaunchError(f"{self.info.id} has no tensor maps")

    def image_over(self, memory: Memory, form: ImageForm) -> Image:
        """The first bytes of ``memory`` as an ``image1d_buffer_t`` that kernels read; it is released with the memory.

        Nothing is copied, unless ``memory`` is a part of other memory and the driver cannot make an image over a part; then the image is
        ``copied``. A second call gives the same image. Raises LaunchError where the device has no such image, ArgumentError if it would be
        larger than the memory.
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
        """``nbytes`` of ``memory`` from byte ``offset`` on, without a copy. The part keeps the whole alive; release the part first.

        Raises ArgumentError for a range outside of the memory, and if ``offset`` is not a multiple of ``PART_ALIGNMENT``.
        """
        if offset % PART_ALIGNMENT or min(offset, nbytes) < 0 or offset + nbytes > memory.nbytes:
            raise ArgumentError(
                f"{nbytes} bytes from byte {offset} are no part of {memory.nbytes} bytes; a part begins at a multiple of {PART_ALIGNMENT}"
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
        """The host array's own memory as device memory (zero-copy), or None where the device cannot access it in place.

        The host is certain to see what kernels wrote only after ``Queue.download`` into the same array.
        """

    def borrow(self, array: NDArray[Any]) -> Memory | None:
        """As ``share``, for an array that is used many times. The device keeps the memory object; the caller does not release it.

        None where the device does not keep such objects; call ``share`` then. The host sees what kernels wrote once the queue has finished.
        Not thread-safe.
        """
        return None

    def mapped(self, memory: Memory) -> NDArray[np.uint8] | None:
        """The memory as a host array, after the default queue has finished; None where that would need a copy. The array keeps the memory
        alive, and is valid until the device is released. Later writes are visible in it once their queue has finished.
        """
        return None

    def ready(self, launches: Sequence[ReadyLaunch]) -> Ready | None:
        """Launches with prepacked arguments, for many runs; None where the back end cannot pack them."""
        return None

    def repeat(self, launches: Sequence[ReadyLaunch]) -> Repeat | None:
        """Launches with their own kernel objects, for many runs; None where the back end has no such objects."""
        return None

    @abstractmethod
    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Pinned host memory, which the device copies at full speed; freed with its last reference, invalid once the device is released."""

    locks_pages = False  # whether ``lock`` is supported

    def lock(self, array: NDArray[Any]) -> PageLock | None:
        """Page-lock a C-contiguous host array, so that all devices of the back end copy it as fast as ``pinned`` memory; None where that is
        refused. The caller releases the lock before the array's memory is freed.
        """
        return None

    def current(self) -> AbstractContextManager[object]:
        """A context manager around several calls for one device, in a thread that uses several: cheaper than switching at each call."""
        return nullcontext()

    @abstractmethod
    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        """A new queue."""

    def foreign_queue(self, stream: int) -> Queue:
        """A queue on another library's stream, which that library still owns; CUDA only, ArgumentError elsewhere."""
        raise ArgumentError(f"{self.info.id} has no streams of other libraries; they belong to CUDA devices")

    @abstractmethod
    def default_queue(self) -> Queue:
        """The in-order queue that routines use, created once."""

    def together(self, others: Sequence[Device] = ()) -> tuple[Device, ...]:
        """New Device objects for this device and ``others`` of its platform in one shared context, so that each of their queues can use the
        memory and events of all.

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
