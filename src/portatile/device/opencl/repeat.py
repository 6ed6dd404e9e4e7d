"""Repeated launches: each has its own kernel object, so that arguments which stay the same are set only once.

Launches of one kernel otherwise share a kernel object, and a plan of many launches sets most arguments again for each. That takes the host
as long as the launch itself, and longer than small launches take on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

from portatile.device.base import Argument, ReadyLaunch
from portatile.device.launches import Repeat, Slot
from portatile.device.opencl.kernel import ClKernel
from portatile.device.opencl.launch import sizes
from portatile.device.opencl.memory import ClMemory
from portatile.device.opencl.queue import ClQueue
from portatile.records import TensorMap


class _Step(NamedTuple):
    """A launch: its own kernel, the kernel's handle as the driver takes it, and both sizes as C arrays."""

    kernel: ClKernel
    launch: ReadyLaunch
    handle: int
    global_size: Any
    local_size: Any


class ClRepeat(Repeat):
    """Launches that are queued without events. Thread-safe."""

    def __init__(self, launches: Sequence[ReadyLaunch]) -> None:
        self._steps: list[_Step] = []
        for launch in launches:
            assert isinstance(launch.kernel, ClKernel)
            own = launch.kernel.copy()
            own.check(launch.global_size, launch.local_size)
            self._steps.append(_Step(own, launch, own.handle.int_ptr, sizes(launch.global_size), sizes(launch.local_size)))
        # a map contains an address, which devices that share the context may change
        self._device = self._steps[0].kernel.device if any(map(_maps, launches)) else None
        self._last: list[object] = []  # the values of the arguments: serial numbers of memory, and numbers
        self._lock = Lock()

    def run(self, queue: Any, values: Sequence[Any]) -> bool:  # a ClQueue; an assertion would cost every launch
        enqueue = queue.bare
        if enqueue is None or (self._device is not None and self._device.peers):
            return False
        given = [value.serial if type(value) is ClMemory and value.handle is not None else value for value in values]
        with self._lock:
            last = self._last
            if len(last) != len(given) or any(one is not other for one, other in zip(given, last, strict=True)):
                self._set(values)
                self._last = given
            handle = queue.cl_queue.int_ptr
            for step in self._steps:
                if enqueue(handle, step.handle, 3, None, step.global_size, step.local_size, 0, None, None):
                    self._raise_reason(queue, step, values)
        return True

    def _set(self, values: Sequence[Any]) -> None:
        self._last = []
        for step in self._steps:
            step.kernel.set_args(_filled(step.launch, values))

    def _raise_reason(self, queue: ClQueue, step: _Step, values: Sequence[Any]) -> None:
        """Repeat through pyopencl a launch that the driver refused, which raises the reason."""
        self._last = []
        queue.launch(step.kernel, step.launch.global_size, step.launch.local_size, _filled(step.launch, values))

    def release(self) -> None:
        """Release the driver's kernels."""
        with self._lock:
            for step in self._steps:
                step.kernel.release()
            self._steps.clear()


def _filled(launch: ReadyLaunch, values: Sequence[Any]) -> list[Argument]:
    """A launch's arguments with the values of a run."""
    return [arg if not isinstance(arg, Slot) else _given(arg, values[arg.place]) for arg in launch.args]


def _maps(launch: ReadyLaunch) -> bool:
    """Whether a launch takes tensor maps."""
    return any(isinstance(arg, Slot) and isinstance(arg.kind, TensorMap) for arg in launch.args)


def _given(slot: Slot, value: Any) -> Any:
    if isinstance(slot.kind, TensorMap):
        return value.device.tensor_map(value, slot.kind)
    return value if isinstance(value, ClMemory) else slot.kind(value)
