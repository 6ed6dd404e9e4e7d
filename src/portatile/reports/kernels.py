"""The kernel text of a configuration from its workload's plan, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from portatile import flat_plans, program
from portatile.errors import PortatileError
from portatile.records import Launch, Size3
from portatile.reports.groups import Group
from portatile.select import resolver
from portatile.trials import Trial

Known = Callable[[str], Sequence[Trial]]


@dataclass(frozen=True)
class RenderedText:
    """One file with its definitions. ``shown_at`` is the place of an earlier configuration whose text is the same, else 0."""

    file: str
    text: str
    defines: tuple[tuple[str, str], ...]
    shown_at: int = 0

    @property
    def lines(self) -> int:
        """The number of lines of the text."""
        return len(self.text.splitlines())


@dataclass(frozen=True)
class RenderedStep:
    """A kernel's launches of one shape, how many there are in a run."""

    kernel: str
    global_size: str
    local_size: str
    count: int


@dataclass(frozen=True)
class RenderedKernels:
    """One configuration's texts and launches. ``missing`` says why there are none, ``stale`` that the text is newer than the trial."""

    place: int
    trial: Trial
    texts: tuple[RenderedText, ...] = ()
    steps: tuple[RenderedStep, ...] = ()
    missing: str = ""
    stale: bool = False


def render(group: Group, trials: Sequence[Trial], known: Known) -> list[RenderedKernels]:
    """The texts of configurations of one group; a text that appears again with other definitions is given once.

    ``known`` tells what was tuned, as ``store.known_results`` does: a plan may call other problems.
    """
    shown: dict[str, int] = {}
    rendered = []
    for place, trial in enumerate(trials, 1):
        section = _render(group, place, trial, known)
        texts = tuple(RenderedText(text.file, text.text, text.defines, shown.get(text.text, 0)) for text in section.texts)
        for text in section.texts:
            shown.setdefault(text.text, place)
        rendered.append(RenderedKernels(place, trial, texts, section.steps, section.missing, section.stale))
    return rendered


def _render(group: Group, place: int, trial: Trial, known: Known) -> RenderedKernels:
    workload, device = group.workload, group.device
    if workload is None:
        return RenderedKernels(
            place, trial, missing=f"the workload {group.problem.workload} is not installed here, so its kernel text is not known."
        )
    try:
        if why := workload.space(group.problem, device).violated(trial.config):
            return RenderedKernels(place, trial, missing=f"the installed {workload.name} does not take this configuration: it {why}.")
        plan = flat_plans.flatten(workload.plan(group.problem, trial.config, device), resolver(device, known))
    except PortatileError as error:
        return RenderedKernels(place, trial, missing=f"the installed {workload.name} does not generate it: {error}")
    sources = flat_plans.sources(plan)
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    counted = Counter((step.kernel, _size(step.global_size), _size(step.local_size)) for step in launches)
    steps = tuple(RenderedStep(*shape, count) for shape, count in counted.items())
    texts = tuple(RenderedText(source.file, source.text, source.defines) for source in sources)
    return RenderedKernels(place, trial, texts, steps, stale=program.source_hash(tuple(sources)) != trial.source)


def _size(size: Size3) -> str:
    """``64 × 8``: without the ones that end it."""
    sizes = list(size)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return " × ".join(map(str, sizes))
