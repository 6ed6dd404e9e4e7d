"""Measurements of given configurations of one problem on one device: checked and isolated, so that no failure ends the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from portatile.errors import NoValidVariantError
from portatile.records import Config, Problem, canonical
from portatile.space import ParameterSpace
from portatile.store import ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.protocol import Timing
from portatile.tuning.search import tuner


@dataclass(frozen=True)
class MeasuredConfigs:
    """The trials by ``canonical`` configuration, with that of the workload's default; those not reached are missing.

    ``interrupted``: the user's Ctrl-C ended it.
    """

    trials: dict[str, Trial]
    interrupted: bool = False


def measured(
    problem: Problem, device: str, configs: Iterable[Config], race: float = 0.0, advance: Callable[[], None] = lambda: None
) -> MeasuredConfigs:
    """Measure each configuration in the tuner's workers, also those outside the device's space. The user's store does not change.

    With ``race`` the fastest few run in turns for at most this many seconds, so that nearly equal ones are compared fairly.
    Raises what opening the device raises.
    """
    wanted = {canonical(config): config for config in configs}
    stopped = "exhausted"
    with ResultStore(None) as store:
        request = tuner.TuningRequest(
            problem,
            device,
            Budget(evaluations=len(wanted) + 1),
            "exhaustive",
            space=ParameterSpace.from_configs(list(wanted.values())),
            timing=Timing(race=race),
            model=False,
            warm=0,
        )
        try:
            stopped = tuner.tune(request, store, lambda progress: None if progress.racing else advance()).stopped
        except NoValidVariantError:
            pass  # every trial says why
        except KeyboardInterrupt:
            stopped = "interrupted"
        return MeasuredConfigs({canonical(trial.config): trial for trial in store.trials()}, stopped == "interrupted")
