"""Problem + device -> configuration, and why: the fall-back order from a tuned result down to the workload's default."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from portatile.records import Config, DeviceInfo, Problem, Trial
from portatile.workload import Workload

Reason = Literal["tuned", "near problem", "near device", "default"]

# A configuration is carried over to a problem at most this far away: three sizes off by a factor of 1.4 each. Beyond it the
# workload's default, which looks at the shape, is the better guess.
MAX_DISTANCE = 1.5


@dataclass(frozen=True)
class Choice:
    """The configuration for a problem, where it comes from, and the trial that it was taken from, if any."""

    config: Config
    reason: Reason
    explanation: str
    trial: Trial | None = None


def choose(workload: Workload, problem: Problem, device: DeviceInfo, results: Iterable[Trial]) -> Choice:
    """The best configuration known for ``problem`` on ``device``.

    In this order: tuned for this problem on this device; tuned on this device for the nearest problem; tuned on the
    nearest device (same architecture, else vendor, else kind; and of these for the nearest problem); the workload's
    default. A configuration is taken only where it is legal for this problem on this device.
    """
    ranked = []
    for trial in results:
        if trial.status != "ok" or trial.problem.workload != problem.workload:
            continue
        strange = _strangeness(trial.device, device)
        apart = 0.0 if trial.problem.key == problem.key else _distance(workload, trial.problem, problem)
        if strange is not None and apart <= MAX_DISTANCE:
            ranked.append((strange, apart, trial.median, trial))
    space = workload.space(problem, device)
    for strange, apart, _, trial in sorted(ranked, key=lambda row: row[:3]):
        if trial.config not in space:
            continue
        if strange == 0 and apart == 0:
            return Choice(trial.config, "tuned", f"tuned for this problem on {device.name}", trial)
        where = "this device" if strange == 0 else f"{trial.device.name} through {trial.device.backend}"
        sizes = " ".join(f"{name}={value}" for name, value in trial.problem.sizes.items())
        reason: Reason = "near problem" if strange == 0 else "near device"
        return Choice(trial.config, reason, f"tuned on {where} for {sizes} (distance {apart:.2f})", trial)
    return Choice(workload.default(problem, device), "default", f"nothing tuned is near; the default of {workload.name}")


def _distance(workload: Workload, one: Problem, other: Problem) -> float:
    """The workload's own distance, and a little more where only the layout differs."""
    apart = workload.distance(one, other)
    return apart + 0.01 if math.isfinite(apart) else apart


def _strangeness(theirs: DeviceInfo, ours: DeviceInfo) -> int | None:
    """0 for the same device, larger the less it is like ours, None where nothing can be carried over."""
    if theirs.kind != ours.kind:
        return None
    same_back_end = (theirs.backend, theirs.platform) == (ours.backend, ours.platform)
    if same_back_end and theirs.name == ours.name:
        return 0
    likeness = (theirs.architecture == ours.architecture, theirs.name == ours.name, theirs.vendor == ours.vendor, same_back_end)
    return 1 + sum(weight for alike, weight in zip(likeness, (8, 4, 2, 1), strict=True) if not alike)
