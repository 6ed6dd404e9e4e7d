"""A loaded cubin and its kernels: which NDRanges they run, and how their arguments are packed for the driver."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from portatile.device import ranges
from portatile.device.base import Argument, Memory
from portatile.device.copies import complaint
from portatile.device.cuda import early_start
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, failure, running
from portatile.device.cuda.memory import CudaImage, CudaMemory
from portatile.device.module import LoadedKernel, Module
from portatile.errors import ArgumentError, DeviceError, LaunchError
from portatile.images import Sampler, check_form
from portatile.records import Binary, Entry, Resources, Size3

LOCAL_ALIGNMENT = 128  # bytes; every __local argument starts at a multiple of it
_RESERVED = 1024  # bytes of shared memory per multiprocessor that the driver reserves for each block
_DEFAULT_DYNAMIC = 48 * 1024  # bytes of shared memory that need no opt-in
_MAX_GRID = (2**31 - 1, 65535, 65535)
_SCALARS = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"}
_SCALARS |= {"int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}
_BYTES = (np.void, np.complex64, np.complex128)
"""Structures, and complex numbers, which kernels take as vectors of two: packed byte by byte."""


class _Layout:
    """The parameter block of a kernel for one sequence of argument types: packed in place, read by the driver at the launch.

    The block holds memory addresses first, then scalars, local arguments, samplers, images and structures; ``pointers`` holds the address
    of each parameter, in the kernel's order.
    """

    def __init__(self, kinds: Sequence[type], formats: Sequence[str]) -> None:
        def places(wanted: Callable[[type], bool]) -> tuple[int, ...]:
            return tuple(i for i, kind in enumerate(kinds) if wanted(kind))

        self.memories = places(_is_memory)
        self.locals = places(lambda kind: kind is int)
        self.images = places(lambda kind: kind is CudaImage)
        self.structures = places(lambda kind: kind in _BYTES)
        self.samplers = places(lambda kind: kind is Sampler)
        self.scalars = places(lambda kind: not _is_memory(kind) and kind not in (int, CudaImage, Sampler, *_BYTES))
        order = (*self.memories, *self.scalars, *self.locals, *self.samplers, *self.images, *self.structures)
        self.struct, self.block, self.pointers = parameter_block(formats, order)
        self.address = ctypes.addressof(self.pointers)


def _is_memory(kind: type) -> bool:
    """Whether the type is passed as a device pointer: any memory but images, including that of graphs."""
    return issubclass(kind, CudaMemory) and kind is not CudaImage


def parameter_block(formats: Sequence[str], order: Sequence[int]) -> tuple[struct.Struct, ctypes.Array[ctypes.c_char], Any]:
    """Memory for parameters of these ``struct`` formats, laid out in ``order``: the packer, the block, and a pointer to each parameter."""
    packing = struct.Struct("".join(formats[i] for i in order))
    block = ctypes.create_string_buffer(packing.size + 1)
    offsets, ahead = {}, ""
    for i in order:
        offsets[i] = struct.calcsize(ahead + _first_member(formats[i])) - struct.calcsize(_first_member(formats[i]))
        ahead += formats[i]
    base = ctypes.addressof(block)
    return packing, block, (ctypes.c_void_p * max(len(order), 1))(*(base + offsets[i] for i in range(len(order))))


def _first_member(piece: str) -> str:
    """The format of a parameter's first member, whose alignment decides where the parameter begins; a structure counts as one member."""
    return piece if piece[0].isdigit() else piece[0]


