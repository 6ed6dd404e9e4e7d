"""Stored trials that replace an evaluation, so that a search continues where an earlier one ended."""

from __future__ import annotations

from portatile.trials import Trial
from portatile.tuning.search import planner
from portatile.tuning.search.concurrent_searches import OTHER_SEARCHES
from portatile.tuning.search.external_failures import OUTSIDE
from portatile.tuning.search.objective import Goal
from portatile.tuning.search.request import TuningRequest


def replaces_evaluation(trial: Trial, request: TuningRequest, goal: Goal, alone: bool) -> bool:
    """Whether a stored trial was measured as the request asks and, where energy is the objective, with power.

    A time that was refused as faster than the ceilings is measured again, because the ceilings may have been wrong; and one that other
    searches on the device may have disturbed, if this search is ``alone`` there.
    """
    if trial.status in ("skipped", *request.again) or trial.message.startswith(planner.IMPOSSIBLE) or OUTSIDE in trial.conditions:
        return False
    if alone and OTHER_SEARCHES in trial.conditions:
        return False
    return trial.cold == request.timing.cold and goal.answers(trial)
