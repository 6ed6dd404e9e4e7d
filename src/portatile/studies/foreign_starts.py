"""How many trials do other tuners' results save? Recorded searches are replayed with their best configurations as suggestions, and
without.

A recording is searched as ``tune --replay`` does. Suggestions come from recordings of the same kernel on other devices or problems (T4,
caches of Kernel Tuner, portatile's own results), or from CLBlast's database in the workload's parameters. Of each file a few of the fastest
configurations that differ much are taken, and for each of them the nearest one that was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from portatile import workloads
from portatile.errors import UsageError
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.svg import Figure
from portatile.formatting import percent
from portatile.records import Config, Value, canonical
from portatile.studies.convergence import Comparison, StrategiesRequest, compare
from portatile.studies.framework.study import Column, Option, Run, Study, option
from portatile.trials import Budget
from portatile.tuning.search import foreign_starts, replay
from portatile.tuning.search.replay import Recording

WITHOUT, WITH = "without", "with"
_LOOKED_AT = 200  # the fastest of what a device knows


@dataclass(frozen=True)
class StartsRow:
    """A search after ``place`` trials, ``WITHOUT`` or ``WITH`` suggestions.

    ``share``, with the 10th and 90th percentile beside it, is of the optimum. ``at_once``: the share when all ``starts`` suggestions were
    tried, or after as many trials. ``to_95``, ``to_98``: trials until that share; None if half of the repetitions do not reach it.
    ``saved``: by how much ``WITH`` shortens ``to_95``.
    """

    recording: str
    configurations: int
    known: str
    search: str
    starts: int
    place: float
    low: float
    share: float
    high: float
    at_once: float | None
    to_95: float | None
    to_98: float | None
    saved: float | None = None


@dataclass(frozen=True)
class StartsOptions:
    """The recordings to search, and the results from which suggestions come."""

    files: tuple[Path, ...] = option((), Option("Recorded trials to search: T4, a cache of Kernel Tuner, a result store.", argument=True))
    known: tuple[Path, ...] = option((), "Results of others for the same kernel: a file of the same kinds, or CLBlast's database; repeat.")
    starts: int = option(
        4, Option("Configurations to suggest; the first two are always tried, others only while a suggestion leads.", least=1)
    )
    strategy: str = option("auto", "Search strategy.")
    repeats: int = option(10, Option("Searches of each kind, each with its own seed.", least=1))
    budget: int = option(100, Option("Trials of each search.", least=2))
    seed: int = option(0, Option("Seed of the first search.", least=0))


def measure(run: Run) -> Iterator[StartsRow]:
    """Every recording without and with what is known of its kernel."""
    options: StartsOptions = run.options
    if not options.files or not options.known:
        raise UsageError("name recorded trials, and what others know: `portatile study foreign-starts a100.json --known a4000.json`")
    recordings = [recording for file in options.files for recording in replay.recordings(file)]
    for recording in recordings:
        own = [path for path in options.known if starts_of(recording, [path], 1)]
        if not own:
            run.say(f"{recording.name}: nothing of {', '.join(path.name for path in options.known)} says anything of its parameters")
            continue
        chosen = starts_of(recording, own, options.starts)
        known = ", ".join(path.name.split(".")[0] for path in own)
        for search, starts in ((WITHOUT, ()), (WITH, chosen)):
            run.say(f"{recording.name} {search} {known}")
            limit = Budget(evaluations=min(options.budget, len(recording.trials)))
            asks = StrategiesRequest(recording, (options.strategy,), options.repeats, limit, options.seed, starts)
            yield from _rows(compare(asks), known, search, len(chosen))


def starts_of(recording: Recording, paths: Sequence[Path], count: int) -> tuple[Config, ...]:
    """The recorded configurations nearest to those that are fast in all these files, and different from one another; none if the files
    have other parameters."""
    names, table = set(recording.trials[0].config), recording.table()
    space, configs = recording.space(), dict[str, Config]()
    default = recording.default() or recording.trials[0].config
    groups = [group for path in paths for group in _groups(recording, path, names)]
    ordered: list[Config] = []
    for same in (True, False):  # results of another kernel text, with other parameters, mean less
        ordered += foreign_starts.agreed([known for text, known in groups if (text == names) is same])
    for whole in ordered[:_LOOKED_AT]:
        config = whole if canonical(whole) in table else foreign_starts.nearest(space, default, whole)
        if config is not None and canonical(config) in table:
            configs.setdefault(canonical(config), dict(config))
        if len(configs) >= max(foreign_starts.AMONG, count):
            break
    return foreign_starts.spread_out(list(configs.values()), count)


def _groups(recording: Recording, path: Path, names: set[str]) -> list[tuple[set[str], list[tuple[Config, float]]]]:
    """A file's fastest configurations with their seconds, in the recording's parameters: a group for each problem and device.

    With each group stand the parameters of its kernel text.
    """
    groups: dict[str, list[tuple[Mapping[str, Value], float]]] = {}
    problem = recording.problem
    if problem.workload in workloads.names():
        workload = workloads.get(problem.workload)
        for result in foreign_starts.read(path):
            if result.dtype in ("", problem.dtype) and (meant := workload.translated(result.config)):
                groups.setdefault(canonical([result.kernel, result.device, dict(result.sizes)]), []).append((meant, result.seconds))
    if not groups:
        for place, other in enumerate(replay.recordings(path)):
            same = (other.problem.key, other.device.name) == (problem.key, recording.device.name)
            if _one_kernel(names, set(other.trials[0].config)) and not same:  # itself is no other
                valid = [(trial.config, trial.median) for trial in other.trials if math.isfinite(trial.median)]
                groups |= {str(place): list(valid)} if valid else {}
    return [(set(group[0][0]), _fastest(group, names)) for group in groups.values()]


def _fastest(group: Sequence[tuple[Mapping[str, Value], float]], names: set[str]) -> list[tuple[Config, float]]:
    """The fastest few, with the parameters of these names."""
    kept = sorted(group, key=itemgetter(1))[:_LOOKED_AT]
    return [({name: config[name] for name in config if name in names}, seconds) for config, seconds in kept]


def _one_kernel(names: set[str], others: set[str]) -> bool:
    """Whether parameters are those of one kernel: its texts change, but most names stay; a work-group's size alone says nothing."""
    return len(names & others) > max(len(names), len(others)) / 2


