"""Launches whose parameter blocks lie ready: a run writes addresses and numbers in place and calls the driver once for each.

That takes the host half as long as a launch whose arguments are looked at one by one.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from portatile.device.base import Argument, Memory, Queue, Ready, ReadyLaunch, Slot
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, failure
from portatile.device.cuda.kernel import LOCAL_ALIGNMENT, CudaKernel, parameter_block
from portatile.device.cuda.memory import CudaMemory
from portatile.device.cuda.queue import CudaQueue
from portatile.images import Sampler


class PackedLaunches(Ready):
    """Ready launches of one device.

    The blocks are its own, and written by each run: whoever runs it holds a lock.
    """

    def __init__(self, device: CudaContext, launches: Sequence[ReadyLaunch]) -> None:
        self._device = device
        self._number = device.context[1]
        with device.current():
            packed = [_packed(device, launch) for launch in launches]
        self._steps = tuple(step for step, _ in packed)
        self._pointers = [pointers for _, pointers in packed]  # kept: the driver is given their address alone
        self._names = tuple(launch.kernel.name for launch in launches)

    def run(self, queue: Queue, values: Sequence[float], borrows: bool) -> None:
        assert isinstance(queue, CudaQueue)
        if int(driver.cuCtxGetCurrent()[1]) != self._number:
            with self._device.current():
                self.run(queue, values, borrows)
            return
        launch, stream = driver.cuLaunchKernel, queue.stream
        if borrows:
            queue.enter()
        for place, (write, block, pick, function, x, y, z, wide, high, deep, dynamic, address) in enumerate(self._steps):
            write(block, 0, *pick(values))
            error = launch(function, x, y, z, wide, high, deep, dynamic, stream, address, 0)[0]
            if error:
                raise failure(error, f"kernel {self._names[place]!r}, {(x, y, z)} work-groups of {(wide, high, deep)}")
        if borrows and queue.last is not None:  # as CudaQueue.leave does where nothing is captured
            call(driver.cuEventRecord, queue.last, stream)


_Step = tuple[Any, ...]
"""What writes the gaps, the block, what picks their values, the function, the grid, the block of threads, local memory, the parameters."""


def _packed(device: CudaContext, launch: ReadyLaunch) -> tuple[_Step, Any]:
    """A launch with its constants written; the gaps lie first in the block, so that one call writes them."""
    kernel, args = launch.kernel, launch.args
    assert isinstance(kernel, CudaKernel)
    gaps = [i for i, arg in enumerate(args) if isinstance(arg, Slot)]
    constant = [i for i, arg in enumerate(args) if not isinstance(arg, Slot)]
    formats = kernel.formats([_stand_in(device, arg) for arg in args])
    packing, block, pointers = parameter_block(formats, [*gaps, *constant])
    settled: list[Any] = []
    dynamic = 0
    for arg in (args[i] for i in constant):
        if type(arg) is int:  # where a __local argument begins
            settled.append(dynamic)
            dynamic += -(-arg // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT
        else:
            settled.append(arg.bits if isinstance(arg, Sampler) else arg)
    packing.pack_into(block, 0, *([0] * len(gaps)), *settled)
    kernel.opt_in(dynamic)
    grid = kernel.grids.get((launch.global_size, launch.local_size)) or kernel.grid(launch.global_size, launch.local_size)
    places = [arg.place for arg in args if isinstance(arg, Slot)]
    write = struct.Struct("".join(formats[i] for i in gaps)).pack_into
    step = (write, block, _picking(places), kernel.function, *grid, dynamic, ctypes.addressof(pointers))
    return step, pointers


def _stand_in(device: CudaContext, arg: Argument | Slot) -> Argument:
    """What has the type of an argument, for the check against the kernel's parameters."""
    if not isinstance(arg, Slot):
        return arg
    return CudaMemory(device, 0, 0, owner="nobody") if arg.kind is Memory else arg.kind(0)


def _picking(places: Sequence[int]) -> Callable[[Sequence[float]], Sequence[float]]:
    """A function that picks the values of these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: [values[place] for place in places]
