"""What do a device's hardware counters say of a kernel: traffic, hits of the caches, instructions, conflicts?

Transue et al. left them as future work. NVIDIA's GPUs are asked through Nsight Compute, processors through ``perf_event_open``; where
neither is allowed, or a driver has none, the row says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from portatile import select, workloads
from portatile.device.base import Device
from portatile.errors import DeviceError, PortatileError
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.measure import processor_counters, profiler_counters, runs
from portatile.measure.profiler_counters import OF_PEAK, CountedRun
from portatile.records import Config, Problem, canonical
from portatile.store import known_results
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.studies.pairs import configured
from portatile.trials import now
from portatile.workloads.speeds import described

_SHARES = ("%", "percent")
_WHOLE = "all"


@dataclass(frozen=True)
class CountersRow:
    """One counter of one launch of a run, or of the whole run if ``kernel`` is ``all``; ``per_flop`` for counters that are not shares.

    If there is no ``value``, ``status`` says why.
    """

    device: str
    name: str
    driver: str
    workload: str
    problem: str
    dtype: str
    config: str
    launch: int = 0
    kernel: str = _WHOLE
    counter: str = ""
    value: float | None = None
    unit: str = ""
    per_flop: float | None = None
    status: str = "ok"
    time: str = ""


@dataclass(frozen=True)
class CountersOptions:
    """Changes of the configuration that runs."""

    config: tuple[str, ...] = option(
        (), Option("Change one parameter of the configuration; repeat. Default: the configuration that would run.", metavar="NAME=VALUE")
    )


def measure(run: Run) -> Iterator[CountersRow]:
    """The counters of one run on each device."""
    problem, options = run.problem, run.options
    assert problem is not None
    run.expect(len(run.devices))
    for device in run.devices:
        start = select.choose(workloads.get(problem.workload), problem, device.info, known_results()(problem.workload)).config
        yield from rows(device, problem, configured(problem, device.info, start, options.config))


def rows(device: Device, problem: Problem, config: Config) -> list[CountersRow]:
    """The values of the device's counters over one run; a row with the reason where there are none."""
    info, flops = device.info, workloads.get(problem.workload).flops(problem)
    columns = problem.workload, described(problem), problem.dtype, canonical(config)
    blank = CountersRow(info.id, info.name, info.driver, *columns, time=now())
    try:
        if info.kind == "cpu":
            return _of_processor(device, problem, config, blank, flops)
        if not (info.nvidia and info.can.addresses):
            reason = "Nsight Compute sees kernels of CUDA only" if info.nvidia else "no profiler for this device is known here"
            raise DeviceError(reason)
        counts = profiler_counters.counted(CountedRun(problem, info.id, config))
    except PortatileError as error:
        return [replace(blank, status=str(error).splitlines()[0])]
    return [
        replace(
            blank,
            launch=count.place,
            kernel=count.kernel,
            counter=count.count.name,
            value=count.count.value,
            unit=count.count.unit,
            per_flop=None if count.count.unit in _SHARES or not flops else count.count.value / flops,
        )
        for count in counts
    ]


def _of_processor(device: Device, problem: Problem, config: Config, blank: CountersRow, flops: float) -> list[CountersRow]:
    with runs.prepared(device, problem) as ready, runs.loaded(device, problem, config) as executable:
        ready.check(executable, workloads.get(problem.workload).bound(problem, config), label=str(dict(config)))

        def once() -> None:
            executable.run(ready.queue, ready.memory, ready.inputs.scalars)
            ready.queue.finish()

        counts, missing = processor_counters.counted(once)
    measured = [
        replace(blank, counter=count.name, value=count.value, unit=count.unit, per_flop=count.value / flops if flops else None)
        for count in counts
    ]
    return measured + [replace(blank, counter=why.partition(":")[0], status=why.partition(": ")[2]) for why in missing]


def figures(rows: Sequence[CountersRow]) -> list[Figure]:
    """Shares of the device's own maximum, and what is counted for each flop; of the launch that has most of them."""
    charts: list[Figure] = []
    for shares, title, unit in ((True, "Shares", "%"), (False, "For each flop", "per flop")):
        known = [row for row in rows if row.value is not None and (row.unit in _SHARES) == shares and (shares or row.per_flop)]
        devices = tuple(dict.fromkeys(row.device for row in known))
        names = tuple(dict.fromkeys(row.counter for row in known))
        if known:
            most: dict[tuple[str, str], float] = {}
            for row in known:
                value = (row.value or 0.0) / 100 if shares else (row.per_flop or 0.0)
                most[row.counter, row.device] = max(value, most.get((row.counter, row.device), value))
            values = tuple(tuple(most.get((name, device)) for device in devices) for name in names)
            units = {row.counter: row.unit for row in known if not shares and row.unit}
            names = tuple(f"{name} ({units[name]})" if name in units else name for name in names)
            caption = f"{known[0].workload} {known[0].problem} {known[0].dtype}; of several kernels the one with most."
            charts.append(BarChart(title, caption, "share" if shares else "count", unit, names, devices, values))
    return charts


def notes(rows: Sequence[CountersRow]) -> list[str]:
    """Why counters are missing."""
    return [f"{row.device}: {row.counter + ': ' if row.counter else ''}{row.status}" for row in rows if row.status != "ok"]


def answer(rows: Sequence[CountersRow]) -> str:
    """The shares that were counted, or why nothing was."""
    shares = {row.counter: row.value for row in rows if row.value is not None and row.unit in _SHARES}
    if shares:
        most = sorted(shares.items(), key=lambda item: -item[1])[:3]
        return f"{rows[0].workload} on {rows[0].device}: {', '.join(_share(*item) for item in most)}"
    counted = [row for row in rows if row.value is not None][:3]
    if not rows or not counted:
        return f"Nothing could be counted: {rows[0].status}" if rows else ""
    return f"{rows[0].workload} on {rows[0].device}: {', '.join(map(_in_words, counted))}"


def _share(counter: str, value: float) -> str:
    """A share as words: ``L2 hits 89 %``, ``memory 55 % of peak``."""
    name = counter.removeprefix(OF_PEAK)
    return f"{name} {percent(value / 100)}{' of peak' if name != counter else ''}"


def _in_words(row: CountersRow) -> str:
    """A counter with its value: ``processor time 866 us``, ``12 barriers``."""
    if row.unit == "ns":
        return f"{row.counter} {duration((row.value or 0.0) / 1e9)}"
    return f"{written(row.value or 0.0)} {row.counter}"


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    size = 1024 if devices[0].info.kind == "gpu" else 128
    return StudyRequest(devices, CountersOptions(), workloads.get("matmul").problem(dict.fromkeys("mnk", size)))


STUDY = Study(
    name="counters",
    answers=("D2.8",),
    question="What do hardware counters show about a kernel?",
    minutes=0.5,
    timed="nothing: counts are of one run; on processors the mean of several, of the whole process in user mode.",
    row=CountersRow,
    key=("device", "workload", "problem", "dtype", "config", "launch", "kernel", "counter"),
    columns=(
        Column("device", "device"),
        Column("kernel", "kernel"),
        Column("counter", "counter"),
        Column("value", "value"),
        Column("unit", "unit"),
        Column("per flop", "per_flop"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=CountersOptions,
    notes=notes,
    problem="needed",
    sample=_sample,
)
