"""Trials and problems in words: the speed in its workload's unit, the options that tell a problem from others."""

from __future__ import annotations

from portatile import workloads
from portatile.formatting import rate, spelled
from portatile.records import Problem, Value
from portatile.trials import Trial, own_speed
from portatile.workload import Workload


def known(problem: Problem) -> Workload | None:
    """The problem's workload; None for a user's own kernel, or one of another tuner."""
    return workloads.get(problem.workload) if problem.workload in workloads.names() else None


def unusual(problem: Problem) -> dict[str, Value]:
    """The options that differ from the workload's defaults; empty for a problem whose workload is not ``known``."""
    workload = known(problem)
    usual = {} if workload is None else {name: values[0] for name, values in workload.options.items()}
    return {name: value for name, value in problem.options.items() if workload is not None and usual.get(name) != value}


def described(problem: Problem) -> str:
    """``m=512 n=512 k=512 trans_a=T``: the sizes, and the options that are ``unusual``."""
    return spelled({**problem.sizes, **unusual(problem)})


def speed(trial: Trial, workload: Workload | None) -> str:
    """The speed of a valid trial in its workload's unit. For a user's own kernel it is the one stored by the search; for another tuner's,
    empty.
    """
    speed_and_unit = own_speed(trial.conditions, trial.comparable) if workload is None else workload.speed(trial.problem, trial.comparable)
    return "" if speed_and_unit is None else rate(*speed_and_unit)
