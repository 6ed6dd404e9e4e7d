"""How much does the size of the work-group matter? Coulomb with 16 x y work-items and MRI with 16 up to the device's limit, each also
with relaxed mathematics.

Komatsu et al., figures 9 to 12: CP, MRI-Q and MRI-FHD. Every row is one size; ``relative`` is its time over the best of its device and
compiler option, so that 1 is the best. Kernels only, no transfers; each result is checked, and its error told in units of what rounding
allows: relaxed mathematics may exceed 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError, PortatileError, UsageError
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.svg import Figure
from portatile.formatting import spelled
from portatile.measure import runs
from portatile.measure.runs import MeasurementLength, MeasurementOptions, PreparedRun
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now

RELAXED = "-cl-fast-relaxed-math"
ON_CPUS = 64  # the divisor of sizes that are meant for GPUs
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
    """One size on one device. If it did not run, ``seconds`` (median), ``relative`` and ``error`` are None and ``status`` says why.

    ``kind`` is MRI's, q or fhd. ``samples`` times were taken, from ``fastest`` to ``slowest`` seconds, and ended at ``time`` (UTC).
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
    seconds: float | None = None
    relative: float | None = None
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    fastest: float | None = None
    slowest: float | None = None
    time: str = ""


@dataclass(frozen=True)
class WorkGroupRequest:
    """What to sweep: ``workload`` is coulomb or mri, with and without relaxed mathematics; ``kind`` is MRI's."""

    workload: str = option("coulomb", Option("coulomb: groups of 16 x 1 to 16 x 32; mri: 16 to the limit.", choices=("coulomb", "mri")))
    kind: str = option("", Option("The kernel of mri: Q (the default) or F^H d.", choices=("q", "fhd")))
    scale: int = option(0, Option(f"Divisor of Parboil's sizes; default: 1 on GPUs, {ON_CPUS} on CPUs.", least=0))
    items: tuple[int, ...] = option((), "Numbers of work-items to try, separated by commas; default: all.")
    relaxed: tuple[bool, ...] = (False, True)
    length: MeasurementLength = field(default_factory=MeasurementLength)

    def problem(self, info: DeviceInfo) -> Problem:
        """The instance for a device; raises UsageError for a kind that the workload does not have."""
        if self.kind and self.workload != "mri":
            raise UsageError(f"--kind is of --workload mri; leave it out for {self.workload}")
        return usual_problem(self.workload, self.scale or usual_scale([info]), self.kind or "q")


def usual_scale(infos: Sequence[DeviceInfo]) -> int:
    """What Parboil's sizes are divided by so that each of these devices needs moments: 1 for GPUs alone."""
    return 1 if all(info.kind == "gpu" for info in infos) else ON_CPUS


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


def parboil(workload: str) -> Config:
    """Parboil's form of CP, with work-groups of 16 x 8, or of MRI, with 256 work-items."""
    return {"WGX": _ACROSS, "WGY": 8, **_CP} if workload == "coulomb" else {"WGS": 256, **_MRI}


def sizes(device: Device, request: WorkGroupRequest) -> list[tuple[str, int, Config]]:
    """The work-groups to try on a device: label, work-items, and the configuration that has them."""
    most = device.info.max_work_group_size
    listed: list[tuple[str, int, Config]] = []
    if request.workload == "coulomb":
        listed += [(f"{_ACROSS} x {y}", _ACROSS * y, {"WGX": _ACROSS, "WGY": y, **_CP}) for y in ROWS_OF_CP]
    else:
        listed += [(str(items), items, {"WGS": items, **_MRI}) for items in (2**power for power in range(4, most.bit_length()))]
    return [size for size in listed if size[1] <= most and size[1] in (request.items or (size[1],))]


def measure(run: Run) -> Iterator[WorkGroupRow]:
    """Every size on every device; raises UsageError if no size is left."""
    request: WorkGroupRequest = run.options
    count = sum(len(sizes(device, request)) * len(_ways(device, request)) for device in run.devices)
    if not count:
        shown = ",".join(map(str, request.items))
        raise UsageError(f"--items {shown!r} names no work-group that {request.workload} has; leave it out to try all")
    run.expect(count)
    for device in run.devices:
        problem = request.problem(device.info)
        missing = [point for point in _points(device, request, problem) if not run.known(point[0])]
        if missing:
            with runs.prepared(device, problem) as ready:
                for row, config in missing:
                    yield _measured(ready, row, config, request.length)


