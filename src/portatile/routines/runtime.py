"""From matrices to a finished computation: the path every routine takes, lean when a shape comes again."""

from __future__ import annotations

from collections.abc import Mapping

from portatile import device as devices
from portatile import workloads
from portatile.device.base import Device
from portatile.routines.arrays import Matrix, place
from portatile.routines.engine import Engine, Prepared, engine

_MAX_REMEMBERED = 4096
_remembered: dict[tuple[object, ...], tuple[Engine, Prepared, tuple[str, ...]]] = {}
_chips: dict[str | None, Device] = {}


def run(
    selector: str | None,
    workload: str,
    sizes: tuple[int, ...],
    options: tuple[str, ...],
    matrices: tuple[Matrix, ...],
    scalars: Mapping[str, float],
    read: tuple[bool, ...],
) -> None:
    """Compute; returns when the last of ``matrices``, the output, is in the caller's array.

    ``sizes`` and ``options`` are in the workload's order, ``matrices`` in the order of its operands; ``read`` tells
    which of them the computation reads.
    """
    chip = _chips.get(selector) or _chips.setdefault(selector, devices.get(selector))
    layouts = [size for stored in matrices for size in (stored.stride, stored.alignment)]
    key = (chip, workload, sizes, options, matrices[-1].array.dtype, *layouts)
    found = _remembered.get(key)
    if found is None:
        found = _prepare(chip, workload, sizes, options, matrices)
        if len(_remembered) >= _MAX_REMEMBERED:
            _remembered.clear()
        _remembered[key] = found
    home, prepared, names = found
    if not prepared.executable.plan.steps:
        return
    with home.lock:
        queue = chip.default_queue()
        placed = [place(chip, queue, stored, needed) for stored, needed in zip(matrices, read, strict=True)]
        try:
            prepared.run(queue, {name: operand.memory for name, operand in zip(names, placed, strict=True)}, scalars)
            placed[-1].collect(queue)
        finally:
            for operand in placed:
                operand.memory.release()


def forget() -> None:
    """Drop what is remembered: results tuned since, and another default device, are used from the next call on."""
    for home, _, _ in _remembered.values():
        home.forget()
    _remembered.clear()
    _chips.clear()


def _prepare(
    chip: Device, workload: str, sizes: tuple[int, ...], options: tuple[str, ...], matrices: tuple[Matrix, ...]
) -> tuple[Engine, Prepared, tuple[str, ...]]:
    description = workloads.get(workload)
    layout = {operand.name: stored.layout for operand, stored in zip(description.operands, matrices, strict=True)}
    dtype = matrices[-1].array.dtype.name
    named_options = dict(zip(description.options, options, strict=True))
    problem = description.problem(dict(zip(description.sizes, sizes, strict=True)), dtype, named_options, layout)
    home = engine(chip)
    return home, home.prepare(problem), tuple(layout)
