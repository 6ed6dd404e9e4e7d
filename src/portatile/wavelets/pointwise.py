"""Elementwise products, weighted squares and inner products of arrays: by NumPy for its arrays, on the device for Buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile import workloads
from portatile.device.buffer import Buffer
from portatile.device.dlpack import packed
from portatile.errors import ArgumentError
from portatile.records import Layout
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


def dot(x: Any, y: Any) -> float:
    """The sum of x y; waits for it."""
    if isinstance(x, np.ndarray):
        return float(np.vdot(x, y))
    return float(_stream("dot", x, y, Buffer.empty((1,), x.dtype, x.device), 1.0).numpy()[0])


def _like(x: Buffer) -> Buffer:
    return Buffer.empty(x.shape, x.dtype, x.device)


def _stream(operation: str, x: Buffer, y: Any, out: Buffer, scalar: float) -> Buffer:
    """Queue a streaming kernel on contiguous Buffers; returns ``out``."""
    other = y if isinstance(y, Buffer) else Buffer.from_numpy(y, x.device)
    size = x.dtype.itemsize
    for buffer in (x, other):
        if buffer.size and buffer.strides != packed(buffer.shape, size):
            raise ArgumentError(f"{buffer!r} has strides {buffer.strides}; it must be C-contiguous: copy it")
    layout = {name: Layout((1,), buffer.offset // size, size) for name, buffer in (("x", x), ("y", other), ("out", out))}
    problem = workloads.get("stream").problem({"n": x.size}, x.dtype.name, {"operation": operation}, layout)
    engine = engine_of(x.device)
    prepared = engine.prepare(problem)
    if prepared.executable.plan.steps:
        with engine.lock:
            memory = {"x": x.memory, "y": other.memory, "out": out.memory}
            prepared.run(x.device.default_queue(), memory, {"scalar": scalar})
    return out
