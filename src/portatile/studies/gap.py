"""Which optimisations make a kernel fast, and which of them make one compiler's code faster than another's?

Komatsu et al., figures 6 and 7, edited PTX by hand. Here kernels are built with every combination of optimisations
(``measure.optimisations``). Each build is checked and timed, and the changes in the compiler's instructions are counted.
``finish`` reads three answers
from the times: the steps in the document's order, the steps of a greedy order, and each optimisation's share averaged over all orders.
With ``--between`` two devices, back ends or configurations are measured so, and the shares of the ratio of their times are the differences
of their optimisations' shares; what is left is the ratio of the builds without any.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from portatile import cache, flat_plans, program, select, workloads
from portatile import device as devices
from portatile.device.base import Device
from portatile.device.target import Target
from portatile.errors import PortatileError
from portatile.formatting import duration
from portatile.measure import code, optimisations, runs
from portatile.measure.optimisations import RELAXED
from portatile.measure.runs import MeasurementLength, PreparedRun
from portatile.records import Config, Problem, Source, canonical
from portatile.store import known_results
from portatile.studies import gap_builds
from portatile.studies.framework import attribution
from portatile.studies.framework.study import LEFT_OUT, Column, Option, Run, Study, StudyRequest, option
from portatile.studies.gap_builds import RowBuild, Side
from portatile.studies.gap_durations import Durations
from portatile.studies.gap_figures import answer, figures, notes
from portatile.studies.gap_rows import COMPARED, EMPTY_LAUNCH, RELAXED_TOO, TAKEN_OVER, GapRow, finish, spelled_set
from portatile.studies.pairs import configured
from portatile.trials import now
from portatile.workloads.speeds import described

_LENGTH = MeasurementLength(samples=4, seconds=0.06, most=0.3, enough=1)
_ON_CPUS = MeasurementLength(samples=8, seconds=0.2, most=5.0)  # more samples, because other programs disturb
_AHEAD = 8  # builds that are compiled at once


@dataclass(frozen=True)
class GapOptions:
    """The sides to compare, the configuration, and the set of builds."""

    between: tuple[str, ...] = option(
        (),
        Option(
            "Explain the difference between two: devices of `portatile devices`, or configurations (DEVICE/NAME=VALUE,NAME=VALUE).",
            count=2,
            metavar="A B",
        ),
    )
    config: tuple[str, ...] = option(
        (), Option("Change one parameter of the configuration; repeat. Default: the configuration that would run.", metavar="NAME=VALUE")
    )
    quick: bool = option(False, "Only combinations in the order of the paper, and those that lack at most two optimisations.")
    relaxed: bool = option(False, f"Also measure all builds with {RELAXED}.")


def measure(run: Run) -> Iterator[GapRow]:
    """Every combination of optimisations on every side; builds that are compared directly come first, timed in turns."""
    problem, asked = run.problem, run.options
    assert problem is not None
    sides = chosen(run.devices, problem, asked)
    blanks = [_unmeasured_rows(side, problem, asked, [other for other in sides if other is not side]) for side in sides]
    run.expect(sum(map(len, blanks)))
    wanted = [(place, row) for place, row in _by_turns(blanks) if not run.known(row)]
    directly = [(place, row) for place, row in wanted if asked.between and (row.set is None or row.set == frozenset(sides[place].names))]
    with ExitStack() as stack:
        bench = _Builds(run, sides, stack)
        if directly:
            _compile([(sides[place], row) for place, row in directly], run.seconds_left)
            started = time.monotonic()
            rows = gap_builds.by_turns([bench.build(place, row) for place, row in directly])
            for row in rows:
                bench.durations.add(row, (time.monotonic() - started) / len(rows))
            yield from rows
        yield from bench.measured([one for one in wanted if one not in directly])


@dataclass
class _Builds:
    """The state that the builds of a study share: the sides' operands, kept in ``stack``, and how long builds took."""

    run: Run
    sides: Sequence[Side]
    stack: ExitStack
    prepared: dict[str, PreparedRun] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)

    def build(self, place: int, row: GapRow) -> RowBuild:
        """The row of a side as it is to be measured."""
        side, other = self.sides[place], self.sides[len(self.sides) - 1 - place]
        if side.label not in self.prepared:
            assert self.run.problem is not None
            self.run.say(f"{row.workload} {row.problem} on {side.label}: {', '.join(side.names)}")
            self.prepared[side.label] = self.stack.enter_context(runs.prepared(side.device, self.run.problem))
        return RowBuild(row, self.prepared[side.label], side, other, _length(side, self.run))

    def measured(self, wanted: Sequence[tuple[int, GapRow]]) -> Iterator[GapRow]:
        """The measured rows, one after another. A build that would take longer than the remaining time has a status that says so."""
        run, ahead = self.run, 0  # the rows before ``ahead`` were compiled ahead, those of processors apart
        for number, (place, row) in enumerate(wanted):
            if not run.fits(expected := self.durations.expected(row)):
                yield replace(row, status=f"{LEFT_OUT}: about {duration(expected)} would be too long", time=now())
                continue
            build = self.build(place, row)
            if number >= ahead:
                several = [(self.sides[of], later) for of, later in wanted[number : number + _AHEAD]]
                _compile([(one, later) for one, later in several if _compiles_ahead(one)], run.seconds_left)
                ahead = number + _AHEAD
            started = time.monotonic()
            if not _compiles_ahead(build.side):
                _compile([(build.side, row)], run.seconds_left)
            again = time.monotonic() - started if build.side.device.target.defers else 0.0  # its driver compiles once more, as it launches
            if not run.fits(again):
                yield replace(row, status=f"{LEFT_OUT}: it takes too long to compile", time=now())
                continue
            row = gap_builds.measured(build)
            self.durations.add(row, time.monotonic() - started)
            yield row


