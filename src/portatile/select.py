"""The selection of a configuration for a problem on a device, with its reason: from a tuned result down to the workload's default."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from portatile import notebooks, predict, workloads
from portatile.formatting import duration, spelled
from portatile.records import Config, DeviceInfo, Plan, Problem, canonical
from portatile.space import ParameterSpace
from portatile.trials import Trial
from portatile.workload import Workload

Reason = Literal["tuned", "timed", "near problem", "near device", "default"]

REACH = 6.0
"""The largest distance of a problem whose results are used: three sizes that differ by a factor of 4 each."""
_SAME_CORES = 1  # the dissimilarity of a processor that differs only in its number of cores: its winners are valid here, its times are not
_LAYOUT = 0.01  # the distance of problems that differ only in the layout of their operands


@dataclass(frozen=True)
class Choice:
    """The configuration for a problem, where it comes from, and its trial, if any."""

    config: Config
    reason: Reason
    explanation: str
    trial: Trial | None = None

    def __repr__(self) -> str:
        """The choice in one line; the fields hold the rest."""
        return f"<{self.reason}: {spelled(self.config)}>"

    def __str__(self) -> str:
        """A few lines: why, which configuration, and its measured time."""
        return "\n".join(filter(None, (f"{self.reason}: {self.explanation}", spelled(self.config), self._measured)))

    def _repr_html_(self) -> str:
        """The choice as a table, for notebooks."""
        return notebooks.facts({"from": self.reason, "why": self.explanation, **self.config, "measured": self._measured}.items())

    @property
    def _measured(self) -> str:
        if self.trial is None or self.trial.status != "ok":
            return ""
        sizes = spelled({**self.trial.problem.sizes, **self.trial.problem.options})
        when = self.trial.time.partition(".")[0]
        return f"{duration(self.trial.comparable)} for {sizes} on {self.trial.device.id}, {when}".rstrip(", ")


def choose(workload: Workload, problem: Problem, device: DeviceInfo, results: Iterable[Trial]) -> Choice:
    """The best configuration known for ``problem`` on ``device``.

    In this order: tuned for this problem on this device; the one that should be fastest here (see ``predict``) of those tuned on this
    device for near problems, unless the default should be clearly faster; the same for the most similar device (same architecture, else
    vendor, else kind; CPUs only with the same vector registers); the workload's default. Only legal configurations are considered.
    """
    trials = tuple(results)
    why = ""
    for choice, beats_default in _known(workload, problem, device, trials):
        if beats_default:
            return choice
        why = "it should be faster than what was tuned for other problems"
    why = why or _no_candidates(workload, problem, device, trials)
    return Choice(workload.default(problem, device), "default", f"{why}; the default of {workload.name}")


def _no_candidates(workload: Workload, problem: Problem, device: DeviceInfo, results: Iterable[Trial]) -> str:
    """Why no known configuration is a candidate: none is near by sizes and options, or the near ones cannot be used here."""
    known = (trial for trial in results if trial.status == "ok" and trial.problem.workload == workload.name)
    here = (trial.problem for trial in known if _dissimilarity(trial.device, device) == 0)
    near = any(other.sizes.keys() == problem.sizes.keys() and Workload.distance(workload, other, problem) <= REACH for other in here)
    return "what was tuned nearby has operands of another alignment, or is not legal here" if near else "nothing near was tuned"


def candidates(workload: Workload, problem: Problem, device: DeviceInfo, results: Iterable[Trial], count: int) -> list[Choice]:
    """At most ``count`` different configurations to try first, the best first; ``choose`` may prefer the default to them."""
    chosen: dict[str, Choice] = {}
    for choice, _ in _known(workload, problem, device, results):
        chosen.setdefault(canonical(choice.config), choice)
        if len(chosen) == count:
            break
    return list(chosen.values())


def _known(workload: Workload, problem: Problem, device: DeviceInfo, results: Iterable[Trial]) -> Iterator[tuple[Choice, bool]]:
    """The known and legal configurations, the best first, each with whether it should be faster than the default.

    Those of this same problem come first, followed, device by device, by those of other problems.
    """
    space = workload.space(problem, device)
    known = _grouped(workload, problem, device, results, space)
    for _, trial in sorted(known.exact, key=lambda row: (row[1].cold, row[0], row[1].rank)):
        if trial.config in space:
            yield Choice(trial.config, "tuned", f"tuned for this problem on {device.name}", trial), True
    for trial in sorted(known.other_layout, key=lambda trial: (trial.cold, trial.rank)):
        if trial.config in space:
            text = f"tuned on this device for {spelled(trial.problem.sizes)} in another layout"
            yield Choice(trial.config, "near problem", text, trial), True
    default = math.inf  # the least predicted slowness of the default, over the devices so far
    for (dissimilar, *_), rows in sorted(known.near.items(), key=lambda item: item[0]):
        warm = [row for row in rows if not row[1].cold]
        legal = {key: config in space for key, config in {canonical(trial.config): trial.config for _, trial in rows}.items()}
        chosen = [row for row in warm or rows if legal[canonical(row[1].config)]]
        prediction = predict.Prediction(workload, problem, device, chosen)
        ranked, default = prediction.candidates(), min(default, prediction.default())
        for candidate in ranked:
            choice = _predicted(candidate, len(ranked), same_device=dissimilar == 0)
            yield choice, candidate.slowness <= default + prediction.slack()


@dataclass
class _Grouped:
    """Valid trials, grouped by what they tell about a problem on a device.

    ``exact``: of this problem, on this device or a processor with the same cores, with the device's dissimilarity. ``other_layout``: of
    this problem on this device, but with another layout of operands. ``near``: of problems within ``REACH``, with their distance, by
    device; keys sort the most similar device first.
    """

    exact: list[tuple[int, Trial]] = field(default_factory=list)
    other_layout: list[Trial] = field(default_factory=list)
    near: dict[tuple[int, bool, str], list[tuple[float, Trial]]] = field(default_factory=dict)


def _grouped(workload: Workload, problem: Problem, device: DeviceInfo, results: Iterable[Trial], space: ParameterSpace) -> _Grouped:
    """Group the valid trials of the workload; parameters that a recorded configuration lacks are added."""
    known = _Grouped()
    for trial in results:
        if trial.status != "ok" or trial.problem.workload != problem.workload:
            continue
        if (config := space.complete(trial.config)) is not trial.config:
            trial = replace(trial, config=config)
        dissimilar = _dissimilarity(trial.device, device)
        if dissimilar is None:
            continue
        if dissimilar <= _SAME_CORES and trial.problem.key == problem.key:
            known.exact.append((dissimilar, trial))
            continue
        distance = 0.0 if trial.problem.key == problem.key else _distance(workload, trial.problem, problem)
        if dissimilar == 0 and distance <= _LAYOUT:
            known.other_layout.append(trial)
        elif distance <= REACH:
            their = trial.device
            key = (0, False, "") if dissimilar == 0 else (dissimilar, their.driver != device.driver, f"{their.name}, {their.platform}")
            known.near.setdefault(key, []).append((distance, trial))
    return known


def _predicted(candidate: predict.Candidate, count: int, *, same_device: bool) -> Choice:
    """A choice among ``count`` configurations of near problems on one device, with its explanation."""
    trial = candidate.trial
    where = "this device" if same_device else f"{trial.device.name} through {trial.device.backend}"
    best = "" if count == 1 else f", expected to be the fastest of {count} known"
    text = f"tuned on {where} for {spelled(trial.problem.sizes)} (distance {candidate.distance:.2f}){best}"
    return Choice(candidate.config, "near problem" if same_device else "near device", text, trial)


def resolver(device: DeviceInfo, results: Callable[[str], Sequence[Trial]]) -> Callable[[Problem], Plan]:
    """A function for ``flat_plans.flatten`` that returns a Call's plan in its best known configuration; each plan is made once.

    ``results`` gives the known trials of a workload, as ``store.known_results`` does.
    """
    plans: dict[str, Plan] = {}

    def resolve(problem: Problem) -> Plan:
        plan = plans.get(problem.key)
        if plan is None:
            workload = workloads.get(problem.workload)
            config = choose(workload, problem, device, results(problem.workload)).config
            plan = plans[problem.key] = workload.plan(problem, config, device)
        return plan

    return resolve


def _distance(workload: Workload, problem: Problem, other: Problem) -> float:
    """The workload's distance, slightly increased if only the layout differs; infinite for a problem of another version of the workload."""
    if problem.sizes.keys() != other.sizes.keys() or problem.options.keys() != other.options.keys():
        return math.inf
    distance = workload.distance(problem, other)
    return distance + _LAYOUT if math.isfinite(distance) else distance


def _dissimilarity(theirs: DeviceInfo, ours: DeviceInfo) -> int | None:
    """0 for the same device, larger for less similar ones, None if results cannot be transferred."""
    if theirs.kind != ours.kind:
        return None
    same_back_end = (theirs.backend, theirs.platform) == (ours.backend, ours.platform)
    same_code = theirs.architecture == ours.architecture
    if ours.kind == "cpu" and not same_code and _registers(theirs) != _registers(ours):
        return None
    # many different processors share one name
    same_hardware = ours.kind != "cpu" or (same_code and theirs.compute_units == ours.compute_units)
    if same_back_end and theirs.name == ours.name and same_hardware:
        return 0
    likeness = (same_code, theirs.name == ours.name, theirs.vendor == ours.vendor, same_back_end)
    return 1 + sum(weight for equal, weight in zip(likeness, (8, 4, 2, 1), strict=True) if not equal)


def _registers(processor: DeviceInfo) -> tuple[bool, bool]:
    """The kind of vector registers that a tile was made for: ARM's or x86's, and whether of 512 bits."""
    return processor.architecture.startswith(("aarch64", "arm")), processor.wide_vectors
