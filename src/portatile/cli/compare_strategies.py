"""Compare search strategies on recorded trials: convergence curves, evaluations to the optimum, a score; needs no device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from portatile import output_files, workloads
from portatile.cli import _console, _files, _options
from portatile.errors import UnknownNameError, UsageError, reason
from portatile.figures import svg
from portatile.formatting import duration, percent
from portatile.records import to_json
from portatile.studies.convergence import FRACTIONS, Comparison, Curve, StrategiesRequest, compare
from portatile.studies.strategies import USUAL, chart, names_of
from portatile.trials import Budget
from portatile.tuning.search import replay
from portatile.tuning.search.replay import Recording


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strategies", "names", default=USUAL, show_default=True, help="Strategies to compare, separated by commas.")
@click.option("--repeats", default=10, show_default=True, type=_options.Whole(min=1), help="Runs of each strategy, each with its own seed.")
@click.option(
    "--budget", help="200 (evaluations) or 60s (simulated). Default: until random search is 95 % of the way from median to optimum."
)
@click.option("--workload", help="Only recordings of this workload.")
@_options.seed("the first run")
@click.option("-o", "--output", "path", type=click.Path(dir_okay=False, path_type=Path), help="Write the curves to this SVG file.")
@_options.document("Print figures and curves as one JSON list instead of the tables.")
def command(
    files: tuple[Path, ...],
    names: str,
    repeats: int,
    budget: str | None,
    workload: str | None,
    seed: int,
    path: Path | None,
    as_json: bool,
) -> None:
    """Compare strategies on FILES of recorded trials.

    A file is a result store, the output of `results --json` or `tune --json`, T4, or a cache of Kernel Tuner; it may be compressed with
    gzip. Every problem on every device is a separate recording. Configurations without a recorded trial count as illegal, so record
    widely.
    """
    chosen = names_of(names)
    limit = None if budget is None else Budget.parse(budget)
    if path is not None:
        _files.writable(path)
    usable = _usable([recording for file in files for recording in replay.recordings(file)], files, workload)
    comparisons = []
    with _console.bar("replaying", len(usable) * len(chosen) * repeats) as advance:
        for recording in usable:
            comparisons.append(compare(StrategiesRequest(recording, chosen, repeats, limit, seed), advance))
    if as_json:
        click.echo(to_json([asdict(comparison) for comparison in comparisons]).decode())
    else:
        for comparison in comparisons:
            _print(comparison)
        if len(comparisons) > 1:
            _print_all(comparisons)
    if path is not None:
        try:
            output_files.write(path, svg.document([chart(comparison) for comparison in comparisons]))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {reason(error)}") from error
        _console.err.print(f"curves: {path}", markup=False)


def _usable(recordings: list[Recording], files: tuple[Path, ...], workload: str | None) -> list[Recording]:
    """The recordings of a workload that have a valid trial; names the others. Raises UsageError if none is left."""
    there = ", ".join(map(str, files))
    if not recordings:
        raise UsageError(f"there are no trials in {there}")
    name = None if workload is None else workloads.resolved(workload)
    chosen = [recording for recording in recordings if name in (None, recording.problem.workload)]
    if not chosen:
        raise UnknownNameError(f"workload in {there}", str(workload), sorted({recording.problem.workload for recording in recordings}))
    usable = [recording for recording in chosen if any(trial.status == "ok" for trial in recording.trials)]
    if not usable:
        raise UsageError(f"no recorded configuration in {there} is valid")
    for recording in chosen:
        if recording not in usable:
            tried = _console.counted(len(recording.trials), "configuration")
            _console.err.print(f"left out {recording.name}: none of {tried} is valid", markup=False, soft_wrap=True)
    return usable


def _print(comparison: Comparison) -> None:
    simulated = f"{comparison.budget:.4g} simulated seconds"
    budget = _console.counted(round(comparison.budget), "evaluation") if comparison.unit == "evaluations" else simulated
    print_ = _console.out.print
    print_(f"{comparison.name}: {_console.counted(comparison.configurations, 'configuration')}, {comparison.failing} failing", markup=False)
    print_(f"optimum {duration(comparison.optimum)}; {comparison.repeats} runs of {budget}\n", markup=False)
    columns = ("strategy", *(f"at {percent(fraction)}" for fraction in FRACTIONS), "to 95 %", "to 98 %", "P", "per proposal")
    print_(_console.table("", columns, [_row(curve) for curve in comparison.curves]))
    print_("at: share of the optimum after that part of the budget; to: evaluations until that share; medians\n", markup=False)


def _row(curve: Curve) -> list[str]:
    counts = ["never" if count is None else f"{count:.0f}" for count in (curve.to_95, curve.to_98)]
    score = "" if curve.score is None else f"{curve.score:.3f}"
    return [curve.strategy, *(percent(share, 1) for share in curve.shares), *counts, score, duration(curve.thinking)]


def _print_all(comparisons: list[Comparison]) -> None:
    """Each strategy over all recordings: mean and least score."""
    rows = []
    for place, curve in enumerate(comparisons[0].curves):
        scores = [score for comparison in comparisons if (score := comparison.curves[place].score) is not None]
        if scores:
            rows.append([curve.strategy, f"{sum(scores) / len(scores):.3f}", f"{min(scores):.3f}", str(len(scores))])
    if rows:
        _console.out.print(_console.table("P over all recordings", ("strategy", "mean", "least", "recordings"), rows))