def _rows(comparison: Comparison, known: str, search: str, starts: int) -> Iterator[StartsRow]:
    curve = comparison.curves[0]
    at_once = curve.middle[min(_turns(starts), len(curve.middle)) - 1]
    for at, place in enumerate(comparison.places):
        shares = curve.low[at], curve.middle[at], curve.high[at]
        shared = comparison.name, comparison.configurations, known, search, starts, place
        yield StartsRow(*shared, *shares, at_once, curve.to_95, curve.to_98)


def _turns(starts: int) -> int:
    """The trials after which suggestions were tried, by turns with the search's own."""
    return max(2 * starts - 1, 1)


def finish(rows: Sequence[StartsRow]) -> list[StartsRow]:
    """The trials until 95 % of the optimum that a search is spared."""
    plain = {(row.recording, row.known): row.to_95 for row in rows if row.search == WITHOUT}
    finished = []
    for row in rows:
        before = plain.get((row.recording, row.known))
        spared = before - row.to_95 if row.search == WITH and before is not None and row.to_95 is not None else None
        finished.append(replace(row, saved=spared))
    return finished


def shown(rows: Sequence[StartsRow]) -> list[StartsRow]:
    """Of each search its last row: the others are its curve."""
    return list({(row.recording, row.known, row.search): row for row in rows}.values())


def figures(rows: Sequence[StartsRow]) -> list[Figure]:
    """For each recording the share of the optimum over the trials."""
    charts: list[Figure] = []
    for recording, known in dict.fromkeys((row.recording, row.known) for row in rows):
        selected = [row for row in rows if (row.recording, row.known) == (recording, known)]
        curves = []
        for search in dict.fromkeys(row.search for row in selected):
            own = [row for row in selected if row.search == search]
            band = tuple((row.place, row.low, row.high) for row in own)
            curves.append(Series(f"{search} what others found", tuple((row.place, row.share) for row in own), band))
        caption = f"Suggestions from {known}. Share of the optimum of {selected[0].configurations} configurations: median, 10 to 90 %."
        charts.append(LineChart(recording, caption, ChartAxis("trials", zero=False), ChartAxis("share of the optimum", "%"), tuple(curves)))
    return charts


def notes(rows: Sequence[StartsRow]) -> list[str]:
    """How many trials each recording's search saves."""
    lines = []
    for row in shown(rows):
        if row.search == WITH:
            text = f"{row.recording} after {row.known}: {percent(row.at_once)} of the optimum at trial {_turns(row.starts)}"
            word = "saved" if (row.saved or 0.0) >= 0 else "more"
            lines.append(text if row.saved is None else f"{text}, {abs(row.saved):g} trials {word} on the way to 95 %")
    return lines


def answer(rows: Sequence[StartsRow]) -> str:
    """How many trials are saved until 95 % of each optimum."""
    before = {(row.recording, row.known): row.to_95 for row in rows if row.search == WITHOUT}
    parts = []
    for row in (row for row in shown(rows) if row.search == WITH):
        plain = before.get((row.recording, row.known))
        if row.to_95 is not None and plain is not None:
            trials = "1 trial" if row.to_95 == 1 else f"{row.to_95:g} trials"
            parts.append(f"{row.recording}: 95 % of the optimum after {trials} instead of {plain:g}, with suggestions from {row.known}")
    return ". ".join(parts)


STUDY = Study(
    name="foreign-starts",
    answers=("D1.9",),
    question="How many trials does a search save if it knows other tuners' results?",
    minutes=0.3,
    timed="nothing: recorded trials are replayed.",
    row=StartsRow,
    key=("recording", "known", "search", "place"),
    columns=(
        Column("recording", "recording"),
        Column("known", "known"),
        Column("what others found", "search"),
        Column("suggestions", "starts"),
        Column("when tried", "at_once", "%"),
        Column("to 95 %", "to_95"),
        Column("to 98 %", "to_98"),
        Column("saved", "saved"),
        Column("in the end", "share", "%"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=StartsOptions,
    finish=finish,
    shown=shown,
    notes=notes,
    devices="none",
)
