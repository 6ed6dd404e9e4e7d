"""The result of `tune` as a table for people and as one JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from portatile import ceilings, model
from portatile.cli import _console, _formatting
from portatile.formatting import duration, percent
from portatile.kernel import PREFIX
from portatile.records import Config, canonical, to_json
from portatile.trials import Trial
from portatile.tuning.final import ranking
from portatile.tuning.search import tuner
from portatile.workload import Workload
from portatile.workloads import speeds

_SAVED = {model.ON_PAPER: "rejected on paper", model.COMPILED: "rejected once compiled", model.SLOW: "stopped early, as too slow"}


def show(result: tuner.TuningResult, workload: Workload | None) -> None:
    """Print the winner and the default, the best five configurations, and a summary of the search."""
    problem = result.problem
    _say(_formatting.brief(problem) if problem.workload.startswith(PREFIX) else _formatting.titled(problem))
    _say(f"on {result.device.name} ({', '.join(filter(None, (result.device.platform, result.device.id)))})\n")
    summary = [
        [name, *_figures(trial, workload, result.default), _formatting.ceiling(trial, workload)]
        for name, trial in (("winner", result.best), ("default", result.default))
        if trial.status != "skipped"
    ]
    _console.out.print(_console.table("", ("", "time", "spread", "speed", "speed-up", "of ceiling"), summary))
    if beyond := _formatting.beyond_ceiling(result.best, workload):
        _say(beyond)
    _say("")
    _show_best(result, workload)
    failed = ", ".join(f"{count} {kind}" for kind, count in sorted(result.failures.items())) or "none"
    why = {"budget": "the budget is spent", "exhausted": "nothing is left to try", "interrupted": "interrupted"}[result.stopped]
    _say(f"\n{_console.counted(len(result.trials), 'configuration')} in {result.seconds:.1f} s, failed: {failed}; {why}")
    for line in (*warm_lines(result), *result.failure_lines):
        _say(line)


def _show_best(result: tuner.TuningResult, workload: Workload | None) -> None:
    """Print the best five configurations by the parameters in which they differ, then the winner's other parameters."""
    valid = ordered(result)[:5]
    differing = _differing(valid)
    _say({1: "the only valid one", 5: "best five"}.get(len(valid), f"best {len(valid)}"))
    for place, trial in enumerate(valid, 1):
        took, _, speed, faster = _figures(trial, workload, result.default)
        known = f"  {interval(trial, result.finalists[0]):>24}" if result.finalists else ""
        lucky = trial.comparable < result.best.comparable  # a time that no final comparison confirmed
        _say(f"  {place}  {'not compared' if lucky else speed or took:>16}{known}  {faster:>7}  {_spell(trial.config, differing)}")
    for line in notes(result):
        _say(f"  {line}")
    shared = tuple(name for name in result.best.config if name not in differing)
    if shared:
        _say(f"  all: {_spell(result.best.config, shared)}")


def document(result: tuner.TuningResult, workload: Workload | None) -> str:
    """The result as one JSON document: the content of the table, and every trial. `portatile cache warm` reads it."""
    flops = None if workload is None else workload.flops(result.problem)
    record = {
        "problem": result.problem,
        "config": result.best.config,
        "device": result.device,
        "seconds_per_run": result.best.comparable,
        "gflops": _gflops(result.best, flops),
        "default": {"config": result.default.config, "seconds_per_run": _finite(result.default), "gflops": _gflops(result.default, flops)},
        "speedup": result.default.comparable / result.best.comparable if result.default.status == "ok" else None,
        **ceiling_document(result, workload),
        "stopped": result.stopped,
        "seconds": result.seconds,
        "failures": result.failures,
        "saved": result.saved,
        **warm_document(result),
        "found_at": result.found_at,
        "found_by": result.found_by,
        "certificate": result.best.certificate,
        "finalists": finalists(result),
        "not_raced": result.unraced or None,
        "other_searches": result.others,
        "trials": [asdict(trial) | {"problem": None, "device": None} for trial in result.trials],
    }
    return to_json(record).decode()


def ordered(result: tuner.TuningResult) -> list[Trial]:
    """The valid trials in the order of their times; if time is not the objective, the finalists come before the others."""
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
    return "slower" if ranking.shown_slower(trial.samples, winner.samples) else "open"


def notes(result: tuner.TuningResult) -> Iterator[str]:
    """Lines that explain the intervals, or why there was no final comparison, and how much the model and early stops saved."""
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
    """Lines about the warm starts that this search measured; none if there were none."""
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


def unguarded(result: tuner.TuningResult, workload: Workload) -> Iterator[str]:
    """A note that no measurement could be rejected as impossible, because the ceilings are unknown. Empty for workloads without known
    work."""
    if workload.name in ceilings.MEASURING or not (workload.flops(result.problem) or workload.traffic(result.problem)):
        return
    known = ceilings.load(result.device)
    if known is None or (known.flops(result.problem.dtype) is None and known.bandwidth is None):
        yield "no ceilings measured: impossible times are not refused (portatile bench peak)"


def ceiling_document(result: tuner.TuningResult, workload: Workload | None) -> dict[str, Any]:
    """The ceiling that binds the winner and the share of it that it reaches; None if it is not known."""
    best = result.best
    work = None if workload is None else ceilings.work_of(workload, result.problem)
    binding = None if work is None else ceilings.binding(ceilings.load(result.device), work, best.comparable)
    return {"ceiling": None if binding is None else binding.name, "share_of_ceiling": None if binding is None else binding.share}


def finalists(result: tuner.TuningResult) -> list[dict[str, Any]]:
    """The finalists for a program, in the order of their places."""
    documents = []
    for trial in result.finalists:
        if trial.standing is not None:
            certain = {"rounds": len(trial.samples), "confidence": ranking.confidence(len(trial.samples))}
            times = {"seconds_per_run": trial.comparable, "interval": trial.interval}
            documents.append({"config": trial.config, **asdict(trial.standing), **times, **certain})
    return documents


def _differing(trials: list[Trial]) -> tuple[str, ...]:
    """The parameters in which the configurations differ; of a single one, all."""
    if not trials:
        return ()
    names = tuple(trials[0].config)
    if len(trials) == 1:
        return names
    return tuple(name for name in names if len({repr(trial.config.get(name)) for trial in trials}) > 1)


def _say(text: str) -> None:
    _console.out.print(text, markup=False)


def _figures(trial: Trial, workload: Workload | None, default: Trial) -> list[str]:
    if trial.status != "ok":
        return [f"failed: {trial.status}", "", "", ""]
    ordered = sorted(trial.samples)
    quarter = len(ordered) // 4
    spread = (ordered[-1 - quarter] - ordered[quarter]) / 2 / trial.median
    faster = f"{default.comparable / trial.comparable:.2f} x" if default.status == "ok" else ""
    return [duration(trial.comparable), percent(spread, 1), speeds.speed(trial, workload), faster]


def _gflops(trial: Trial, flops: float | None) -> float | None:
    return flops / trial.comparable / 1e9 if trial.status == "ok" and flops is not None else None


def _finite(trial: Trial) -> float | None:
    return trial.comparable if trial.status == "ok" else None


def _spell(config: Config, names: tuple[str, ...]) -> str:
    return " ".join(f"{name}={config[name]}" for name in names if name in config)
