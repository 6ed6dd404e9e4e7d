"""Where does a kernel's speed come from, and why is one compiler's code faster than the other's? One optimisation at a time.

Komatsu et al., figures 6 and 7, edited PTX by hand. Here a build from which every optimisation was taken (``measure.optimisations``) gets
them back in every combination, each checked and timed, with what changed in the compiler's instructions. ``finish`` reads three answers
from the times: the steps in the document's order, the steps of a greedy order, and each optimisation's share averaged over all orders.
With ``--between`` two devices, back ends or configurations are measured so, and the shares of the ratio of their times are the differences
of their optimisations' shares; what is left is the ratio of the builds without any.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

from portatile import cache, execute, program, select, workloads
from portatile import device as devices
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.measure import code, optimisations, runs, transplant
from portatile.measure.code import Code
from portatile.measure.optimisations import RELAXED
from portatile.measure.runs import Length, PreparedRun
from portatile.records import Arg, Config, Launch, Plan, Problem, Source, canonical
from portatile.store import known_results
from portatile.studies.form import attribution
from portatile.studies.form.study import LEFT_OUT, Column, Option, Run, Study, StudyRequest, option
from portatile.studies.gap_durations import Durations
from portatile.studies.gap_figures import figures, notes
from portatile.studies.gap_rows import COMPARED, EMPTY_LAUNCH, RELAXED_TOO, SWAPPED, GapRow, finish, spelled_set
from portatile.studies.pairs import configured
from portatile.studies.portability import describe
from portatile.trials import now

_LENGTH = Length(samples=4, seconds=0.06)
_ON_CPUS = Length(samples=8, seconds=0.2, most=5.0)  # where other programs disturb, the fastest of more
_AHEAD = 8  # builds that are compiled at once
_NOTHING_TO_DO = Source("empty.cl", "__kernel void empty(const int nothing) {}\n")


@dataclass(frozen=True)
class GapOptions:
    """What is compared, and from which configuration."""

    between: tuple[str, ...] = option(
        (),
        Option(
            "Explain the difference between two: devices of `portatile devices`, or configurations (DEVICE/NAME=VALUE,NAME=VALUE).",
            count=2,
            metavar="A B",
        ),
    )
    config: tuple[str, ...] = option(
        (), Option("Change one parameter of the configuration; repeat. Default: what would run.", metavar="NAME=VALUE")
    )
    quick: bool = option(False, "Not every combination: the document's order, and those that lack two optimisations at most.")
    relaxed: bool = option(False, f"Also everything with {RELAXED}.")


@dataclass(frozen=True)
class Side:
    """One of what is compared: ``label`` as the user names it, the flat plan of ``config`` on the device."""

    label: str
    device: Device
    config: Config
    plan: Plan

    @property
    def names(self) -> tuple[str, ...]:
        """The optimisations that change its texts."""
        return tuple(one.name for one in optimisations.offered(self.plan, self.device.info))

    def takes(self, other: Side) -> bool:
        """Whether its driver may load what the other's compiler makes: two back ends of NVIDIA's, of which this one takes PTX as it is."""
        info, other_info = self.device.info, other.device.info
        return info.nvidia and other_info.nvidia and info.can.addresses and not other_info.can.addresses


def measure(run: Run) -> Iterator[GapRow]:
    """Every combination of optimisations on every side."""
    problem, asked = run.problem, run.options
    assert problem is not None
    sides = chosen(run.devices, problem, asked)
    blanks = [_blanks(side, problem, asked, [other for other in sides if other is not side]) for side in sides]
    run.expect(sum(map(len, blanks)))
    with ExitStack() as stack:
        prepared: dict[str, PreparedRun] = {}
        wanted = [(place, row) for place, row in _by_turns(blanks) if not run.known(row)]
        durations, ahead = Durations(), 0  # the rows before ``ahead`` were compiled ahead, those of processors apart
        for number, (place, row) in enumerate(wanted):
            if not run.fits(expected := durations.expected(row)):
                yield replace(row, status=f"{LEFT_OUT}: about {expected:.0f} s are too long", time=now())
                continue
            side, other = sides[place], sides[len(sides) - 1 - place]
            if side.label not in prepared:
                run.say(f"{describe(problem)} on {side.label}: {', '.join(side.names)}")
                prepared[side.label] = stack.enter_context(runs.prepared(side.device, problem))
            ready = prepared[side.label]
            if number >= ahead:
                several = [(sides[of], later) for of, later in wanted[number : number + _AHEAD]]
                _compile([(one, later) for one, later in several if _together(one)], run.seconds_left)
                ahead = number + _AHEAD
            started, length = time.monotonic(), _length(side, run)
            if not _together(side):
                _compile([(side, row)], run.seconds_left)
            again = time.monotonic() - started if side.device.target.defers else 0.0  # its driver compiles once more, when it launches
            if not run.fits(again):
                yield replace(row, status=f"{LEFT_OUT}: it takes too long to compile", time=now())
                continue
            row = _transplanted(ready, side, other, row, length) if row.on == SWAPPED else _measured(ready, side, row, length)
            durations.add(row, time.monotonic() - started)
            yield row


def _by_turns(blanks: Sequence[Sequence[GapRow]]) -> Iterator[tuple[int, GapRow]]:
    """The rows with the number of their side, each side's by turns: clocks drift, and who ends the study early has both."""
    for turn in zip_longest(*blanks):
        yield from ((place, row) for place, row in enumerate(turn) if row is not None)


