"""The filters of a volume as one plan: prepared once, so that further calls cost little more than their launches.

A GPU filters two axes in one launch, which keeps the intermediate values in local memory, and the third axis in another launch; so the
volume is read and written twice instead of three times. Other devices use three launches, one for each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, NamedTuple

from portatile import workloads
from portatile.records import ITEMSIZE, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.runtime.one_device.engine import Engine, LoadedPlan
from portatile.runtime.perform import assembled
from portatile.workloads.convolution2d import SPARE

_KINDS = ("gpu",)  # devices that filter two axes at once
_BANKS = ("single",)
ELSEWHERE = (0, 128)
"""The place of a temporary: the offset of its first element, in elements, and its alignment in bytes."""
_MOST = 2**15  # points of an axis, so that no launch exceeds a device's limit of work-groups


class AxisPass(NamedTuple):  # a tuple, as Volume is: they are made and looked up for every call
    """The filtering of one axis: its boundary, the number of taps, the index of the first tap, and the name of the filter operand."""

    boundary: str
    taps: int
    lower: int
    filter: str = "filter"


class Volume(NamedTuple):
    """The volume that the passes filter: its ``shape``, and where input (``psi``) and output begin in their memory, as in ``ELSEWHERE``."""

    shape: tuple[int, ...]
    dtype: str
    bank: str
    axes: tuple[AxisPass, ...]
    psi: tuple[int, int] = ELSEWHERE
    out: tuple[int, int] = ELSEWHERE

    @property
    def nbytes(self) -> tuple[int, ...]:
        """Bytes of the input of the first of three passes, and of the output of each pass."""
        result = self.made
        return tuple(ITEMSIZE[self.dtype] * prod((*self.shape[done:], *result[:done])) for done in range(len(result) + 1))

    @property
    def made(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(n + _growth(self, axis) for axis, n in enumerate(self.shape))


class _TooLargeError(Exception):
    """There is not enough memory for the arrays between the passes."""


@dataclass(frozen=True)
class _Pass:
    """One launch: filters ``axes`` of an array of shape ``before``, and stores them as the last axes of an array of shape ``after``."""

    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def prepared(engine: Engine, volumes: tuple[Volume, ...], most: int, result: Any) -> LoadedPlan | None:
    """The launches of all passes of volumes that lie in one Buffer, from ``psi`` and the filters to ``out``, for ``result``'s stream.

    None if the arrays between two passes take more than ``most`` bytes.
    """

    def make() -> Plan:
        if max(between(volumes[0], engine.device.info)) > most:
            raise _TooLargeError
        plans = [plan(engine, volume) for volume in volumes]
        return Plan(tuple(step for volume_plan in plans for step in volume_plan.steps), together(*plans))

    try:
        sizes = "x".join(map(str, volumes[0].shape))
        return assembled(engine, volumes, make, result, f"the filters of a volume of {sizes} points")
    except _TooLargeError:
        return None


def together(*plans: Plan) -> tuple[Temporary, ...]:
    """The temporaries of plans that run one after another and share temporaries by name: the largest of each name."""
    largest: dict[str, Temporary] = {}
    for temporary in chain.from_iterable(each.temporaries for each in plans):
        earlier = largest.get(temporary.name)
        largest[temporary.name] = temporary if earlier is None or earlier.nbytes < temporary.nbytes else earlier
    return tuple(largest.values())


def between(volume: Volume, info: DeviceInfo) -> tuple[int, ...]:
    """Bytes of the arrays between the passes."""
    return tuple(ITEMSIZE[volume.dtype] * prod(launch.after) for launch in _passes(volume, info)[:-1])


def _passes(volume: Volume, info: DeviceInfo) -> list[_Pass]:
    """The shapes that each pass reads and writes: a pass filters the first axes and makes them the last."""
    one_axis, two_axes = _pass(volume, 0, 1, volume.shape), _pass(volume, 0, 2, volume.shape)
    launches = [two_axes] if _two_axes_at_once(volume, two_axes, info) else [one_axis, _pass(volume, 1, 1, one_axis.after)]
    return [*launches, _pass(volume, 2, 1, launches[-1].after)]


def _pass(volume: Volume, axis: int, count: int, shape: tuple[int, ...]) -> _Pass:
    """The pass that filters ``count`` axes of the volume from ``axis`` on, which are the first axes of an array of that shape."""
    axes = tuple(range(axis, axis + count))
    filtered = (n + _growth(volume, at) for at, n in zip(axes, shape, strict=False))
    return _Pass(axes, shape, (*shape[count:], *filtered))


def _growth(volume: Volume, axis: int) -> int:
    """The number of points by which filtering lengthens the axis."""
    along = volume.axes[axis]
    ends = max(along.taps - (1 if volume.bank == "single" else 2), 0)
    return {"grow": ends, "shrink": -ends}.get(along.boundary, 0)


def _two_axes_at_once(volume: Volume, both: _Pass, info: DeviceInfo) -> bool:
    """Whether two axes are filtered in one launch: where whole tiles and aligned rows outweigh the halo that neighbouring tiles compute
    twice.

    Filter banks gain nothing by it: their outputs are stored one by one.
    """
    workload = workloads.get("convolution2d")
    first, second = (volume.axes[axis] for axis in both.axes)
    if (
        first._replace(boundary=second.boundary) != second
        or first.taps not in workload.options["taps"]
        or first.lower not in workload.options["lower"]
    ):
        return False
    if info.kind not in _KINDS or volume.bank not in _BANKS or max(both.after) >= _MOST:
        return False
    width = both.after[-1]
    tile = int(workload.default(_problem(volume, both, ELSEWHERE, ELSEWHERE), info)["T2"])
    return width * ITEMSIZE[volume.dtype] % 16 == 0 and -width % tile * SPARE <= width


def _problem(volume: Volume, launch: _Pass, source: tuple[int, int], target: tuple[int, int]) -> Problem:
    """The pass as a problem; ``source`` and ``target`` are places as in ``Volume``."""
    along = volume.axes[launch.axes[0]]
    kinds = [volume.axes[axis].boundary for axis in launch.axes]
    filtered = launch.after[len(launch.after) - len(kinds) :]
    points = [min(launch.before[at], filtered[at]) for at in range(len(kinds))]
    options: dict[str, Value] = {"boundary": kinds[0], "bank": volume.bank, "taps": along.taps, "lower": along.lower}
    rest = prod(launch.before[len(kinds) :])
    weights = Layout((along.taps, 1), 0, ITEMSIZE[volume.dtype])
    if len(kinds) == 1:
        layout = {"psi": Layout((rest, 1), *source), "out": Layout((filtered[0], 1), *target), "filter": weights}
        return workloads.get("convolution").problem({"n": points[0], "ndat": rest}, volume.dtype, options, layout)
    psi, out = Layout((launch.before[1] * rest, rest, 1), *source), Layout((filtered[0] * filtered[1], filtered[1], 1), *target)
    layout, sizes = {"psi": psi, "out": out, "filter": weights}, {"n1": points[0], "n2": points[1], "ndat": rest}
    return workloads.get("convolution2d").problem(sizes, volume.dtype, {**options, "across": kinds[1]}, layout)


def plan(engine: Engine, volume: Volume, ends: tuple[str, str] = ("psi", "out")) -> Plan:
    """The plans of all passes in their best known configurations, one after another; ``ends`` names the input and output memory."""
    steps: list[Launch] = []
    passes = _passes(volume, engine.device.info)
    names = (ends[0], *("first", "second")[: len(passes) - 1], ends[1])
    places = {ends[0]: volume.psi, ends[1]: volume.out}
    for at, launch in enumerate(passes):
        source, target = names[at], names[at + 1]
        problem = _problem(volume, launch, places.get(source, ELSEWHERE), places.get(target, ELSEWHERE))
        steps += engine.launches(problem, {"psi": source, "filter": volume.axes[launch.axes[0]].filter, "out": target})
    sizes = between(volume, engine.device.info)
    return Plan(tuple(steps), tuple(Temporary(name, size) for name, size in zip(names[1:-1], sizes, strict=True)))
