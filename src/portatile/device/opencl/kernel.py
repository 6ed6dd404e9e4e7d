"""A loaded program and its kernels: which NDRanges they run, and how their arguments are set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from portatile.device import ranges
from portatile.device.base import Argument
from portatile.device.copies import complaint
from portatile.device.module import LoadedKernel, Module
from portatile.device.opencl.context import ClContext
from portatile.device.opencl.driver import cl
from portatile.device.opencl.memory import ClImage, ClMemory
from portatile.errors import ArgumentError, LaunchError
from portatile.images import Sampler, check_form
from portatile.records import Binary, Entry, Resources, Size3

_COUNTED_BY_POCL = 2**32 - 1  # work-groups of a launch: a larger number overflows PoCL's counter, which may abort the process


class ClKernel(LoadedKernel):
    """A ``pyopencl.Kernel``. Its arguments are its state, hence the lock between setting them and queueing."""

    def __init__(self, device: ClContext, handle: Any, entry: Entry, resources: Resources) -> None:
        self.name, self.entry, self.resources = entry.name, entry, resources
        self.device = device
        self.handle = handle
        self.lock = threading.Lock()
        self.count: int = handle.num_args
        # pyopencl's set_arg takes 9 us to look up a NumPy scalar's type; this takes its bytes in 0.1 us
        self.set_bytes = getattr(handle, "_set_arg_buf", handle.set_arg)
        self._last: list[object] = [None] * self.count  # serial numbers instead of the memory itself, which must not be kept alive
        self.legal: set[tuple[Size3, Size3]] = set()
        info = cl.kernel_work_group_info
        # NVIDIA reports 256 even for kernels that require and run more, and refuses what it cannot run
        limit: int = handle.get_work_group_info(info.WORK_GROUP_SIZE, device.cl_device)
        self._limit = device.info.max_work_group_size if device.nvidia else min(limit, device.info.max_work_group_size)
        self._groups = _COUNTED_BY_POCL if "Portable Computing Language" in device.info.platform else None
        self._static: int = handle.get_work_group_info(info.LOCAL_MEM_SIZE, device.cl_device)

    def check(self, global_size: Size3, local_size: Size3) -> None:
        """Raise LaunchError for an NDRange that the device cannot run; legal ones are cached."""
        ranges.check(self, self.device.info, self._limit, global_size, local_size, self._groups)
        self.check_local(0)
        self.legal.add((global_size, local_size))

    def check_local(self, dynamic: int) -> None:
        """Raise LaunchError for more local memory than the device has: PoCL accepts it silently or aborts the process.

        NVIDIA reports 48 KB but runs static arrays well past that, and refuses what does not fit.
        """
        static = 0 if self.device.nvidia else self._static
        limit = self.device.info.local_memory
        if static + dynamic > limit:
            message = f"{static + dynamic} bytes of local memory ({dynamic} of them as arguments)"
            raise LaunchError(f"kernel {self.name!r} needs {message}; {self.device.info.id} has {limit}")

    def set_args(self, args: Sequence[Argument]) -> None:
        """Set the arguments that differ from the last launch's, which the driver keeps; the caller holds the lock."""
        if len(args) != self.count:
            names = ", ".join(p.name for p in self.entry.parameters)
            raise LaunchError(f"kernel {self.name!r} takes {self.count} arguments ({names}), not {len(args)}")
        device, set_arg, set_bytes, last = self.device, self.handle.set_arg, self.set_bytes, self._last
        peers = device.peers
        passed: Sequence[Any] = args
        dynamic = index = 0
        try:
            for index, arg in enumerate(passed):
                kind = type(arg)
                if last[index] is arg and kind is not int and kind is not np.void:  # true for most arguments of most launches
                    continue
                if (kind is ClMemory or kind is ClImage) and (arg.device is device or arg.device in peers) and arg.handle is not None:
                    if last[index] != arg.serial:
                        if kind is ClImage:
                            check_form(self.entry, index, arg.form)
                        last[index] = None  # so that an interrupt between the driver's call and our record of it does no harm
                        set_arg(index, arg.handle)
                        last[index] = arg.serial
                elif isinstance(arg, np.generic):
                    if last[index] is not arg or kind is np.void:  # a structure is the only scalar type that is mutable
                        last[index] = None
                        set_bytes(index, arg)
                        last[index] = arg
                elif kind is int:
                    dynamic += arg
                    if last[index] != arg:
                        last[index] = None
                        set_arg(index, cl.LocalMemory(arg))
                        last[index] = arg
                elif kind is Sampler:
                    if last[index] != arg:
                        last[index] = None
                        set_arg(index, device.sampler(arg))
                        last[index] = arg
                else:
                    raise LaunchError(f"argument {self.argument(index)}: {complaint(arg, device)}")
        except cl.Error as error:
            raise LaunchError(f"argument {self.argument(index)} does not take {_name(args[index])}: {error}") from None
        if dynamic:
            self.check_local(dynamic)

    def copy(self) -> ClKernel:
        """Another object for the same kernel, with its own argument values."""
        try:
            handle = cl.Kernel(self.handle.program, self.entry.symbol)
        except cl.Error as error:
            raise LaunchError(f"kernel {self.name!r} cannot be created again: {error}") from None
        return ClKernel(self.device, handle, self.entry, self.resources)

    def release(self) -> None:
        """Release the driver's kernel."""
        self.handle = self.set_bytes = None


def _name(arg: object) -> str:
    return arg.dtype.name if isinstance(arg, np.generic) else type(arg).__name__


class ClModule(Module):
    """A built program."""

    def __init__(self, device: ClContext, program: Any, binary: Binary) -> None:
        self._device, self._program, self._binary = device, program, binary
        self._kernels: dict[str, ClKernel] = {}

    def kernel(self, name: str) -> LoadedKernel:
        kernel = self._kernels.get(name)
        if kernel is None:
            entry = self._binary.entry(name)
            try:
                handle = cl.Kernel(self._program, entry.symbol)
            except cl.Error as error:
                raise ArgumentError(f"the binary has no kernel {name!r}: {error}") from None
            kernel = self._kernels[name] = ClKernel(self._device, handle, entry, self._binary.resources.get(name, Resources()))
        return kernel

    def release(self) -> None:
        for kernel in self._kernels.values():
            kernel.release()
        self._kernels.clear()
        self._program = None