def _sets(side: Side, asked: GapOptions) -> list[frozenset[str]]:
    """The combinations of optimisations that are measured."""
    return attribution.few(side.names) if asked.quick else attribution.subsets(side.names)


def _together(side: Side) -> bool:
    """Whether several builds are compiled at once, ahead of their timing; on processors that would take the time from one another."""
    return side.device.info.kind != "cpu"


def _compile(builds: Sequence[tuple[Side, GapRow]], seconds: float | None) -> None:
    """Fill the cache with builds, by several threads, before they are timed; after ``seconds`` nobody waits for them.

    Only the next few: who ends the study early has measured most of what was compiled.
    """
    plans = [(optimisations.built_with(side.plan, row.set, side.device.info), side.device) for side, row in builds if row.set is not None]
    if not plans:
        return
    pool = ThreadPoolExecutor(min(_AHEAD, os.cpu_count() or 1))
    try:
        wait([pool.submit(_into_the_cache, plan, device) for plan, device in plans], seconds)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _into_the_cache(plan: Plan, device: Device) -> None:
    with suppress(PortatileError):  # whoever runs it says what is wrong
        code.of(plan, device.info)
        for source in execute.sources(plan):
            program.build(source, device.target, cache.default())


def chosen(opened: Sequence[Device], problem: Problem, asked: GapOptions) -> list[Side]:
    """The sides of the comparison. Raises ArgumentError for a configuration that is not legal."""
    if not asked.between:
        return [_side(device.info.id, device, problem, None, asked.config) for device in opened]
    first, second = asked.between
    one = _side(first, devices.get(first.partition("/")[0]), problem, None, asked.config)
    return [one, _side(second, devices.get(second.partition("/")[0]), problem, one.config, ())]


def _side(label: str, device: Device, problem: Problem, start: Config | None, changes: Sequence[str]) -> Side:
    """``start``: the configuration to begin with; None for the best known on the device."""
    workload, info = workloads.get(problem.workload), device.info
    space = workload.space(problem, info)
    if start is None:
        config = select.choose(workload, problem, info, known_results()(problem.workload)).config
    else:
        config = workload.lowered(start, info)
        if space.violated(config) is not None:  # another kind of device: its own best
            config = select.choose(workload, problem, info, known_results()(problem.workload)).config
    config = configured(problem, info, config, (*changes, *filter(None, label.partition("/")[2].split(","))))
    plan = execute.flatten(workload.plan(problem, config, info), select.resolver(info, known_results()))
    return Side(label, device, config, plan)


def _blanks(side: Side, problem: Problem, asked: GapOptions, others: Sequence[Side]) -> list[GapRow]:
    """The rows of a side before they are measured."""
    info = side.device.info
    sets = [spelled_set(one, side.names) for one in _sets(side, asked)]
    sets[2:2] = [SWAPPED] if asked.between and any(side.takes(other) for other in others) else []
    sets[2:2] = [EMPTY_LAUNCH] if asked.between else []
    sets += [RELAXED_TOO] if asked.relaxed and info.can.relaxed_math else []
    return [
        GapRow(
            side=side.label,
            device=info.id,
            name=info.name,
            driver=info.driver,
            workload=problem.workload,
            problem=describe(problem),
            dtype=problem.dtype,
            config=canonical(side.config),
            offered=",".join(side.names),
            on=on,
            launches=len(side.plan.steps),
        )
        for on in sets
    ]


