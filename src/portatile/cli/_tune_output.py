"""The output of `tune`: the final comparison, what the model rejected, what warm starts gave; and its options on measuring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import msgspec

from portatile import ceilings, model, workloads
from portatile.cli import _console
from portatile.errors import UsageError
from portatile.formatting import duration
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.trials import Trial
from portatile.tuning.final import ranking
from portatile.tuning.search import foreign_starts, tuner
from portatile.workload import Workload

_SAVED = {model.ON_PAPER: "rejected on paper", model.COMPILED: "rejected once compiled", model.SLOW: "stopped early, as too slow"}


def measured(request: tuner.TuningRequest, cold: bool, no_model: bool, objective: str) -> tuner.TuningRequest:
    """The request with the command line's options on measuring; raises UsageError for ``--cold`` with energy."""
    if cold and objective == "energy":
        raise UsageError("--cold times single runs, too short to measure power: leave out --cold or --objective energy")
    timing = msgspec.structs.replace(request.timing, cold=cold)
    return replace(request, timing=timing, model=not no_model, objective=objective)


def ordered(result: tuner.TuningResult) -> list[Trial]:
    """The valid trials, the best first, then by their times; where time is not the objective the finalists come before the others."""
    by_time = not result.finalists or result.finalists[0].standing is not None
    first = {canonical(trial.config): trial for trial in (result.best, *(() if by_time else result.finalists))}
    rest = (trial for trial in result.trials if trial.status == "ok" and canonical(trial.config) not in first)
    return [*first.values(), *sorted(rest, key=lambda trial: trial.comparable)]


_MARKS = {"first": " ", "slower": " ", "equal": "=", "open": "~"}


def interval(trial: Trial, winner: Trial) -> str:
    """The interval of a finalist's median, with ``=`` if it is as fast as the winner, ``~`` if that is undecided; empty for others."""
    if trial.interval is None:
        return ""
    low, high = map(duration, trial.interval)
    return f"[{low}, {high}] {_MARKS[_beside_winner(trial, winner)]}"


def _beside_winner(trial: Trial, winner: Trial) -> str:
    """``equal``, ``slower`` or ``open``, by the samples of their common race; ``first`` for its winner, or one of another race."""
    if trial.standing is None or winner.standing is None or trial.standing.place == 1 or trial.standing.race != winner.standing.race:
        return "first"
    if trial.standing.tied and ranking.equal(trial.samples, winner.samples):  # earlier versions stored ``tied`` for what was undecided
        return "equal"
    return "slower" if ranking.apart(trial.samples, winner.samples) else "open"


def lines(result: tuner.TuningResult) -> Iterator[str]:
    """Lines on the intervals, or on why there was no final comparison; and on what the model and early stops saved."""
    if result.finalists and result.finalists[0].standing is not None:
        winner = result.finalists[0]
        rounds, places = len(winner.samples), Counter(_beside_winner(trial, winner) for trial in result.finalists)
        sure = min(ranking.confidence(len(trial.samples)) for trial in result.finalists)
        equal = f"; = {places['equal']} equal to the winner within the noise" if places["equal"] else ""
        unclear = f"; ~ {places['open']} not separated from the winner ({rounds} rounds)" if places["open"] else ""
        yield f"{len(result.finalists)} finalists compared: [ ] holds the median with {100 * sure:.0f} % confidence{equal}{unclear}"
    if result.unraced:
        yield f"no final comparison: {result.unraced}; the order of nearly equal configurations may be chance"
    if result.others:
        yield "another search timed on this device meanwhile: times may be too long and the winner wrong; tune again, alone"
    if result.saved:
        yield "time saved: " + ", ".join(f"{count} {_SAVED.get(stage, stage)}" for stage, count in result.saved.items())


def warm_lines(result: tuner.TuningResult) -> Iterator[str]:
    """Lines on the warm starts, as far as this search measured them; nothing where there were none."""
    count = result.warm_trials
    if not count:
        return
    where = {"default": "the default", "warm start": "a warm start", "search": "the search"}[result.found_by]
    started = f"{_console.counted(count, 'warm start')} from similar problems and devices"
    yield f"winner found at trial {result.found_at} by {where}; {started}"
    best, winner = result.warm_best, result.best.comparable
    if best is None:
        yield f"of the {_console.counted(count, 'warm start')} none is valid here"
        return
    warm = "best warm start" if count > 1 else "warm start"
    gave = f"the {warm} is the winner" if best is result.best else f"the {warm} takes {best.comparable / winner:.2f} x the winner's time"
    if result.default.status == "ok":
        gave += (
            ", the default is the winner" if result.default is result.best else f", the default {result.default.comparable / winner:.2f} x"
        )
    own, place = len(result.own_trials), result.matched_at
    if own > 0:
        reached = f"the first as fast as that was number {place}" if place else "none was as fast as that"
        gave += f"; of {_console.counted(own, 'trial')} of the search itself {reached}"
    yield gave


def warm_document(result: tuner.TuningResult) -> dict[str, Any]:
    """The results of warm starts, for a program to read."""
    best = result.warm_best
    return {"warm_starts": result.warm_trials, "warm_best_seconds": best and best.comparable, "matched_at": result.matched_at}


def others(problem: Problem, info: DeviceInfo) -> tuple[Config, ...]:
    """The configurations that other tuners found, which are tried beside the search's own; prints how many there are."""
    starts = foreign_starts.starts(workloads.get(problem.workload), problem, info)
    if starts:
        _console.note(f"tried by turns: {_console.counted(len(starts), 'configuration')} near what imported results of other tuners say")
    return starts


def unguarded(result: tuner.TuningResult, workload: Workload) -> Iterator[str]:
    """A note that no measurement could be refused as impossible: the workload says what it computes, but the ceilings are unknown."""
    if workload.name in ceilings.MEASURING or not (workload.flops(result.problem) or workload.traffic(result.problem)):
        return
    known = ceilings.load(result.device)
    if known is None or (known.flops(result.problem.dtype) is None and known.bandwidth is None):
        yield "no ceilings measured: impossible times are not refused (portatile bench peak)"


def ceiling_document(result: tuner.TuningResult, workload: Workload | None) -> dict[str, Any]:
    """The ceiling that binds the winner and the share of it that it reaches; None where it is not known."""
    best = result.best
    work = None if workload is None else ceilings.work_of(workload, result.problem)
    binding = None if work is None else ceilings.binding(ceilings.load(result.device), work, best.comparable)
    return {"ceiling": None if binding is None else binding.name, "share_of_ceiling": None if binding is None else binding.share}


def document(result: tuner.TuningResult) -> list[dict[str, Any]]:
    """The finalists for a program, in the order of their places."""
    documents = []
    for trial in result.finalists:
        if trial.standing is not None:
            certain = {"rounds": len(trial.samples), "confidence": ranking.confidence(len(trial.samples))}
            times = {"seconds_per_run": trial.comparable, "interval": trial.interval}
            documents.append({"config": trial.config, **asdict(trial.standing), **times, **certain})
    return documents
