"""The speed of a trial in words, in its workload's unit."""

from __future__ import annotations

from portatile import workloads
from portatile.formatting import rate
from portatile.records import Problem
from portatile.trials import Trial, own_speed
from portatile.workload import Workload


def known(problem: Problem) -> Workload | None:
    """The problem's workload; None for a kernel of a user's own, or of another tuner."""
    return workloads.get(problem.workload) if problem.workload in workloads.names() else None


def speed(trial: Trial, workload: Workload | None) -> str:
    """The speed of a valid trial in its workload's unit, as its search stored it of a user's own kernel; empty for another tuner's."""
    speed_and_unit = own_speed(trial.conditions, trial.comparable) if workload is None else workload.speed(trial.problem, trial.comparable)
    return "" if speed_and_unit is None else rate(*speed_and_unit)