def _measured(ready: PreparedRun, side: Side, row: GapRow, length: Length) -> GapRow:
    """The row with its time and code; what fails is a row that says why."""
    info = side.device.info
    if row.on == EMPTY_LAUNCH:
        return _empty_launch(ready, row)
    names = side.names if row.on == RELAXED_TOO else tuple(name for name in side.names if name in row.on.split(" + "))
    plan = optimisations.built_with(side.plan, names, info)
    options = (RELAXED,) if row.on == RELAXED_TOO else ()
    if options:
        plan = optimisations.with_options(plan, options)
    bound = workloads.get(row.workload).bound(ready.problem, side.config)
    try:
        made = code.of(plan, info)
        row = _with_code(row, made)
        with runs.loaded_plan(side.device, plan) as executable:
            error = ready.check(executable, bound, strict=not options, label=row.on)
            samples = ready.samples(executable, length)
    except PortatileError as failure:
        return replace(row, status=str(failure).splitlines()[0], time=now())
    return _timed(row, samples, error)


def _transplanted(ready: PreparedRun, side: Side, other: Side, row: GapRow, length: Length) -> GapRow:
    """The other side's launches, with what its compiler makes of them, through this side's driver."""
    bound = workloads.get(row.workload).bound(ready.problem, other.config)
    try:
        with execute.Executable(side.device, other.plan, lambda source: transplant.transplanted(source, other.device)) as executable:
            error = ready.check(executable, bound, label=row.on)
            samples = ready.samples(executable, length)
    except PortatileError as failure:
        return replace(row, status=str(failure).splitlines()[0], time=now())
    return _timed(row, samples, error)


def _with_code(row: GapRow, made: Code) -> GapRow:
    """The row with what its build is made of; unchanged where the compiler does not show it."""
    row = replace(row, registers=made.registers, spills=made.spills, code=made.text)
    if not made.total:
        return row
    row = replace(row, instructions=made.total, fused=made.fused, loads=made.loads, wide=made.wide, read_only=made.read_only)
    return replace(row, private=made.private, families=canonical(made.families), kinds=canonical(made.kinds))


def _length(side: Side, run: Run) -> Length:
    """The length of a measurement, with few samples where runs are so long that the study's time would end before."""
    length = _ON_CPUS if side.device.info.kind == "cpu" else _LENGTH
    return length if run.seconds_left is None else replace(length, most=min(length.most, run.seconds_left))


def _empty_launch(ready: PreparedRun, row: GapRow) -> GapRow:
    """Seconds of a launch of nothing, back to back."""
    plan = Plan((Launch(_NOTHING_TO_DO, "empty", (1, 1, 1), (1, 1, 1), (Arg("nothing", "scalar", dtype="int32", value=0),)),))
    with runs.loaded_plan(ready.device, plan) as executable:
        samples = runs.bursts(ready.queue, ready.clock, lambda: executable.run(ready.queue, {}, {}), _LENGTH)
    return _timed(row, samples, None)


def _timed(row: GapRow, samples: Sequence[float], error: float | None) -> GapRow:
    """The row with its time: of the fastest sample, and how far the median is above it."""
    scatter = median(samples) / min(samples) - 1
    return replace(row, seconds=min(samples), scatter=scatter, samples=len(samples), error=error, time=now())


def _sample(given: tuple[Device, ...]) -> StudyRequest:
    """matmul, as the document's matrixMul; two back ends of one device are compared where there are."""
    best = given[0]
    size = 1024 if best.info.kind == "gpu" else 128
    problem = workloads.get("matmul").problem(dict.fromkeys("mnk", size))
    other = next((one for one in given[1:] if best.info.physical_id and one.info.physical_id == best.info.physical_id), None)
    between = () if other is None else (best.info.id, other.info.id)
    return StudyRequest((best,), GapOptions(between), problem)


STUDY = Study(
    name="gap",
    answers=("D3.2", "D3.3"),
    question="Which optimisations make a kernel fast, and which explain the difference between two compilers?",
    minutes=3.0,
    timed="kernels alone, the fastest of several bursts back to back by the device's clock; no transfers, no compilation.",
    row=GapRow,
    key=("side", "workload", "problem", "dtype", "config", "on"),
    columns=(
        Column("of", "side"),
        Column("order", "order"),
        Column("optimisation", "added"),
        Column("time", "seconds", "s"),
        Column("saved", "saved", "%"),
        Column("explains", "explained", "%"),
        Column("instructions", "instructions"),
        Column("fused", "fused"),
        Column("wide", "wide"),
        Column("private", "private"),
        Column("registers", "registers"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    options=GapOptions,
    finish=finish,
    shown=lambda rows: [replace(row, saved=None) if row.order in COMPARED else row for row in rows if row.order],
    notes=notes,
    problem="needed",
    sample=_sample,
)
