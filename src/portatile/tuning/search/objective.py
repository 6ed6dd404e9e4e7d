"""The objective that a search minimises: seconds, joules, or a function given by the user."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from portatile.errors import UnknownNameError, UsageError
from portatile.formatting import spelled
from portatile.records import Config, DeviceInfo
from portatile.strategies import Finished
from portatile.trials import Trial
from portatile.tuning.sensors import Sensors

Objective = str | Callable[[Trial], float]
NAMES = ("time", "energy")
LOAD = 0.5
"""Seconds under load for which the power is measured where energy is the objective."""


@dataclass(frozen=True)
class _ScoredTrial:
    """A trial as a strategy sees it where the objective is not time."""

    config: Config
    median: float


@dataclass(frozen=True)
class Goal:
    """An objective on a device."""

    objective: Objective
    device: DeviceInfo

    @property
    def is_time(self) -> bool:
        """Whether the objective is time. Only then do early stops, the final comparison by times and the store's ranking apply."""
        return self.objective == "time"

    @property
    def grows_with_time(self) -> bool:
        """Whether the objective grows with time, so that a variant that takes several times as long cannot be the best."""
        return not callable(self.objective)

    def check(self) -> None:
        """Raise UsageError if the device cannot measure the objective."""
        check_name(self.objective)
        if self.objective == "energy" and Sensors.of(self.device) is None:
            raise self._no_power()

    def score(self, trial: Trial) -> float:
        """The value to minimise; infinite for a failure, negative or zero if a function returns that.

        Raises UsageError for a trial without power where that is needed, and for a function that returns no number or minus infinity.
        """
        if trial.status != "ok" or self.is_time:
            return trial.median
        if callable(self.objective):
            value = self.objective(trial)
            if not isinstance(value, int | float | np.number) or math.isnan(value) or value == -math.inf:
                raise UsageError(f"the objective makes {value!r} of a valid trial ({spelled(trial.config)}); it must return a number")
            return float(value)
        if trial.energy is None:
            raise self._no_power()
        return trial.energy

    def answers(self, trial: Trial) -> bool:
        """Whether a stored trial has the measurements that this objective needs."""
        return self.objective != "energy" or trial.status != "ok" or "power_seconds" in trial.conditions

    def as_finished(self, trial: Trial) -> Finished:
        """The trial in the form that a strategy is sent."""
        return trial if self.is_time else _ScoredTrial(trial.config, self.score(trial))

    def _no_power(self) -> UsageError:
        reason = "there is no energy to minimise; that takes an NVIDIA GPU whose driver answers. Use the objective 'time'"
        return UsageError(f"{self.device.name} does not report its power, so {reason}")


def check_name(objective: Objective) -> None:
    """Raise UnknownNameError for a name that is no objective."""
    if isinstance(objective, str) and objective not in NAMES:
        raise UnknownNameError("objective", objective, NAMES)
