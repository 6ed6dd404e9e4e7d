"""Other libraries' CUDA arrays in routines that work on Buffers: work is ordered with their stream, results are arrays of that library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from portatile.arguments import described, outputs
from portatile.device.buffer import Buffer
from portatile.device.foreign_arrays import caller_stream, in_cuda_memory
from portatile.errors import UsageError


def is_foreign(array: Any) -> bool:
    """Whether it is another library's CUDA array."""
    library = described.known.get(type(array))  # if known: asking a CuPy array itself takes 3 us
    if library is not None and not library.mixed:
        return library.streams
    return not isinstance(array, (np.ndarray, Buffer)) and in_cuda_memory(array)


@contextmanager
def ordered(array: Any) -> Iterator[None]:
    """A context in which the device's default queue runs after the work that the array's library has queued, and before its later work.

    Raises UsageError while the library captures its stream: work on the default queue would not become part of the graph.
    """
    device = Buffer.wrap(array).device
    queue = device.default_queue()
    with device.foreign_queue(caller_stream(array)) as stream:
        if stream.capturing:
            raise UsageError(
                "this call cannot be captured into a graph: it waits for numbers on the host, or takes arrays that no single plan takes "
                "(C-contiguous ones on one device it does)"
            )
        queue.wait_for(stream.marker())
        try:
            yield
        finally:
            stream.wait_for(queue.marker())


def through(compute: Callable[..., Any], *arguments: Any) -> Any:
    """``compute(*given)`` with foreign arrays wrapped as Buffers, ordered with their streams.

    If the first argument is foreign, a Buffer that ``compute`` returns is copied into a new array of that library.
    """
    with ExitStack() as stack:
        for array in {Buffer.wrap(array).device: array for array in reversed(arguments) if is_foreign(array)}.values():
            stack.enter_context(ordered(array))
        result = compute(*(Buffer.wrap(array) if is_foreign(array) else array for array in arguments))
        if not isinstance(result, Buffer) or not is_foreign(arguments[0]):
            return result
        copy = outputs.new(arguments[0], result.shape)
        if result.size:
            target = Buffer.wrap(copy)
            result.device.default_queue().copy(target.memory, result.memory, result.nbytes, target.offset, result.offset)
        return copy
