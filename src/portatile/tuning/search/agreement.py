"""Agreement between devices of one kind, or their workers: each evaluates the default, and those with deviating times are reported."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.trials import Trial

LEAST = 0.1
"""The share by which two of them may differ however little their samples scatter; else three times the spread."""


def disagreeing(defaults: Mapping[str, Trial]) -> set[str]:
    """The devices or workers whose time for the default differs from that of most others by more than the noise of the samples."""
    valid = {worker: trial for worker, trial in defaults.items() if trial.status == "ok"}
    if len(valid) < 2:
        return set()
    usual = sorted(trial.median for trial in valid.values())[(len(valid) - 1) // 2]
    return {worker for worker, trial in valid.items() if abs(trial.median / usual - 1) > max(LEAST, 3 * trial.spread)}
