"""Which strategy finds good configurations soonest, replayed on recorded trials? The study of ``convergence``, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from portatile.errors import UsageError
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.studies.convergence import Comparison, StrategiesRequest, compare
from portatile.studies.framework.study import Column, Option, Run, Study, option
from portatile.trials import Budget
from portatile.tuning.search import replay

USUAL = "auto,genetic,annealing,local,random"
_PLACES = 50  # points of a curve in the table
_POINTS = 400  # points of a drawn line; more would not be visible


@dataclass(frozen=True)
class StrategiesRow:
    """One strategy on one recording after ``place`` evaluations or simulated seconds, which ``unit`` says.

    ``share``, with the 10th and 90th percentile beside it, is of the optimum; ``to_95``, ``to_98``, ``score`` and ``per_proposal`` are of
    the whole curve: see ``convergence``.
    """

    recording: str
    strategy: str
    unit: str
    place: float
    low: float
    share: float
    high: float
    to_95: float | None
    to_98: float | None
    score: float | None
    per_proposal: float


@dataclass(frozen=True)
class StrategiesOptions:
    """What to replay: a result store, what `results --json` or `tune --json` prints, T4, or a cache of Kernel Tuner."""

    files: tuple[Path, ...] = option((), Option("Files of recorded trials.", argument=True))
    strategies: str = option(USUAL, "Strategies to compare, separated by commas.")
    repeats: int = option(10, Option("Runs of each strategy, each with its own seed.", least=1))
    budget: str | None = option(None, "200 (evaluations) or 60s (simulated). Default: until random search has come 95 % of the way.")
    seed: int = option(0, Option("Seed of the first run.", least=0))


def names_of(text: str) -> tuple[str, ...]:
    """The strategies of a list with commas; raises UsageError for none."""
    chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not chosen:
        raise UsageError(f"--strategies names no strategy; write for example {USUAL}")
    return chosen


def measure(run: Run) -> Iterator[StrategiesRow]:
    """One recording after another, one strategy after another."""
    options: StrategiesOptions = run.options
    if not options.files:
        raise UsageError("name a file of recorded trials: `portatile study strategies results.json`")
    names = names_of(options.strategies)
    limit = None if options.budget is None else Budget.parse(options.budget)
    recordings = [recording for file in options.files for recording in replay.recordings(file)]
    if not recordings:
        raise UsageError(f"there are no trials in {', '.join(map(str, options.files))}")
    usable = [recording for recording in recordings if any(trial.status == "ok" for trial in recording.trials)]
    if not usable:
        raise UsageError(f"no recorded configuration in {', '.join(map(str, options.files))} is valid")
    for recording in recordings:
        if recording not in usable:
            run.say(f"left out {recording.name}: none of its {len(recording.trials)} configurations is valid")
            continue
        for name in names:
            run.say(f"{recording.name}: {name}")
            yield from rows(compare(StrategiesRequest(recording, (name,), options.repeats, limit, options.seed)))


def rows(comparison: Comparison) -> Iterator[StrategiesRow]:
    """The curves at some places, the last among them."""
    step = max(len(comparison.places) // _PLACES, 1)
    for curve in comparison.curves:
        for at in reversed(range(len(comparison.places) - 1, -1, -step)):
            shares = curve.low[at], curve.middle[at], curve.high[at]
            scores = curve.to_95, curve.to_98, curve.score
            yield StrategiesRow(comparison.name, curve.strategy, comparison.unit, comparison.places[at], *shares, *scores, curve.thinking)


def chart(comparison: Comparison) -> LineChart:
    """Medians with their bands, over the evaluations or simulated seconds."""
    description = f"{comparison.configurations} configurations, {comparison.failing} failing, {comparison.repeats} repetitions"
    shown = range(0, len(comparison.places), max(len(comparison.places) // _POINTS, 1))
    curves = []
    for curve in comparison.curves:
        points = tuple((comparison.places[at], curve.middle[at]) for at in shown)
        band = tuple((comparison.places[at], curve.low[at], curve.high[at]) for at in shown)
        curves.append(Series(curve.strategy, points, band))
    return _chart(f"{comparison.name}: {description}", comparison.unit, curves)


def _chart(title: str, unit: str, curves: Sequence[Series]) -> LineChart:
    axis = ChartAxis({"evaluations": "evaluations", "seconds": "simulated seconds"}[unit], zero=False)
    caption = "The share of the optimum that the best configuration so far reaches: median over repetitions, and 10th to 90th percentile."
    return LineChart(title, caption, axis, ChartAxis("share of the optimum", "%"), tuple(curves))


def figures(measured: Sequence[StrategiesRow]) -> list[Figure]:
    """The curves of each recording."""
    charts: list[Figure] = []
    for recording in dict.fromkeys(row.recording for row in measured):
        of_recording = [row for row in measured if row.recording == recording]
        curves = []
        for name in dict.fromkeys(row.strategy for row in of_recording):
            own = [row for row in of_recording if row.strategy == name]
            points, band = tuple((row.place, row.share) for row in own), tuple((row.place, row.low, row.high) for row in own)
            curves.append(Series(name, points, band))
        charts.append(_chart(recording, of_recording[0].unit, curves))
    return charts


def few(measured: Sequence[StrategiesRow]) -> list[StrategiesRow]:
    """Of each curve the rows that people read: about where the places have doubled, and the last."""
    shown: list[StrategiesRow] = []
    for recording, name in dict.fromkeys((row.recording, row.strategy) for row in measured):
        own, after = [row for row in measured if (row.recording, row.strategy) == (recording, name)], 0.0
        for row in own:
            if row.place >= 2 * after or row is own[-1]:
                shown.append(row)
                after = row.place
    return shown


def notes(measured: Sequence[StrategiesRow]) -> list[str]:
    """The strategies of each recording, the best first."""
    lines = []
    for recording in dict.fromkeys(row.recording for row in measured):
        last = {row.strategy: row for row in measured if row.recording == recording}
        ordered = sorted(last.values(), key=lambda row: -math.inf if row.score is None else row.score, reverse=True)
        ranked = [f"{row.strategy} ({'never' if row.to_95 is None else written(row.to_95)})" for row in ordered]
        lines.append(f"{recording}, by P, the best first, with the {ordered[0].unit} to 95 % of the optimum: {', '.join(ranked)}")
    return lines


def answer(rows: Sequence[StrategiesRow]) -> str:
    """The best strategy of each recording."""
    best: dict[str, tuple[float, StrategiesRow]] = {}
    for row in rows:
        if row.score is not None and row.score > best.get(row.recording, (-math.inf, row))[0]:
            best[row.recording] = row.score, row
    parts = [
        f"{name}: {row.strategy}" + (f", 95 % of the optimum after {written(row.to_95)} {row.unit}" if row.to_95 is not None else "")
        for name, (_, row) in best.items()
    ]
    return ". ".join(parts)


STUDY = Study(
    name="strategies",
    answers=("D1.9",),
    question="Which search strategy finds good configurations soonest?",
    minutes=0.5,
    timed="nothing: recorded trials are replayed; a simulated second is what compiling and running them took then.",
    row=StrategiesRow,
    key=("recording", "strategy", "place"),
    columns=(
        Column("recording", "recording"),
        Column("strategy", "strategy"),
        Column("after", "place"),
        Column("share of the optimum", "share", "%"),
        Column("10 %", "low", "%"),
        Column("90 %", "high", "%"),
        Column("to 95 %", "to_95"),
        Column("to 98 %", "to_98"),
        Column("P", "score"),
        Column("per proposal", "per_proposal", "s"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=StrategiesOptions,
    shown=few,
    notes=notes,
    devices="none",
)