def finish(rows: Sequence[WorkGroupRow]) -> list[WorkGroupRow]:
    """Each time over the best of its device and compiler option."""
    best: dict[tuple[str, bool], float] = {}
    for row in rows:
        if row.seconds:
            best[row.device, row.relaxed] = min(row.seconds, best.get((row.device, row.relaxed), row.seconds))
    return [replace(row, relative=row.seconds / best[row.device, row.relaxed]) if row.seconds else row for row in rows]


def _ways(device: Device, request: WorkGroupRequest) -> tuple[bool, ...]:
    """Without and with relaxed mathematics, as far as the compiler survives it."""
    return tuple(relaxed for relaxed in request.relaxed if not relaxed or device.info.can.relaxed_math)


def _points(device: Device, request: WorkGroupRequest, problem: Problem) -> Iterator[tuple[WorkGroupRow, Config]]:
    info = device.info
    where, what = (info.id, info.name, info.driver), (request.workload, str(problem.options.get("kind", "")), spelled(problem.sizes))
    for relaxed in _ways(device, request):
        for label, items, config in sizes(device, request):
            yield WorkGroupRow(*where, *what, relaxed, label, items), config


def _measured(ready: PreparedRun, row: WorkGroupRow, config: Config, length: MeasurementLength) -> WorkGroupRow:
    try:
        timed = ready.timed(config, MeasurementOptions(length, (RELAXED,) if row.relaxed else (), strict=False))
    except PortatileError as error:  # too many registers, say: a row without a time
        return replace(row, status=str(error).splitlines()[0], time=now())
    took = timed.samples
    status = "ok" if timed.error <= 1 else "outside its error bound"
    row = replace(row, seconds=timed.median, samples=len(took), fastest=min(took), slowest=max(took))
    return replace(row, error=timed.error, status=status, time=now())


def figures(rows: Sequence[WorkGroupRow]) -> list[Figure]:
    """Relative time over the work-items of a group, a curve for each device and compiler option."""
    valid = [row for row in rows if row.relative]
    curves = []
    for device, relaxed in dict.fromkeys((row.device, row.relaxed) for row in valid):
        points = tuple((float(row.items), row.relative or 0.0) for row in valid if (row.device, row.relaxed) == (device, relaxed))
        curves.append(Series(f"{device} {'relaxed' if relaxed else 'exact'}", points))
    if not curves:
        return []
    title = f"Time over the work-group's size, {rows[0].workload} {rows[0].kind}".strip()
    caption = "Time over the best of each device and compiler option: 1 is the best."
    x, y = ChartAxis("work-items of a group", log=True), ChartAxis("time over the best")
    return [LineChart(title, caption, x, y, tuple(curves), tuple(sorted({float(row.items) for row in valid})))]


def answer(rows: Sequence[WorkGroupRow]) -> str:
    """The best size of each device and option, and how much longer the worst takes."""
    parts = []
    for device, relaxed in dict.fromkeys((row.device, row.relaxed) for row in rows):
        there = [row for row in rows if (row.device, row.relaxed) == (device, relaxed) and row.relative]
        if there:
            best, worst = (choose(there, key=lambda row: row.relative or 0.0) for choose in (min, max))
            option = "relaxed" if relaxed else "exact"
            other = f"{worst.relative:.3g} times as long with {worst.items}" if worst.items != best.items else "no other size was reached"
            parts.append(f"{device}, {option}: best with {best.items}, {other}")
    return ". ".join(parts)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, WorkGroupRequest())


STUDY = Study(
    name="work-group",
    answers=("D3.5",),
    question="How much does the size of the work-group matter?",
    minutes=2.0,
    timed="kernels alone, back to back by the device's clock; no transfers, no compilation.",
    row=WorkGroupRow,
    key=("device", "workload", "kind", "problem", "relaxed", "items"),
    columns=(
        Column("device", "device"),
        Column("kernel", "workload"),
        Column("", "kind"),
        Column("problem", "problem"),
        Column("work-group", "work_group"),
        Column("relaxed", "relaxed"),
        Column("time", "seconds", "s"),
        Column("relative", "relative"),
        Column("error", "error"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=WorkGroupRequest,
    finish=finish,
    sample=_sample,
)
