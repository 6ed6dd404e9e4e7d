"""The builds of ``study gap``: each is loaded and checked before it is timed; builds that are compared directly are timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median

from portatile import execute, workloads
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.measure import code, optimisations, runs, transplant
from portatile.measure.code import Code
from portatile.measure.optimisations import RELAXED
from portatile.measure.runs import MeasurementLength, PreparedRun
from portatile.records import Arg, Binary, Config, Launch, Plan, Source, canonical
from portatile.studies.gap_rows import EMPTY_LAUNCH, OTHERS_PLAN, RELAXED_TOO, SWAPPED, TAKEN_OVER, GapRow
from portatile.trials import now

_NOTHING_TO_DO = Source("empty.cl", "__kernel void empty(const int nothing) {}\n")
_TURNS = 3  # turns of builds that are compared directly, because clocks drift


@dataclass(frozen=True)
class Side:
    """One side of the comparison: ``label`` as the user names it, the flat plan of ``config`` on the device."""

    label: str
    device: Device
    config: Config
    plan: Plan

    @property
    def names(self) -> tuple[str, ...]:
        """The optimisations that change its texts."""
        return tuple(one.name for one in optimisations.offered(self.plan, self.device.info))

    def takes(self, other: Side) -> bool:
        """Whether its driver can load the other side's code: between two back ends of NVIDIA's, if this one accepts PTX."""
        info, other_info = self.device.info, other.device.info
        return info.nvidia and other_info.nvidia and info.can.addresses and not other_info.can.addresses


@dataclass(frozen=True)
class RowBuild:
    """A row that is to be measured: on its ``side``, with its operands ``ready``; ``other`` is the side that it may take code from."""

    row: GapRow
    ready: PreparedRun
    side: Side
    other: Side
    length: MeasurementLength


def measured(build: RowBuild) -> GapRow:
    """The row with its time and code, or with the reason of a failure."""
    return by_turns([build], 1)[0]


def by_turns(builds: Sequence[RowBuild], turns: int = _TURNS) -> list[GapRow]:
    """The rows with their times and code: all are loaded and checked, then each is timed in every turn."""
    rows = [build.row for build in builds]
    samples: list[list[float]] = [[] for _ in builds]
    with ExitStack() as stack:
        running: dict[int, Callable[[], object]] = {}
        for place, build in enumerate(builds):
            try:
                rows[place], running[place] = stack.enter_context(_loaded(build))
            except PortatileError as failure:
                rows[place] = _failed(build.row, failure)
        for _ in range(turns):
            for place in list(running):
                ready = builds[place].ready
                try:
                    samples[place] += runs.bursts(ready.queue, ready.clock, running[place], builds[place].length)
                except PortatileError as failure:
                    rows[place] = _failed(rows[place], failure)
                    del running[place]
    return [_timed(row, taken) if place in running else row for place, (row, taken) in enumerate(zip(rows, samples, strict=True))]


@contextmanager
def _loaded(build: RowBuild) -> Iterator[tuple[GapRow, Callable[[], object]]]:
    """The row with its code and its error in units of its bound, and what runs the build once."""
    row, ready, side = build.row, build.ready, build.side
    origin = side
    if row.on == EMPTY_LAUNCH:
        with runs.loaded_plan(side.device, _empty(row.launches)) as executable:
            yield row, lambda: executable.run(ready.queue, {}, {})
        return
    if row.on in TAKEN_OVER:
        origin = build.other
        executable = _taken_over(row.on, side, origin)
        registers = [used.registers for used in executable.resources.values() if used.registers >= 0]
        row = replace(row, registers=max(registers, default=None))
    else:
        plan = built_plan(side, row)
        row = _with_code(row, code.of(plan, side.device.info))
        executable = runs.loaded_plan(side.device, plan)
    with executable:
        bound = workloads.get(row.workload).bound(ready.problem, origin.config)
        error = ready.check(executable, bound, strict=row.on != RELAXED_TOO, label=row.on)
        yield replace(row, error=error), lambda: executable.run(ready.queue, ready.memory, ready.inputs.scalars)


def _taken_over(what: str, side: Side, other: Side) -> execute.Executable:
    """The other's launches on a side's device: as its own compiler builds them, as its driver assembles that, or with the other's code."""
    if what == OTHERS_PLAN:
        return runs.loaded_plan(side.device, other.plan)
    if what == SWAPPED:
        return execute.Executable(side.device, other.plan, lambda source: transplant.transplanted(source, other.device))

    def assembled(source: Source) -> Binary:
        return transplant.own_assembly(source, side.device)

    try:
        return execute.Executable(side.device, other.plan, assembled)
    except PortatileError:  # its own compiler does not take the other's texts
        return execute.Executable(side.device, side.plan, assembled)


def built_plan(side: Side, row: GapRow) -> Plan:
    """The side's plan with the optimisations that a row has on."""
    names = side.names if row.set is None else row.set
    plan = optimisations.built_with(side.plan, names, side.device.info)
    return optimisations.with_options(plan, (RELAXED,)) if row.on == RELAXED_TOO else plan


def _empty(count: int) -> Plan:
    """So many launches of nothing."""
    return Plan((Launch(_NOTHING_TO_DO, "empty", (1, 1, 1), (1, 1, 1), (Arg("nothing", "scalar", dtype="int32", value=0),)),) * count)


def _with_code(row: GapRow, made: Code) -> GapRow:
    """The row with the counts of its build's code; unchanged if the compiler does not show the code."""
    row = replace(row, registers=made.registers, spills=made.spills, code=made.text)
    if not made.total:
        return row
    row = replace(row, instructions=made.total, fused=made.fused, loads=made.loads, wide=made.wide, read_only=made.read_only)
    return replace(row, private=made.private, families=canonical(made.families), kinds=canonical(made.kinds))


def _timed(row: GapRow, samples: Sequence[float]) -> GapRow:
    """The row with its time (the fastest sample) and its scatter (how far the median is above it)."""
    scatter = median(samples) / min(samples) - 1
    return replace(row, seconds=min(samples), scatter=scatter, samples=len(samples), time=now())


def _failed(row: GapRow, failure: PortatileError) -> GapRow:
    return replace(row, status=str(failure).splitlines()[0], time=now())
