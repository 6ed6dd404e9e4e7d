"""The quality of the selection for untuned shapes: each stored shape is held out in turn, and the regret of the choice is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from portatile import select
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.store import device_key
from portatile.trials import Trial
from portatile.workload import Workload

_REACH = 1.5  # distance up to which ``nearest`` looks: three sizes off by a factor of 1.4 each

Rule = Callable[[Workload, Problem, DeviceInfo, Sequence[Trial]], Config]


@dataclass(frozen=True)
class Regret:
    """The choice of a rule for a problem whose trials it did not see: its ``seconds``, and those of the ``best`` known.

    ``seconds`` is None if the choice was never measured on this problem.
    """

    problem: Problem
    config: Config
    seconds: float | None
    best: float

    @property
    def value(self) -> float | None:
        """The regret as a share of the best time: 0.1 is 10 % longer."""
        return None if self.seconds is None else self.seconds / self.best - 1


@dataclass(frozen=True)
class Summary:
    """Regrets of one rule: mean and worst of the known ones, and how many are unknown."""

    mean: float
    worst: float
    unknown: int


def dispatcher(workload: Workload, problem: Problem, device: DeviceInfo, others: Sequence[Trial]) -> Config:
    """The rule that routines use: ``select.choose``."""
    return select.choose(workload, problem, device, others).config


def nearest(workload: Workload, problem: Problem, device: DeviceInfo, others: Sequence[Trial]) -> Config:
    """A baseline: the fastest legal configuration of the nearest problem, else the default."""
    space = workload.space(problem, device)
    here = (t for t in others if t.status == "ok" and not t.cold and device_key(t.device) == device_key(device))
    rows = [(workload.distance(trial.problem, problem), trial.rank, trial) for trial in here]
    for distance, _, trial in sorted(rows, key=lambda row: row[:2]):
        if distance <= _REACH and trial.config in space:
            return space.complete(trial.config)
    return workload.default(problem, device)


def default(workload: Workload, problem: Problem, device: DeviceInfo, others: Sequence[Trial]) -> Config:
    """A baseline: the workload's default, whatever was tuned."""
    return workload.default(problem, device)


RULES: dict[str, Rule] = {"dispatcher": dispatcher, "nearest": nearest, "default": default}


def regrets(
    workload: Workload, device: DeviceInfo, known: Sequence[Trial], measured: Iterable[Trial], rule: Rule = dispatcher
) -> list[Regret]:
    """The regret of every problem in ``measured`` on the device, if all that is ``known`` about it is held out.

    Choices are made from ``known`` and judged by ``measured``. A configuration counts with the fastest sample of its warm trials,
    because the pairs were measured at different times, under different load. Problems of the same sizes in another layout are held
    out together; those with a single measured configuration are left out.
    """
    tables: dict[str, dict[str, Trial]] = {}
    for trial in measured:
        if trial.status == "ok" and trial.samples and not trial.cold and device_key(trial.device) == device_key(device):
            tables.setdefault(trial.problem.key, {})[canonical(trial.config)] = trial  # the newest
    listed = []
    for table in tables.values():
        if len(table) < 2:
            continue
        problem = next(iter(table.values())).problem
        config = rule(workload, problem, device, [trial for trial in known if not _same(trial.problem, problem)])
        space = workload.space(problem, device)
        table = {canonical(space.complete(trial.config)): trial for trial in table.values()}
        took = table.get(canonical(config))
        best = min(min(trial.samples) for trial in table.values())
        listed.append(Regret(problem, config, None if took is None else min(took.samples), best))
    return listed


def summary(listed: Sequence[Regret]) -> Summary:
    """Mean and worst; NaN if no regret is known."""
    known = [regret.value for regret in listed if regret.value is not None]
    unknown = len(listed) - len(known)
    return Summary(fmean(known), max(known), unknown) if known else Summary(float("nan"), float("nan"), unknown)


def _same(problem: Problem, other: Problem) -> bool:
    return (dict(problem.sizes), problem.dtype, dict(problem.options)) == (dict(other.sizes), other.dtype, dict(other.options))
