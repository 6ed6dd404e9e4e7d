"""The trials of one problem on one device, and their winner, speed, convergence and failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from portatile import ceilings, workloads
from portatile.ceilings import Ceilings, Work
from portatile.device import backends
from portatile.errors import UsageError
from portatile.figures import quantities
from portatile.records import Config, DeviceInfo, Problem, Value, canonical
from portatile.reports import formatting
from portatile.store import device_key
from portatile.trials import ARRAYS, FLOPS, TRAFFIC, Certificate, Status, Trial, own_speed
from portatile.workload import Workload, packed_layout

_PAUSE = 60.0  # seconds beyond a trial's own duration after which the next one belongs to another tuning run


@dataclass(frozen=True)
class ConvergenceStep:
    """One trial of a search: its number from 1, the seconds of searching until it finished, the best time by then."""

    number: int
    elapsed: float
    trial: Trial
    best: float
    improved: bool


@dataclass(frozen=True)
class Failure:
    """One kind of failure: how often, and its messages with their counts, the most frequent first."""

    kind: Status
    count: int
    messages: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Group:
    """The trials, oldest first, of one problem on one device with one driver, all with warm caches or all with cold ones.

    ``workload`` is None if this installation does not have it: operations and traffic are then those that its search kept, if it did.
    """

    problem: Problem
    device: DeviceInfo
    trials: tuple[Trial, ...]
    workload: Workload | None = None
    ceilings: Ceilings | None = None
    note: str = ""

    @property
    def title(self) -> str:
        """``gemm · m 128 · n 128 · k 128 · float32``, with the options that are not the usual ones."""
        parts = (formatting.sizes(self.problem), self.problem.dtype, formatting.options(self.problem, self.workload), self.note)
        return " · ".join(part for part in parts if part)

    @property
    def way(self) -> str:
        """Platform and back end: one piece of hardware may have two."""
        name = known.title if (known := backends().get(self.device.backend)) else self.device.backend
        return self.device.platform if name in self.device.platform else f"{self.device.platform}, {name}"

    @cached_property
    def latest(self) -> dict[str, Trial]:
        """The newest trial of every configuration, by canonical text."""
        return {canonical(trial.config): trial for trial in self.trials if trial.status != "skipped"}

    @cached_property
    def ranked(self) -> list[Trial]:
        """The configurations whose newest trial was valid, in the store's order: the final comparison decides near ties."""
        return sorted((trial for trial in self.latest.values() if math.isfinite(trial.median)), key=lambda trial: trial.rank)

    @property
    def best(self) -> Trial | None:
        """The winner."""
        return self.ranked[0] if self.ranked else None

    @cached_property
    def default(self) -> Trial | None:
        """The newest trial of the workload's default. For an unknown workload, and for a search by a version with another default, it is
        the trial of the configuration that was tried first.
        """
        usual = None if self.workload is None else self.latest.get(canonical(self.workload.default(self.problem, self.device)))
        searched = self.workload is None or len(self.trials) > 1  # a single trial may be a winner that came alone
        return usual or (self.latest.get(canonical(self.trials[0].config)) if searched else None)

    @cached_property
    def certificate(self) -> Certificate | None:
        """The newest certificate of the winner's configuration."""
        best_config = None if self.best is None else canonical(self.best.config)
        certificates = (
            trial.certificate for trial in reversed(self.trials) if trial.certificate and canonical(trial.config) == best_config
        )
        return next(certificates, None)

    @property
    def failed(self) -> int:
        """The number of trials that were not valid."""
        return sum(trial.status != "ok" for trial in self.trials)

    @cached_property
    def flops(self) -> float:
        """Floating-point operations of one run; 0 if there are none or they are unknown."""
        return self.workload.flops(self.problem) if self.workload is not None else self._stored(FLOPS)

    @cached_property
    def traffic(self) -> float:
        """The fewest bytes that one run must move; 0 where unknown."""
        return self.workload.traffic(self.problem) if self.workload is not None else self._stored(TRAFFIC)

    def _stored(self, quantity: str) -> float:
        """The work that the search of a user's own kernel stored with its trials."""
        return next((trial.conditions[quantity] for trial in reversed(self.trials) if quantity in trial.conditions), 0.0)

    def speed(self, trial: Trial) -> str:
        """The speed as text; empty if neither operations nor traffic are known."""
        speed = self._speed(trial)
        return "" if speed is None else f"{quantities.digits(speed[0])}{quantities.NBSP}{speed[1]}"

    def rate(self, trial: Trial) -> float:
        """The speed as a number, for sorting; 0 if it is not known."""
        speed = self._speed(trial)
        return 0.0 if speed is None else speed[0] * 1e9

    def _speed(self, trial: Trial) -> tuple[float, str] | None:
        if self.workload is None:
            return own_speed({name: self._stored(name) for name in (FLOPS, TRAFFIC, ARRAYS)}, trial.comparable)
        return self.workload.speed(self.problem, trial.comparable) if self.flops or self.traffic else None

    def speedup(self, trial: Trial) -> float | None:
        """The default's time over the best; None if the default was not measured or failed."""
        return self.default.comparable / trial.comparable if self.default is not None and math.isfinite(self.default.median) else None

    def share(self, trial: Trial) -> tuple[str, float] | None:
        """The largest share of a measured ceiling that the trial reached: see ``Ceilings.shares``."""
        if self.workload is None:
            work = Work(self.problem.dtype, self.flops, self.traffic)
        else:
            work = ceilings.work_of(self.workload, self.problem)
        binding = ceilings.binding(self.ceilings, work, trial.comparable)
        return None if binding is None else (binding.name, binding.share)

    @cached_property
    def steps(self) -> list[ConvergenceStep]:
        """The trials in the order of the search."""
        improvements: list[ConvergenceStep] = []
        best, elapsed, before = math.inf, 0.0, None
        for number, trial in enumerate(self.trials, 1):
            own, now = sum(trial.seconds.values()), _clock(trial)
            gap = own if before is None or now is None else (now - before).total_seconds()
            elapsed += gap if 0 <= gap <= own + _PAUSE else own
            before = now or before
            improved = trial.comparable < best
            best = min(best, trial.comparable)
            improvements.append(ConvergenceStep(number, elapsed, trial, best, improved))
        return improvements

    @cached_property
    def failures(self) -> list[Failure]:
        """The kinds of failure, the most frequent first."""
        kinds: dict[Status, Counter[str]] = {}
        for trial in self.trials:
            if trial.status != "ok":
                kinds.setdefault(trial.status, Counter())[trial.message.strip()] += 1
        by_kind = [Failure(kind, counted.total(), tuple(counted.most_common())) for kind, counted in kinds.items()]
        return sorted(by_kind, key=lambda failure: (-failure.count, failure.kind))

    def summary(self) -> dict[str, object]:
        """A row of the summary for programs; unknown values are None."""
        best = self.best
        share = None if best is None else self.share(best)
        row: dict[str, object] = {
            "workload": self.problem.workload,
            "sizes": dict(self.problem.sizes),
            "dtype": self.problem.dtype,
            "options": dict(self.problem.options),
            "device": self.device.name,
            "platform": self.device.platform,
            "backend": self.device.backend,
            "driver": self.device.driver,
            "trials": len(self.trials),
            "failed": self.failed,
        }
        figures: dict[str, object] = {
            "seconds_per_run": None if best is None else best.comparable,
            "gflops": self.flops / best.comparable / 1e9 if best is not None and self.flops > 0 else None,
            "gigabytes_per_second": self.traffic / best.comparable / 1e9 if best is not None and self.traffic > 0 else None,
            "speedup": None if best is None else self.speedup(best),
            "share_of_peak": None if share is None else share[1],
            "peak": None if share is None else share[0],
            "config": None if best is None else dict(best.config),
        }
        return row | figures


