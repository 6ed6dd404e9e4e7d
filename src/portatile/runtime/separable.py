"""The filters of a volume as one plan: settled once, and every further call is its launches and little else.

A GPU filters two axes in one launch, whose values between the filters stay in local memory, and the third in another; so four
arrays' worth of memory goes through its memory instead of six. Elsewhere there are three launches, one for each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from portatile import workloads
from portatile.records import ITEMSIZE, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.runtime.engine import Assembled, Engine
from portatile.runtime.perform import assembled
from portatile.workloads.convolution2d import SPARE

_KINDS = ("gpu",)  # devices that filter two axes at once
_BANKS = ("single",)
ELSEWHERE = (0, 128)
"""The place of a temporary: where its first element lies, in elements, and its alignment in bytes."""
_MOST = 2**15  # points of an axis, so that no device is asked for too many work-groups


class Along(NamedTuple):  # a tuple, as Volume is: they are made and looked up for every call
    """The filtering of an axis: its boundary, the number of taps and the first place, and the name of the operand that holds them."""

    boundary: str
    taps: int
    lower: int
    filter: str = "filter"


class Volume(NamedTuple):
    """The volume that the passes read and write: ``shape``, and the first element of either Buffer in its memory, in elements."""

    shape: tuple[int, ...]
    dtype: str
    bank: str
    axes: tuple[Along, ...]
    psi: tuple[int, int] = ELSEWHERE
    out: tuple[int, int] = ELSEWHERE

    @property
    def nbytes(self) -> tuple[int, ...]:
        """Bytes of what is there before the first of three passes and after each of them."""
        made = self.made
        return tuple(ITEMSIZE[self.dtype] * prod((*self.shape[done:], *made[:done])) for done in range(len(made) + 1))

    @property
    def made(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(n + _change(self, axis) for axis, n in enumerate(self.shape))


class _TooLargeError(Exception):
    """There is not enough memory for the arrays between the passes."""


@dataclass(frozen=True)
class _Pass:
    """One launch: from an array of the shape ``before`` to one of the shape ``after``, whose last axes it filtered."""

    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def prepared(engine: Engine, volumes: tuple[Volume, ...], most: int, result: Any) -> Assembled | None:
    """The launches of all passes of volumes that lie in one Buffer, from ``psi`` and the filters to ``out``, for ``result``'s stream.

    None if more than ``most`` bytes lie between two passes.
    """

    def make() -> Plan:
        if max(between(volumes[0], engine.device.info)) > most:
            raise _TooLargeError
        plans = [plan(engine, volume) for volume in volumes]
        return Plan(tuple(step for one in plans for step in one.steps), together(*plans))

    try:
        sizes = "x".join(map(str, volumes[0].shape))
        return assembled(engine, volumes, make, result, f"the filters of a volume of {sizes} points")
    except _TooLargeError:
        return None


def together(*plans: Plan) -> tuple[Temporary, ...]:
    """The temporaries of plans that run one after another and share those of one name: the largest of each."""
    found: dict[str, Temporary] = {}
    for temporary in [temporary for one in plans for temporary in one.temporaries]:
        known = found.get(temporary.name)
        found[temporary.name] = temporary if known is None or known.nbytes < temporary.nbytes else known
    return tuple(found.values())


def between(volume: Volume, info: DeviceInfo) -> tuple[int, ...]:
    """Bytes of the arrays between the passes."""
    return tuple(ITEMSIZE[volume.dtype] * prod(one.after) for one in _passes(volume, info)[:-1])


def _passes(volume: Volume, info: DeviceInfo) -> list[_Pass]:
    """The shapes that each pass reads and writes: the first axis is filtered and becomes the last."""
    one, two = _pass(volume, 0, 1, volume.shape), _pass(volume, 0, 2, volume.shape)
    found = [two] if _at_once(volume, two, info) else [one, _pass(volume, 1, 1, one.after)]
    return [*found, _pass(volume, 2, 1, found[-1].after)]


def _pass(volume: Volume, axis: int, count: int, shape: tuple[int, ...]) -> _Pass:
    """``count`` axes of the volume from ``axis`` on, which are the first of an array of that shape."""
    axes = tuple(range(axis, axis + count))
    made = (n + _change(volume, at) for at, n in zip(axes, shape, strict=False))
    return _Pass(axes, shape, (*shape[count:], *made))


def _change(volume: Volume, axis: int) -> int:
    """The number of points by which the axis becomes longer."""
    along = volume.axes[axis]
    ends = max(along.taps - (1 if volume.bank == "single" else 2), 0)
    return {"grow": ends, "shrink": -ends}.get(along.boundary, 0)


def _at_once(volume: Volume, both: _Pass, info: DeviceInfo) -> bool:
    """Whether two axes are filtered in one launch: where whole tiles and aligned rows make up for what a tile's neighbours do again.

    Filter banks gain nothing by it: their outputs are stored one by one.
    """
    workload = workloads.get("convolution2d")
    one, two = (volume.axes[axis] for axis in both.axes)
    if one._replace(boundary=two.boundary) != two or one.taps not in workload.options["taps"] or one.lower not in workload.options["lower"]:
        return False
    if info.kind not in _KINDS or volume.bank not in _BANKS or max(both.after) >= _MOST:
        return False
    width = both.after[-1]
    tile = int(workload.default(_problem(volume, both, ELSEWHERE, ELSEWHERE), info)["T2"])
    return width * ITEMSIZE[volume.dtype] % 16 == 0 and -width % tile * SPARE <= width


def _problem(volume: Volume, one: _Pass, source: tuple[int, int], target: tuple[int, int]) -> Problem:
    """The pass as a problem; ``source`` and ``target`` are places, as of ``Volume``."""
    along = volume.axes[one.axes[0]]
    kinds = [volume.axes[axis].boundary for axis in one.axes]
    made = one.after[len(one.after) - len(kinds) :]
    points = [min(one.before[at], made[at]) for at in range(len(kinds))]
    options: dict[str, Value] = {"boundary": kinds[0], "bank": volume.bank, "taps": along.taps, "lower": along.lower}
    rest = prod(one.before[len(kinds) :])
    weights = Layout((along.taps, 1), 0, ITEMSIZE[volume.dtype])
    if len(kinds) == 1:
        layout = {"psi": Layout((rest, 1), *source), "out": Layout((made[0], 1), *target), "filter": weights}
        return workloads.get("convolution").problem({"n": points[0], "ndat": rest}, volume.dtype, options, layout)
    psi, out = Layout((one.before[1] * rest, rest, 1), *source), Layout((made[0] * made[1], made[1], 1), *target)
    layout, sizes = {"psi": psi, "out": out, "filter": weights}, {"n1": points[0], "n2": points[1], "ndat": rest}
    return workloads.get("convolution2d").problem(sizes, volume.dtype, {**options, "across": kinds[1]}, layout)


def plan(engine: Engine, volume: Volume, ends: tuple[str, str] = ("psi", "out")) -> Plan:
    """The passes' plans, each in the configuration known for it, one after another, between the memory of the names ``ends``."""
    steps: list[Launch] = []
    passes = _passes(volume, engine.device.info)
    names = (ends[0], *("first", "second")[: len(passes) - 1], ends[1])
    places = {ends[0]: volume.psi, ends[1]: volume.out}
    for at, one in enumerate(passes):
        source, target = names[at], names[at + 1]
        problem = _problem(volume, one, places.get(source, ELSEWHERE), places.get(target, ELSEWHERE))
        steps += engine.launches(problem, {"psi": source, "filter": volume.axes[one.axes[0]].filter, "out": target})
    sizes = between(volume, engine.device.info)
    return Plan(tuple(steps), tuple(Temporary(name, size) for name, size in zip(names[1:-1], sizes, strict=True)))
