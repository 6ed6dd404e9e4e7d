"""A kernel in one configuration on one device, called with arrays: it uploads them, launches, and downloads the outputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import cache, execute
from portatile.device.base import Device, Memory, Queue
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.dlpack import packed
from portatile.device.foreign_arrays import caller_stream
from portatile.device.module import Module
from portatile.errors import ArgumentError
from portatile.kernel import arguments, elements
from portatile.kernel.arguments import Arguments, Array
from portatile.records import Binary, Launch, Plan, Source
from portatile.runtime.one_device.deferred import waiting

Planner = Callable[[Mapping[str, int | float]], Plan]

_SHARED_ALIGNMENT = 128  # bytes; the alignment of device memory, on which a kernel's wide vector loads may rely
_MAX_REMEMBERED = 256  # launches, and sets of scalars, that are kept


class Runner:
    """Runs the launch that ``plan`` makes for the scalars of a call. Thread-safe: calls are serialised."""

    def __init__(self, device: Device, declared: Arguments, plan: Planner) -> None:
        self.device = device
        self._declared, self._plan = declared, plan
        self._lock = threading.RLock()
        self._cache = cache.default()
        self._modules: dict[Source, Module] = {}
        self._executables: dict[object, execute.Executable] = {}
        self._of_scalars: dict[tuple[int | float, ...], execute.Executable] = {}
        self._streams: dict[int, Queue] = {}
        self._generation = device.generation

    def run(self, values: Mapping[str, Any]) -> Any:
        """Launch with arguments by name; see ``Kernel.__call__``. Raises ArgumentError if only some arrays are on the host."""
        arrays = {array.name: _accept(array, values[array.name], self.device) for array in self._declared.arrays}
        on_device = {isinstance(array, Buffer) for array in arrays.values()}
        if len(on_device) > 1:
            raise ArgumentError("some arrays are on the host and some on a device; move all of them to one of these")
        _check_apart(self._declared, arrays)
        scalars = {name: elements.scalar(values[name], name, _dtype(self._declared, name)) for name in self._declared.scalars}
        whole: dict[str, Any] = {
            argument.name: elements.as_bytes(argument.given(values[argument.name])) for argument in self._declared.packed
        }
        written = [values[array.name] for array in self._declared.outputs]
        with self._lock, ExitStack() as stack:
            if self._generation != self.device.generation:  # the device was released, which unloaded everything
                for known in (self._modules, self._executables, self._of_scalars, self._streams):
                    known.clear()
                self._generation = self.device.generation
            executable = self._executable(scalars)
            waiting.calls += 1
            if on_device == {True}:
                memories = {name: array.memory for name, array in arrays.items()}
                executable.run(self._queue(written[0]), memories, scalars | whole)
            else:
                self._run_on_host_arrays(executable, arrays, scalars | whole, stack)
        return written[0] if len(written) == 1 else tuple(written)

    def _run_on_host_arrays(
        self, executable: execute.Executable, arrays: Mapping[str, NDArray[Any]], scalars: Mapping[str, Any], stack: ExitStack
    ) -> None:
        queue = self.device.default_queue()
        memories: dict[str, Memory] = {}
        for array in self._declared.arrays:
            host = arrays[array.name] if array.value.dtype.names is None else elements.flat(arrays[array.name])
            aligned = host.__array_interface__["data"][0] % _SHARED_ALIGNMENT == 0
            shared = self.device.share(host) if aligned and array.form is None else None
            memory = memories[array.name] = stack.enter_context(self._memory(array, host) if shared is None else shared)
            if shared is None and array.role != "out":
                queue.upload(memory, host, blocking=False)
        executable.run(queue, memories, scalars)
        for array in self._declared.outputs:
            queue.download(arrays[array.name], memories[array.name])
        queue.finish()

    def _memory(self, declared: Array, host: NDArray[Any]) -> Memory:
        if declared.form is None:
            return self.device.allocate(host.nbytes)
        return self.device.image_of(arguments.image(host, declared.name, declared.declared, declared.form.normalized))

    def _executable(self, scalars: Mapping[str, int | float]) -> execute.Executable:
        """The loaded launch for these scalars; programs and plans are made once."""
        numbers = tuple(scalars.values())
        if (known := self._of_scalars.get(numbers)) is not None:
            return known
        plan = self._plan(scalars)
        (step,) = plan.steps
        assert isinstance(step, Launch)
        shape = (step.source, step.global_size, step.local_size, tuple(arg.value for arg in step.args if arg.kind == "local"))
        executable = self._executables.get(shape)
        if executable is None:
            if len(self._executables) >= _MAX_REMEMBERED:
                self._executables.clear()
            executable = self._executables[shape] = execute.Executable(self.device, plan, self._build, modules=self._modules)
        if len(self._of_scalars) >= _MAX_REMEMBERED:
            self._of_scalars.clear()
        self._of_scalars[numbers] = executable
        return executable

    def _build(self, source: Source) -> Binary:
        return waiting.build(source, self.device, self._cache)

    def _queue(self, out: Any) -> Queue:
        """The queue on which the library that owns an output expects the work."""
        if isinstance(out, Buffer):
            return self.device.default_queue()
        stream = caller_stream(out)
        if stream not in self._streams:
            self._streams[stream] = self.device.foreign_queue(stream)
        return self._streams[stream]


def device_of(values: Mapping[str, Any], names: tuple[str, ...]) -> Device | None:
    """The device of the first array that is on one; None if all are on the host."""
    for name in names:
        if isinstance(values[name], Buffer) or is_cuda_array(values[name]):
            return Buffer.wrap(values[name]).device
    return None


def _accept(declared: Array, value: Any, device: Device) -> Any:
    """A NumPy array or a Buffer that matches the parameter; raises ArgumentError."""
    name = declared.name
    if declared.form is not None and not isinstance(value, np.ndarray):
        raise ArgumentError(f"argument {name} is an image; a kernel with images takes NumPy arrays, not a {type(value).__name__}")
    if isinstance(value, np.ndarray):
        if declared.role != "in" and not value.flags.c_contiguous:
            raise ArgumentError(f"argument {name} is not contiguous in memory, and the kernel writes it: pass another array for the result")
        if declared.form is None:
            arguments.array(value, name, declared.declared)
        else:
            arguments.image(value, name, declared.declared, declared.form.normalized)
        dtype = value.dtype
        if declared.role != "in" and not value.flags.writeable:
            raise ArgumentError(f"argument {name} is read-only, and the kernel writes it")
    elif isinstance(value, Buffer) or is_cuda_array(value):
        buffer = Buffer.wrap(value)
        dtype = buffer.dtype
        elements.check_elements(dtype, name, declared.declared)
        if buffer.device is not device:
            raise ArgumentError(f"argument {name} is on {buffer.device.info.id}, the kernel runs on {device.info.id}")
        if buffer.offset or buffer.size == 0 or buffer.strides != packed(buffer.shape, dtype.itemsize):
            raise ArgumentError(f"argument {name} must be a contiguous array that starts at the beginning of its memory; copy it")
    else:
        raise ArgumentError(f"argument {name} is a {type(value).__name__}; pass a NumPy array, a portatile Buffer or a CUDA array")
    if elements.real(dtype).name != declared.dtype or ((dtype.names or declared.value.dtype.names) and dtype != declared.value.dtype):
        raise ArgumentError(f"argument {name} has dtype {dtype}; the kernel was defined with {declared.value.dtype}")
    return value if isinstance(value, np.ndarray) else buffer


def _check_apart(declared: Arguments, arrays: Mapping[str, Any]) -> None:
    """Raise ArgumentError if an output shares memory with another argument."""
    for out in declared.outputs:
        for name, other in arrays.items():
            first = arrays[out.name]
            host = isinstance(first, np.ndarray)
            if name != out.name and (np.may_share_memory(first, other) if host else first.memory is other.memory):
                raise ArgumentError(f"arguments {out.name} and {name} share memory, and the kernel writes {out.name}; pass a copy")


def _dtype(declared: Arguments, name: str) -> str:
    return next(argument.dtype for argument in declared.all if isinstance(argument, arguments.Scalar) and argument.name == name)
