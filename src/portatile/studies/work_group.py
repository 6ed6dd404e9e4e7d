"""How much does the work-group's size matter? Coulomb with 16 x y work-items, MRI with 16 to the device's limit, each also relaxed.

Komatsu et al., figures 9 to 12: CP, MRI-Q and MRI-FHD. Every row is one size; ``relative`` is its time over the best of its device and
compiler option, so that 1 is the best. Kernels only, no transfers; each result is checked, and its error told in units of what rounding
allows: relaxed mathematics may exceed 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError, PortatileError
from portatile.measure import runs
from portatile.measure.runs import Length, PreparedRun, Way
from portatile.records import Config, Problem, Value, spelled

RELAXED = "-cl-fast-relaxed-math"
ROWS_OF_CP = (1, 2, 4, 8, 16, 32)
_ACROSS = 16

# Below these a small problem tells nothing of large groups, which compute 128 x 32 points or 4096 voxels.
_LEAST_SIDE, _LEAST_VOXELS, _LEAST_SAMPLES = 256, 16384, 32

# Parboil's forms: eight points to a work-item of CP, one voxel to one of MRI, no slices, functions as the compiler has them.
_CP: dict[str, Value] = {
    "SPLIT": 1, "PX": 8, "PY": 1, "VL": 1, "CHUNK": 256, "UNROLL": 1, "RSQRT": "rsqrt", "POLY": 0, "DEGREE": 3, "RESIDENT": 0,
}  # fmt: skip
_MRI: dict[str, Value] = {"SPLIT": 1, "PV": 1, "VL": 1, "CHUNK": 256, "UNROLL": 2, "TRIG": "accurate", "POLY": 0, "RESIDENT": 0}


@dataclass(frozen=True)
class WorkGroupRow:
    """One size on one device. ``seconds`` (median), ``relative`` and ``error`` are None where it did not run: ``status`` says why.

    ``kind`` is MRI's, q or fhd. ``samples`` were taken, from ``fastest`` to ``slowest`` seconds, and ended at ``time`` (UTC).
    """

    device: str
    name: str
    driver: str
    workload: str
    kind: str
    problem: str
    relaxed: bool
    work_group: str
    items: int
    seconds: float | None
    relative: float | None
    error: float | None
    status: str
    samples: int
    fastest: float | None
    slowest: float | None
    time: str


@dataclass(frozen=True)
class WorkGroupRequest:
    """What to sweep: the ``workload``, coulomb or mri; its ``problem``; each value of ``relaxed`` mathematics.

    ``items`` are the work-items of the groups to try; by default all of ``sizes``.
    """

    workload: str
    problem: Problem
    relaxed: tuple[bool, ...] = (False, True)
    length: Length = field(default_factory=Length)
    items: tuple[int, ...] = ()


def usual_problem(workload: str, scale: int = 1, kind: str = "q") -> Problem:
    """Parboil's: 512 x 512 points and 40 000 atoms; 64^3 voxels and 2048 samples, of MRI's ``kind`` q or fhd.

    ``scale`` divides the atoms and each side of the grid, down to 256, or samples (to 32) and voxels (to 16384): what is left of a small
    problem must still be many groups. Raises ArgumentError for another workload.
    """
    if workload == "coulomb":
        side = max(512 // scale, _LEAST_SIDE)
        return workloads.get("coulomb").problem({"atoms": max(40_000 // scale, 1), "nx": side, "ny": side, "nz": 1})
    if workload == "mri":
        sizes = {"samples": max(2048 // scale, _LEAST_SAMPLES), "voxels": max(64**3 // scale, _LEAST_VOXELS)}
        return workloads.get("mri").problem(sizes, options={"kind": kind})
    raise ArgumentError(f"the study knows coulomb and mri, not {workload!r}")


def sizes(device: Device, request: WorkGroupRequest) -> list[tuple[str, int, Config]]:
    """The work-groups to try on a device: label, work-items, and the configuration that has them."""
    most = device.info.max_work_group_size
    found: list[tuple[str, int, Config]] = []
    if request.workload == "coulomb":
        found += [(f"{_ACROSS} x {y}", _ACROSS * y, {"WGX": _ACROSS, "WGY": y, **_CP}) for y in ROWS_OF_CP]
    else:
        found += [(str(items), items, {"WGS": items, **_MRI}) for items in (2**power for power in range(4, most.bit_length()))]
    return [size for size in found if size[1] <= most and size[1] in (request.items or (size[1],))]


def sweep(devices: Sequence[Device], request: WorkGroupRequest, advance: Callable[[], None] = lambda: None) -> list[WorkGroupRow]:
    """Measure every size on every device; ``advance`` is called after each."""
    rows: list[WorkGroupRow] = []
    for device in devices:
        with runs.prepared(device, request.problem) as ready:
            for relaxed in request.relaxed:
                measured = list(_measured(ready, request, relaxed, advance))
                best = min((row.seconds for row in measured if row.seconds), default=None)
                rows += [replace(row, relative=row.seconds / best) if row.seconds and best else row for row in measured]
    return rows


def _measured(ready: PreparedRun, request: WorkGroupRequest, relaxed: bool, advance: Callable[[], None]) -> Iterator[WorkGroupRow]:
    info, problem = ready.device.info, request.problem
    way = Way(request.length, (RELAXED,) if relaxed else (), strict=False)
    where, what = (info.id, info.name, info.driver), (request.workload, str(problem.options.get("kind", "")), spelled(problem.sizes))
    for label, items, config in sizes(ready.device, request):
        row = WorkGroupRow(*where, *what, relaxed, label, items, None, None, None, "ok", 0, None, None, "")
        try:
            timed = ready.timed(config, way)
            took = timed.samples
            row = replace(row, seconds=timed.median, samples=len(took), fastest=min(took), slowest=max(took))
            row = replace(row, error=timed.error, status="ok" if timed.error <= 1 else "outside its error bound")
        except PortatileError as error:  # too many registers, say: a row without a time
            row = replace(row, status=str(error).splitlines()[0])
        yield replace(row, time=datetime.now(UTC).isoformat(timespec="seconds"))
        advance()
