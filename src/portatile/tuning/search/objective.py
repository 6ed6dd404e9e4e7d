"""What a tuning run looks for the least of: seconds, joules, or whatever a function of the user's says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from portatile.errors import UnknownNameError, UsageError
from portatile.records import Config, DeviceInfo, spelled
from portatile.strategies import Finished
from portatile.trials import Trial
from portatile.tuning.sensors import Sensors

Objective = str | Callable[[Trial], float]
NAMES = ("time", "energy")
LOAD = 0.5
"""Seconds under load that a reading of the power takes where energy is the objective."""


@dataclass(frozen=True)
class _Scored:
    """A trial as a strategy sees it that is to minimise something else than time."""

    config: Config
    median: float


@dataclass(frozen=True)
class Goal:
    """An objective on a device. Raises UnknownNameError for a name that is none."""

    objective: Objective
    device: DeviceInfo

    @property
    def is_time(self) -> bool:
        """Whether the fastest is the best: then races and early stops make sense, and what the store ranks is what is looked for."""
        return self.objective == "time"

    @property
    def grows_with_time(self) -> bool:
        """Whether what takes three times as long can hardly be the best."""
        return not callable(self.objective)

    def check(self) -> None:
        """Raise UsageError where the device cannot serve the objective."""
        check_name(self.objective)
        if self.objective == "energy" and Sensors.of(self.device) is None:
            raise self._no_power()

    def score(self, trial: Trial) -> float:
        """What is to be least; infinite for a failure, negative or zero if a function says so. Raises UsageError for a trial that tells
        no power, and for what is no number or minus infinity.
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
        """Whether a trial that the store knows says what evaluating it again would."""
        return self.objective != "energy" or trial.status != "ok" or "power_seconds" in trial.conditions

    def told(self, trial: Trial) -> Finished:
        """The trial as a strategy is told of it."""
        return trial if self.is_time else _Scored(trial.config, self.score(trial))

    def _no_power(self) -> UsageError:
        reason = "there is no energy to minimise; that takes an NVIDIA GPU whose driver answers. Use the objective 'time'"
        return UsageError(f"{self.device.name} does not tell its power, so {reason}")


def check_name(objective: Objective) -> None:
    """Raise UnknownNameError for a name of no objective."""
    if isinstance(objective, str) and objective not in NAMES:
        raise UnknownNameError("objective", objective, NAMES)
