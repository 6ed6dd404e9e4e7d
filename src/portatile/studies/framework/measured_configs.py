"""Measures given configurations of one problem on one device, checked and isolated, so that a failure does not affect the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from portatile import device as devices
from portatile.errors import NoValidVariantError
from portatile.records import Config, Problem, canonical
from portatile.space import ParameterSpace
from portatile.store import ResultStore, device_key
from portatile.trials import Budget, Trial
from portatile.tuning.protocol import Timing
from portatile.tuning.search import tuner


@dataclass(frozen=True)
class Measuring:
    """The manner of measuring. With ``race`` the fastest few run in turn for at most so many seconds, so that near equals are compared
    fairly.

    ``trials``: a file that keeps them; what it holds already is not measured again. ``seconds``: at most about so many in all.
    ``advance`` is called after each trial.
    """

    race: float = 0.0
    trials: Path | None = None
    seconds: float | None = None
    advance: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class MeasuredConfigs:
    """The trials by ``canonical`` configuration, with that of the workload's default; those not reached are missing.

    ``interrupted``: the user's Ctrl-C ended it.
    """

    trials: dict[str, Trial]
    interrupted: bool = False


def measured(problem: Problem, device: str, configs: Iterable[Config], how: Measuring | None = None) -> MeasuredConfigs:
    """Measure each configuration in the tuner's workers, also those outside the device's space. The user's store does not change.

    Of several alike devices, which share results, one is measured and stands for all.

    Raises what opening the device raises.
    """
    how = how or Measuring()
    by_config, hardware = {canonical(config): config for config in configs}, device_key(devices.get(device).info)
    stopped = "exhausted"
    with ResultStore(how.trials) as store:
        request = tuner.TuningRequest(
            problem,
            device,
            Budget(seconds=how.seconds, evaluations=len(by_config) + 1),
            "exhaustive",
            space=ParameterSpace.from_configs(list(by_config.values())),
            timing=Timing(race=how.race),
            model=False,
            warm=0,
        )
        try:
            result = tuner.tune(request, store, lambda progress: None if progress.racing else how.advance())
            stopped, trials = result.stopped, list(result.trials)
        except NoValidVariantError:  # every trial says why
            trials = store.trials()
        except KeyboardInterrupt:
            stopped, trials = "interrupted", store.trials()
        of_problem = [trial for trial in trials if trial.problem.key == problem.key and device_key(trial.device) == hardware]
        return MeasuredConfigs({canonical(trial.config): trial for trial in of_problem}, stopped == "interrupted")


def failure(trial: Trial) -> str:
    """How a trial failed: its status, the first line of its message, and the first further line that mentions an error."""
    first, *rest = trial.message.splitlines() or [""]
    reason = next((line.strip() for line in rest if "error" in line.lower()), "")
    return f"{trial.status}: {first[:160]} {reason[:160]}".strip(" :")