class CudaKernel(LoadedKernel):
    """A ``CUfunction``. Its parameter blocks are shared by all launches, hence the lock between packing and queueing.

    The kernel keeps ``module`` loaded.
    """

    def __init__(
        self, device: CudaContext, function: Any, entry: Entry, resources: Resources, module: object = None, early: bool = False
    ) -> None:
        self.name, self.entry = entry.name, entry
        self.module = module
        self.device = device
        self.function = function
        self.lock = threading.Lock()
        self.grids: dict[tuple[Size3, Size3], tuple[int, ...]] = {}
        self.layouts: dict[tuple[type, ...], _Layout] = {}
        self.early = early and early_start.supported(device.info.architecture)
        self._starts: dict[tuple[tuple[int, ...], int], early_start.Start] = {}
        names = driver.CUfunction_attribute
        self._limit = int(call(driver.cuFuncGetAttribute, names.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function))
        self.static = int(call(driver.cuFuncGetAttribute, names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
        self._opted = _DEFAULT_DYNAMIC - self.static
        registers = int(call(driver.cuFuncGetAttribute, names.CU_FUNC_ATTRIBUTE_NUM_REGS, function))
        stack = int(call(driver.cuFuncGetAttribute, names.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function))
        known = resources if resources.registers >= 0 else Resources(registers, local_memory=self.static, stack=stack)
        self.resources = known
        self._sizes = self._parameter_sizes()

    def grid(self, global_size: Size3, local_size: Size3) -> tuple[int, ...]:
        """Blocks and threads in each dimension; raises LaunchError for an NDRange that the device cannot run."""
        ranges.check(self, self.device.info, self._limit, global_size, local_size)
        blocks = tuple(g // n for g, n in zip(global_size, local_size, strict=True))
        if any(n > most for n, most in zip(blocks, _MAX_GRID, strict=True)):
            what = ranges.named(self, self.device.info, global_size, local_size)
            raise LaunchError(f"{what}: {blocks} work-groups; at most {_MAX_GRID} in each dimension")
        grid = self.grids[global_size, local_size] = (*blocks, *local_size)
        return grid

    def prepared(self, grid: tuple[int, ...], dynamic: int) -> early_start.Start:
        """The cached result of ``start`` for a grid; the caller holds the lock."""
        found = self._starts.get((grid, dynamic))
        if found is None:
            found = self._starts[grid, dynamic] = self.start(grid, dynamic)
        return found

    def start(self, grid: tuple[int, ...], dynamic: int) -> early_start.Start:
        """A function that launches a grid with ``dynamic`` bytes of dynamic local memory; see ``early_start.launching`` for its arguments.

        For a kernel that starts early, calls of the function must not overlap: the caller holds a lock.
        """
        if not self.early:
            return partial(driver.cuLaunchKernel, self.function, *grid, dynamic)
        return early_start.launching(self.function, grid, dynamic)

    def spread(self, grid: tuple[int, ...], dynamic: int) -> int:
        """The dynamic local memory that keeps every multiprocessor from taking more than an even share of a grid that starts early.

        After a launch with little local memory, a short grid was observed to take twice as long. The probable reason is that the
        multiprocessors of the earlier launch still have its memory carveout, while the others take as many work-groups as they can hold.
        """
        if not self.early:
            return dynamic
        each, whole = -(-math.prod(grid[:3]) // max(self.device.info.compute_units, 1)), self.device.info.local_memory + _RESERVED
        if whole // (self.static + dynamic + _RESERVED) <= each:
            return dynamic
        share = whole // each - _RESERVED - self.static
        share -= share % LOCAL_ALIGNMENT
        if share <= dynamic:
            return dynamic
        self.opt_in(share)
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        call(driver.cuFuncSetAttribute, self.function, attribute, 100)
        return share

    def opt_in(self, dynamic: int) -> None:
        """Opt in to ``dynamic`` bytes of local memory; raises LaunchError if there is not so much."""
        if dynamic <= self._opted:
            return
        limit = self.device.info.local_memory
        if self.static + dynamic > limit:
            message = f"{self.static + dynamic} bytes of local memory ({dynamic} of them as arguments)"
            raise LaunchError(f"kernel {self.name!r} needs {message}; {self.device.info.id} has {limit}")
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        error = driver.cuFuncSetAttribute(self.function, attribute, dynamic)[0]
        if int(error):
            raise LaunchError(str(failure(error, f"kernel {self.name!r} with {dynamic} bytes of local memory")))
        self._opted = dynamic

    def pack(self, args: Sequence[Argument]) -> tuple[int, int]:
        """Write the arguments into the parameter block; the caller holds the lock.

        Returns the address of the array of parameter pointers, and the bytes of dynamic local memory.
        """
        device = self.device
        types = tuple(map(type, args))
        layout = self.layouts.get(types)
        if layout is None:
            layout = self.layouts[types] = self._layout(args, types)
        # memory of another device is omitted: then packing fails, and the error below names the argument
        values: list[Any] = [memory.handle for i in layout.memories if (memory := args[i]).device is device]  # type: ignore[union-attr]
        values += [args[i] for i in layout.scalars]
        dynamic = 0
        for i in layout.locals:
            values.append(dynamic)
            dynamic += -(-args[i] // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT  # type: ignore[operator]
        values += [args[i].bits for i in layout.samplers]  # type: ignore[union-attr]
        for i in layout.images:
            check_form(self.entry, i, args[i].form)  # type: ignore[union-attr]
            values += args[i].fields()  # type: ignore[union-attr]
        for i in layout.structures:
            self._check_size(i, args[i].nbytes)  # type: ignore[union-attr]
            values.append(args[i].tobytes())  # type: ignore[union-attr]
        try:
            layout.struct.pack_into(layout.block, 0, *values)
        except struct.error as error:
            for i, arg in enumerate(args):
                if isinstance(arg, Memory) and (arg.handle is None or arg.device is not device):
                    raise LaunchError(f"argument {self.argument(i)}: {complaint(arg, device)}") from None
            raise LaunchError(f"arguments of kernel {self.name!r}: {error}") from None
        if dynamic > self._opted:
            self.opt_in(dynamic)
        return layout.address, dynamic

    def _layout(self, args: Sequence[Argument], types: Sequence[type]) -> _Layout:
        """The parameter block for arguments of these types."""
        return _Layout(types, self.formats(args))

    def formats(self, args: Sequence[Argument]) -> list[str]:
        """The format in which each argument is packed; raises LaunchError for arguments that do not fit the kernel's parameters."""
        count = len(self._sizes) if self._sizes is not None else len(self.entry.parameters)
        if len(args) != count and (self._sizes is not None or self.entry.parameters):
            names = ", ".join(p.name for p in self.entry.parameters)
            raise LaunchError(f"kernel {self.name!r} takes {count} arguments ({names}), not {len(args)}")
        formats = []
        for i, arg in enumerate(args):
            piece = self._format(i, arg)
            self._check_size(i, struct.calcsize(piece), arg.dtype.name if isinstance(arg, np.generic) else type(arg).__name__)
            formats.append(piece)
        return formats

    def _check_size(self, index: int, nbytes: int, given: str = "a structure") -> None:
        if self._sizes is not None and nbytes != self._sizes[index]:
            raise LaunchError(f"argument {self.argument(index)} has {self._sizes[index]} bytes and does not take {given} of {nbytes}")

    def _format(self, index: int, arg: Argument) -> str:
        if isinstance(arg, CudaImage):
            check_form(self.entry, index, arg.form)
            return arg.layout
        if isinstance(arg, Sampler):
            return "I"
        if isinstance(arg, CudaMemory):
            return "Q"
        if type(arg) is int:
            return "I"
        if isinstance(arg, _BYTES):
            return f"{arg.nbytes}s"
        if isinstance(arg, np.generic) and arg.dtype.name in _SCALARS:
            return _SCALARS[arg.dtype.name]
        raise LaunchError(f"argument {self.argument(index)}: {complaint(arg, self.device)}")

    def _parameter_sizes(self) -> tuple[int, ...] | None:
        """The bytes of each parameter, if the driver reports them (CUDA 12.4 and newer)."""
        query = getattr(driver, "cuFuncGetParamInfo", None)
        if query is None:
            return None
        sizes: list[int] = []
        while True:
            try:
                error, *values = query(self.function, len(sizes))
            except RuntimeError:  # the driver is older than the bindings
                return None
            if int(error):
                return tuple(sizes)
            sizes.append(int(values[1]))


class CudaModule(Module):
    """A loaded cubin."""

    def __init__(self, device: CudaContext, module: Any, binary: Binary) -> None:
        self._device, self._module, self._binary = device, module, binary
        self._generation = device.generation
        self._kernels: WeakValueDictionary[str, CudaKernel] = WeakValueDictionary()  # each kernel keeps the module alive

    def kernel(self, name: str) -> LoadedKernel:
        kernel = self._kernels.get(name)
        if kernel is None:
            entry = self._binary.entry(name)
            with self._device.current():
                try:
                    function = call(driver.cuModuleGetFunction, self._module, entry.symbol.encode())
                except DeviceError as error:
                    raise ArgumentError(f"the binary has no kernel {name!r}: {error}") from None
                if self._binary.carveout >= 0:
                    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
                    call(driver.cuFuncSetAttribute, function, attribute, self._binary.carveout)
                resources = self._binary.resources.get(name, Resources())
                kernel = CudaKernel(self._device, function, entry, resources, self, self._binary.early_start)
            self._kernels[name] = kernel
        return kernel

    def release(self) -> None:
        module, self._module = self._module, None
        self._kernels.clear()
        if module is not None and self._generation == self._device.generation:
            with self._device.relaxed():  # the module may be garbage-collected while a stream is being captured
                driver.cuModuleUnload(module)

    def __del__(self) -> None:
        if running and getattr(self, "_module", None) is not None:
            self.release()
