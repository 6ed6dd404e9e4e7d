"""From matrices to a finished computation: the path every routine takes, lean when a shape comes again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from portatile import device as devices
from portatile import settings, workloads
from portatile.device.base import Device, Memory, Queue
from portatile.device.buffer import Buffer, caller_stream
from portatile.errors import ArgumentError
from portatile.records import Problem, Value
from portatile.runtime import memory_limit, scratch, slabs
from portatile.arguments.matrices import Matrix, Placed, overlap, place, same
from portatile.runtime.engine import Engine, Prepared, engine
from portatile.runtime.engine import forget as forget_engines

Begin = Callable[[Queue], None]
"""Gives an output the values that it begins with; what runs on a device is put on the queue."""

_MAX_REMEMBERED = 4096
_LAYOUT = slice(Matrix._fields.index("stride"), None)  # of a Matrix, all that tells how it lies in memory
_remembered: dict[tuple[object, ...], tuple[Engine, Prepared, tuple[str, ...]]] = {}
_chips: dict[object, Device] = {}  # by selector, or by what the environment selects
_streams: dict[tuple[Device, int, int], Queue] = {}


def run(
    selector: str | None,
    workload: str,
    sizes: tuple[int, ...],
    options: tuple[Value, ...],
    matrices: tuple[Matrix, ...],
    scalars: Mapping[str, float],
    read: tuple[bool, ...],
    out: Any,
    begin: Begin | None = None,
) -> None:
    """Compute. With NumPy matrices it returns when the last of them, the output, is in the caller's array.

    With matrices on a device it queues the work, for another library's ``out`` on that library's current stream.
    ``sizes`` and ``options`` are in the workload's order, ``matrices`` in that of its operands; ``read`` tells which of
    them the computation reads. ``begin`` gives the output the values that it begins with: what is refused leaves it as it was.
    """
    chip = _chip(selector, matrices)
    layouts = tuple([stored[_LAYOUT] for stored in matrices])
    key = (chip, chip.generation, workload, sizes, options, matrices[-1].array.dtype, limit.asked(), layouts)
    found = _remembered.get(key)
    if found is None:
        problem = _problem(workload, sizes, options, matrices)
        home, names = engine(chip), tuple(problem.layout)
        if not matrices[-1].on_device and _too_large(home, problem, matrices):
            needed = frozenset(name for name, wanted in zip(names, read, strict=True) if wanted)
            task = slabs.task(home, problem, dict(zip(names, matrices, strict=True)), scalars, needed)
            if task.cuts:
                if begin is not None:
                    begin(chip.default_queue())
                home.make_room()
                slabs.run(home, task)
                return
        found = home, home.prepare(problem), names
        if len(_remembered) >= _MAX_REMEMBERED:
            _remembered.clear()
        _remembered[key] = found
    if begin is not None:
        begin(_queue(chip, out))
    home, prepared, names = found
    if matrices[-1].on_device:  # and then so do all
        launch(home, prepared, {name: stored.array.memory for name, stored in zip(names, matrices, strict=True)}, scalars, out)
    else:
        start(home, prepared, dict(zip(names, matrices, strict=True)), scalars, read, out)


def start(
    home: Engine, prepared: Prepared, operands: Mapping[str, Matrix], scalars: Mapping[str, float], read: tuple[bool, ...], out: Any
) -> None:
    """As ``run`` for what is prepared; ``operands`` by name, the output last."""
    if not prepared.executable.plan.steps:
        return
    chip, matrices = home.device, tuple(operands.values())
    with home.lock:
        queue = _queue(chip, out)
        placed: list[Placed] = []
        try:
            for stored, needed in zip(matrices, read, strict=True):
                placed.append(place(chip, queue, stored, needed))
            prepared.run(queue, {name: operand.memory for name, operand in zip(operands, placed, strict=True)}, scalars)
            if not matrices[-1].on_device:
                placed[-1].collect(queue)
        finally:
            for operand in placed:
                operand.release()


def launch(home: Engine, prepared: Prepared, operands: Mapping[str, Memory], scalars: Mapping[str, float], out: Any) -> None:
    """As ``start`` for operands that all lie in the device's memory."""
    if prepared.executable.plan.steps:
        with home.lock:
            prepared.run(_queue(home.device, out), operands, scalars)


