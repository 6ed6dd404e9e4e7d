"""Elementwise products, weighted squares and inner products of arrays: by NumPy for its arrays, on the device for Buffers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import workloads
from portatile.device.buffer import Buffer
from portatile.device.dlpack import packed
from portatile.errors import ArgumentError
from portatile.records import Layout, Problem
from portatile.runtime.one_device.engine import engine_of


def product(x: Any, y: Any) -> Any:
    """x y; a NumPy array ``y`` is copied to the device of ``x``."""
    return x * y if isinstance(x, np.ndarray) else _stream("product", x, y, _like(x), 1.0)


def add(x: Any, y: Any) -> Any:
    """x + y; for NumPy arrays the sum overwrites x."""
    if isinstance(x, np.ndarray):
        x += y
        return x
    return _stream("add", x, y, _like(x), 1.0)


def add_square(total: Any, x: Any, weight: float) -> Any:
    """total + weight x^2, in a new array."""
    if isinstance(x, np.ndarray):
        return total + x.dtype.type(weight) * x**2
    return _stream("square", x, total, _like(x), weight)


def dots(xs: Any, ys: Any) -> NDArray[np.float64]:
    """The sums of x y for each pair of two batches; waits once for all of them."""
    if isinstance(xs, np.ndarray):
        return np.array([float(np.vdot(x, y)) for x, y in zip(xs, ys, strict=True)])
    found = Buffer.empty((len(xs),), xs.dtype, xs.device)
    for at, (x, y) in enumerate(zip(xs, ys, strict=True)):
        _stream("dot", x, y, found[at : at + 1], 1.0)
    return found.numpy().astype(np.float64)


def _like(x: Buffer) -> Buffer:
    return Buffer.empty(x.shape, x.dtype, x.device)


def _stream(operation: str, x: Buffer, y: Any, out: Buffer, scalar: float) -> Buffer:
    """Queue a streaming kernel on contiguous Buffers; returns ``out``."""
    other = y if isinstance(y, Buffer) else Buffer.from_numpy(y, x.device)
    size = x.dtype.itemsize
    for buffer in (x, other):
        if buffer.size and buffer.strides != packed(buffer.shape, size):
            raise ArgumentError(f"{buffer!r} has strides {buffer.strides}; it must be C-contiguous: copy it")
    engine = engine_of(x.device)
    prepared = engine.prepare(_problem(operation, x.size, x.dtype, (x.offset // size, other.offset // size, out.offset // size)))
    if prepared.executable.plan.steps:
        with engine.lock:
            memory = {"x": x.memory, "y": other.memory, "out": out.memory}
            prepared.run(x.device.default_queue(), memory, {"scalar": scalar})
    return out


@lru_cache(maxsize=1024)
def _problem(operation: str, n: int, dtype: np.dtype[Any], offsets: tuple[int, int, int]) -> Problem:
    """A stream of n elements; ``offsets``: the first elements of x, y and out in their memory."""
    layout = {name: Layout((1,), offset, dtype.itemsize) for name, offset in zip(("x", "y", "out"), offsets, strict=True)}
    return workloads.get("stream").problem({"n": n}, dtype.name, {"operation": operation}, layout)