def varying(trials: Sequence[Trial]) -> list[str]:
    """The parameters in which the configurations differ; of a single one, all."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.config))
    if len(trials) < 2:
        return names
    return [name for name in names if len({repr(trial.config.get(name)) for trial in trials}) > 1]


def shared(trials: Sequence[Trial]) -> dict[str, Value]:
    """The parameters that all configurations have in common."""
    differ = varying(trials)
    first: Config = trials[0].config if len(trials) > 1 else {}
    return {name: chosen for name, chosen in first.items() if name not in differ}


def gather(trials: Iterable[Trial], kernels: Iterable[Workload] = ()) -> list[Group]:
    """Trials by problem, device, driver and the state of caches; in the order of workload, type, sizes and device.

    ``kernels`` are workloads that have no folder of their own.
    """
    own = {kernel.name: kernel for kernel in kernels}
    heaps: dict[tuple[str, str, str, bool], list[Trial]] = {}
    for trial in trials:
        heaps.setdefault((trial.problem.key, device_key(trial.device), trial.device.driver, trial.cold), []).append(trial)
    groups = [_group(tuple(heap), own) for heap in heaps.values()]
    headings = Counter(map(_heading, groups))
    groups = [group if headings[_heading(group)] == 1 else replace(group, note=_with_driver(group)) for group in groups]
    return sorted(groups, key=_order)


def _group(trials: tuple[Trial, ...], own: Mapping[str, Workload]) -> Group:
    problem, device = trials[-1].problem, trials[-1].device
    workload = _workload(problem, own)
    trials = tuple(_named(trial, workload) for trial in trials)
    packed = workload is None or all(problem.layout.get(name) == packed_layout(shape) for name, shape in workload.shapes(problem).items())
    notes = [note for note, holds in (("own layout", problem.layout and not packed), ("cold caches", trials[-1].cold)) if holds]
    return Group(problem, device, trials, workload, ceilings.load(device), " · ".join(notes))


def _named(trial: Trial, workload: Workload | None) -> Trial:
    """The trial with its parameters as the workload names them now, so that earlier and later ones stand in one table."""
    if workload is None:
        return trial
    try:
        config = workload.canonical(trial.config)
    except UsageError:
        return trial
    return trial if config is trial.config else replace(trial, config=config)


def _heading(group: Group) -> tuple[str, ...]:
    return group.problem.workload, group.title, group.device.name, group.way


def _with_driver(group: Group) -> str:
    return " · ".join(part for part in (group.note, f"driver {group.device.driver}") if part)


def _order(group: Group) -> tuple[str, str, tuple[int, ...], str, str]:
    return group.problem.workload, group.problem.dtype, tuple(group.problem.sizes.values()), group.device.name, group.way


def _workload(problem: Problem, own: Mapping[str, Workload]) -> Workload | None:
    """The problem's workload, if it is among ``own`` or installed, and still takes such problems."""
    if problem.workload not in own and problem.workload not in workloads.names():
        return None
    workload = own.get(problem.workload) or workloads.get(problem.workload)
    fits = set(problem.sizes) == set(workload.sizes) and problem.dtype in workload.dtypes
    return workload if fits and all(problem.options.get(name) in values for name, values in workload.options.items()) else None


def _clock(trial: Trial) -> datetime | None:
    try:
        return datetime.fromisoformat(trial.time)
    except ValueError:
        return None