def _by_turns(blanks: Sequence[Sequence[GapRow]]) -> Iterator[tuple[int, GapRow]]:
    """The rows with the number of their side, alternating between the sides, because clocks drift and a study may be ended early."""
    for turn in itertools.zip_longest(*blanks):
        yield from ((place, row) for place, row in enumerate(turn) if row is not None)


def _sets(side: Side, asked: GapOptions) -> list[frozenset[str]]:
    """The combinations of optimisations to measure; for two sides the fast ones first, because they explain most of a difference."""
    sets = attribution.few(side.names) if asked.quick else attribution.subsets(side.names)
    return sorted(sets, key=len, reverse=True) if asked.between else sets


def _compiles_ahead(side: Side) -> bool:
    """Whether several builds are compiled at once, ahead of their timing; on CPUs that would disturb the timing."""
    return side.device.info.kind != "cpu"


def _compile(builds: Sequence[tuple[Side, GapRow]], seconds: float | None) -> None:
    """Fill the cache with builds before they are timed, one thread per text; wait for at most ``seconds``.

    Only the next few: who ends the study early has measured most of what was compiled.
    """
    waiting: dict[tuple[str, Source, int], Target] = {}
    for side in {id(side): side for side, _ in builds}.values():
        targets = dict.fromkeys((side.device.target, code.assembly_target(side.device.info)))
        sets = [row.set for one, row in builds if one is side and row.set is not None]
        for plan in (optimisations.built_with(side.plan, on, side.device.info) for on in sets):
            made = itertools.product(flat_plans.sources(plan), enumerate(targets))
            waiting |= {(side.label, source, place): target for source, (place, target) in made}
    if not waiting:
        return
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        wait([pool.submit(_into_the_cache, source, target) for (_, source, _), target in waiting.items()], seconds)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _into_the_cache(source: Source, target: Target) -> None:
    with suppress(PortatileError):  # whoever runs it says what is wrong
        program.build(source, target, cache.default())


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
    plan = flat_plans.flatten(workload.plan(problem, config, info), select.resolver(info, known_results()))
    return Side(label, device, config, plan)


def _unmeasured_rows(side: Side, problem: Problem, asked: GapOptions, others: Sequence[Side]) -> list[GapRow]:
    """The rows of a side before they are measured."""
    info = side.device.info
    sets = [spelled_set(one, side.names) for one in _sets(side, asked)]
    sets[2:2] = _taken_over(side, others) if asked.between else []
    sets[2:2] = [EMPTY_LAUNCH] if asked.between else []
    sets += [RELAXED_TOO] if asked.relaxed and info.can.relaxed_math else []
    return [
        GapRow(
            side=side.label,
            device=info.id,
            name=info.name,
            driver=info.driver,
            workload=problem.workload,
            problem=described(problem),
            dtype=problem.dtype,
            config=canonical(side.config),
            offered=",".join(side.names),
            on=on,
            launches=len(side.plan.steps),
        )
        for on in sets
    ]


def _taken_over(side: Side, others: Sequence[Side]) -> list[str]:
    """What a side can take over from the other one: its launches, if calls chose other configurations there, and its code."""
    takes = next((other for other in others if side.takes(other)), None)
    if takes is None:
        return []
    return list(TAKEN_OVER if takes.plan != side.plan else TAKEN_OVER[1:])


def _length(side: Side, run: Run) -> MeasurementLength:
    """The length of a measurement, with few samples if runs are long compared with the remaining time."""
    length = _ON_CPUS if side.device.info.kind == "cpu" else _LENGTH
    return length if run.seconds_left is None else replace(length, most=min(length.most, run.seconds_left))


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
    answer=answer,
    options=GapOptions,
    finish=finish,
    shown=lambda rows: [replace(row, saved=None) if row.order in COMPARED else row for row in rows if row.order],
    notes=notes,
    problem="needed",
    sample=_sample,
)
