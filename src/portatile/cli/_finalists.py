"""What `tune` is told of the manner of measuring, and what it says of the race: intervals, who is equal, what the model saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import msgspec

from portatile.errors import UsageError
from portatile.records import canonical, duration
from portatile.trials import Trial
from portatile.tuning import tuner


def measured(request: tuner.Request, cold: bool, no_model: bool, objective: str) -> tuner.Request:
    """The request with what the command line says of the manner; raises UsageError for cold runs of no meaning."""
    if cold and objective == "energy":
        raise UsageError("--cold times single runs, too short for a reading of power: leave out --cold or --objective energy")
    timing = msgspec.structs.replace(request.timing, cold=cold)
    return replace(request, timing=timing, model=not no_model, objective=objective)


def ordered(result: tuner.Result) -> list[Trial]:
    """The valid trials as they came out: the best, those it raced against by their places, the others by their times."""
    first = {canonical(trial.config): trial for trial in (result.best, *result.finalists)}
    rest = (trial for trial in result.trials if trial.status == "ok" and canonical(trial.config) not in first)
    return [*first.values(), *sorted(rest, key=lambda trial: trial.rank)]


def interval(trial: Trial) -> str:
    """Where the median of a finalist lies, and ``=`` where it is not told apart from the winner; nothing for any other."""
    standing = trial.standing
    if standing is None:
        return ""
    low, high = (duration(end) for end in standing.interval)
    return f"[{low}, {high}] {'=' if standing.tied and standing.place > 1 else ' '}"


def lines(result: tuner.Result) -> Iterator[str]:
    """How to read the intervals, and what the model and early stops saved."""
    if result.finalists and result.finalists[0].standing is not None:
        equal = sum(trial.standing is not None and trial.standing.tied for trial in result.finalists) - 1
        marked = f"; = {equal} equal to the winner within the noise" if equal else ""
        yield f"{len(result.finalists)} finalists raced: [ ] holds the median with 95 % confidence{marked}"
    if result.saved:
        yield "saved: " + ", ".join(f"{count} {stage}" for stage, count in result.saved.items())


def document(result: tuner.Result) -> list[dict[str, Any]]:
    """The finalists for a program, in the order of their places."""
    found = []
    for trial in result.finalists:
        if trial.standing is not None:
            found.append({"config": trial.config, "seconds_per_run": trial.median, **asdict(trial.standing)})
    return found