def copying(source: Matrix, target: Matrix, name: str) -> Begin | None:
    """What gives ``target`` the values of ``source``, of the same shape; on a device both must be packed and stored alike.

    None where they are the same memory; raises ArgumentError where they overlap otherwise, or where they cannot be copied. Nothing is
    written before it is called with a queue: ``run`` does so when nothing of the call can be refused any more.
    """
    if same(source, target):
        return None
    if overlap(source, target):
        raise ArgumentError(f"out overlaps {name} without being {name}; pass out={name} or an array of its own")
    if not source.on_device and not target.on_device:
        return lambda _: np.copyto(
            target.array.T if target.transposed else target.array, source.array.T if source.transposed else source.array
        )
    packed = source.stride == source.columns and target.stride == target.columns
    alike = source.on_device and target.on_device and packed and source.transposed == target.transposed
    if not alike or source.array.device is not target.array.device:
        raise ArgumentError(f"{name} and out must lie on one device, packed and in the same order; or pass out={name} to overwrite it")
    buffer: Buffer = source.array
    size = buffer.dtype.itemsize

    def copy(queue: Queue) -> None:
        queue.copy(target.array.memory, buffer.memory, buffer.nbytes, target.offset * size, source.offset * size)

    return copy


def clear(target: Matrix, out: Any) -> None:
    """Make zeros of a packed matrix that was just made."""
    if not target.on_device:
        target.array[...] = 0
    elif target.rows and target.columns:
        buffer: Buffer = target.array
        _queue(buffer.device, out).fill(buffer.memory, bytes(4), target.offset * buffer.dtype.itemsize, buffer.nbytes)


def forget() -> None:
    """Drop what is remembered: results tuned since, and another default device, are used from the next call on."""
    forget_engines()
    scratch.forget()
    _remembered.clear()
    _chips.clear()


def _too_large(home: Engine, problem: Problem, matrices: tuple[Matrix, ...]) -> bool:
    """Whether the operands, or they and the workspace, cannot all lie on the device at once."""
    operands = tuple(stored.extent * stored.array.itemsize for stored in matrices)
    if limit.too_large(home.device, operands):
        return True
    temporaries = home.prepare(problem).executable.plan.temporaries
    return limit.too_large(home.device, (*operands, *(temporary.nbytes for temporary in temporaries)))


def _chip(selector: str | None, matrices: tuple[Matrix, ...]) -> Device:
    """The device of the matrices that lie on one, else the one selected; raises ArgumentError for a conflict."""
    homes = [stored.array.memory.device if isinstance(stored.array, Buffer) else None for stored in matrices]
    chip: Device | None = homes[0]
    if homes.count(chip) < len(homes):
        places = ", ".join("the host" if home is None else home.info.id for home in dict.fromkeys(homes))
        raise ArgumentError(f"the arrays lie in different places ({places}); move them to one, by Buffer.from_numpy or .numpy()")
    if chip is None:
        return _selected(selector)
    if selector is not None and _selected(selector) is not chip:
        raise ArgumentError(f"device={selector!r} is not {chip.info.id}, where the arrays are; leave device out or move them")
    return chip


def _selected(selector: str | None) -> Device:
    said = selector or settings.selection()  # a program may change its environment
    return _chips.get(said) or _chips.setdefault(said, devices.get(selector))


def _queue(chip: Device, out: Any) -> Queue:
    """The queue that the owner of ``out`` expects its work on."""
    if isinstance(out, (np.ndarray, Buffer)):
        return chip.default_queue()
    key = chip, chip.generation, caller_stream(out)
    queue = _streams.get(key)
    if queue is None:
        queue = _streams[key] = chip.foreign_queue(key[-1])
    return queue


def _problem(workload: str, sizes: tuple[int, ...], options: tuple[Value, ...], matrices: tuple[Matrix, ...]) -> Problem:
    """The problem of matrices in the order of the workload's operands, where they lie."""
    description = workloads.get(workload)
    layout = {operand.name: stored.layout for operand, stored in zip(description.operands, matrices, strict=True)}
    named_options = dict(zip(description.options, options, strict=True))
    return description.problem(dict(zip(description.sizes, sizes, strict=True)), matrices[-1].array.dtype.name, named_options, layout)
