"""Three passes over a volume as one plan: settled once, and every further call is its launches and little else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from portatile import workloads
from portatile.execute import Executable
from portatile.records import ITEMSIZE, Launch, Layout, Plan, Temporary, Value
from portatile.routines.engine import Engine


@dataclass(frozen=True)
class Volume:
    """What three passes read and write: ``shape`` and where the first element of either Buffer lies in its memory, in elements."""

    shape: tuple[int, ...]
    dtype: str
    bank: str
    taps: int
    lower: int
    boundaries: tuple[str, ...]
    psi: tuple[int, int]
    out: tuple[int, int]


def prepared(home: Engine, volume: Volume) -> Executable:
    """The launches of all passes; they read ``psi`` and ``filter`` and write ``out``."""
    return home.assembled(volume, lambda: _plan(home, volume))


def between(volume: Volume) -> tuple[int, int]:
    """Bytes of the two arrays between the passes."""
    first, second = (prod(after) for _, after in _shapes(volume)[:2])
    return ITEMSIZE[volume.dtype] * first, ITEMSIZE[volume.dtype] * second


def _shapes(volume: Volume) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What each pass reads and what it makes of it: the first axis, filtered, becomes the last."""
    found, shape = [], volume.shape
    ends = max(volume.taps - _phases(volume), 0)
    for boundary in volume.boundaries:
        after = (*shape[1:], shape[0] + {"grow": ends, "shrink": -ends}.get(boundary, 0))
        found.append((shape, after))
        shape = after
    return found


def _phases(volume: Volume) -> int:
    return 1 if volume.bank == "single" else 2


def _plan(home: Engine, volume: Volume) -> Plan:
    """The passes' plans, each in the configuration known for it, one after another."""
    steps: list[Launch] = []
    names, places = ("psi", "first", "second", "out"), {"psi": volume.psi, "out": volume.out}
    for axis, (shape, after) in enumerate(_shapes(volume)):
        boundary, source, target = volume.boundaries[axis], names[axis], names[axis + 1]
        n = min(shape[0], after[-1]) if boundary in ("grow", "shrink") else shape[0]
        layout = {
            "psi": Layout((prod(shape[1:]), 1), *places.get(source, (0, 128))),
            "out": Layout((after[-1], 1), *places.get(target, (0, 128))),
            "filter": Layout((volume.taps, 1), 0, ITEMSIZE[volume.dtype]),
        }
        options: dict[str, Value] = {"boundary": boundary, "bank": volume.bank, "taps": volume.taps, "lower": volume.lower}
        problem = workloads.get("convolution").problem({"n": n, "ndat": prod(shape[1:])}, volume.dtype, options, layout)
        for step in home.prepare(problem).executable.plan.steps:
            assert isinstance(step, Launch)
            renamed = {"psi": source, "filter": "filter", "out": target}
            args = tuple(replace(arg, name=renamed[arg.name]) if arg.kind == "buffer" else arg for arg in step.args)
            steps.append(Launch(step.source, step.kernel, step.global_size, step.local_size, args))
    first, second = between(volume)
    return Plan(tuple(steps), (Temporary("first", first), Temporary("second", second)))
