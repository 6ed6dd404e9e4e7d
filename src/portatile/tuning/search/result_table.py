"""The trials of a tuning result as a table: the fastest first, failures last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from portatile.formatting import duration
from portatile.records import Config, canonical
from portatile.trials import Trial

Metrics = Callable[[Trial], Mapping[str, float]]


def ordered(trials: Sequence[Trial], best: Trial) -> list[Trial]:
    """The winner, then by rank; those that failed as they came."""
    winner = canonical(best.config)
    return sorted(trials, key=lambda trial: (canonical(trial.config) != winner, trial.rank))


def differing(trials: Sequence[Trial]) -> list[str]:
    """The parameters that do not have one value in all trials, in the order of the first."""
    names = dict.fromkeys(name for trial in trials for name in trial.config)
    return [name for name in names if len({repr(trial.config.get(name)) for trial in trials}) > 1]


def full(trials: Sequence[Trial], best: Trial, metrics: Metrics) -> tuple[list[str], list[list[object]]]:
    """Head and rows with everything that is compared between trials; times in seconds, and metrics of valid trials."""
    parameters = list(dict.fromkeys(name for trial in trials for name in trial.config))
    computed = {id(trial): metrics(trial) for trial in trials if trial.status == "ok"}
    columns = list(dict.fromkeys(name for values in computed.values() for name in values))
    rows: list[list[object]] = []
    for trial in ordered(trials, best):
        valid = trial.status == "ok"
        times = [trial.comparable, trial.median, len(trial.samples)] if valid else ["", "", ""]
        values = [computed.get(id(trial), {}).get(name, "") for name in columns]
        rows.append([trial.status, *times, *values, trial.error if trial.error is not None else "", *_values(trial.config, parameters)])
        rows[-1].append(trial.message)
    return ["status", "seconds", "median", "samples", *columns, "error", *parameters, "message"], rows


def short(trials: Sequence[Trial], best: Trial, default: Trial, count: int) -> tuple[list[str], list[list[object]]]:
    """Head and rows of the fastest valid trials, with the parameters in which they differ."""
    valid = [trial for trial in ordered(trials, best) if trial.status == "ok"][:count]
    parameters = differing(valid)
    rows: list[list[object]] = []
    for place, trial in enumerate(valid, 1):
        gain = f"{default.comparable / trial.comparable:.2f} x" if default.status == "ok" else ""
        rows.append([place, duration(trial.comparable), gain, *_values(trial.config, parameters)])
    return ["", "time", "default / time", *parameters], rows


def _values(config: Config, names: Sequence[str]) -> list[object]:
    return [config.get(name, "") for name in names]
