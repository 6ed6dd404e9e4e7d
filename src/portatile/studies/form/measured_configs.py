"""Given configurations of one problem on one device, measured beside each other: checked and isolated; none that fails ends the rest."""

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
    """The trials by ``canonical`` configuration, that of the workload's default among them; what was not reached is missing.

    ``interrupted``: the user's Ctrl-C ended it.
    """

    trials: dict[str, Trial]
    interrupted: bool = False


def measured(
    problem: Problem, device: str, configs: Iterable[Config], race: float = 0.0, advance: Callable[[], None] = lambda: None
) -> MeasuredConfigs:
    """Measure each configuration in the tuner's workers, whether or not the device's space holds it. Nothing goes to the user's store.

    With ``race`` the fastest few run in turn for at most so many seconds, so that what is nearly equal is compared fairly.
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
