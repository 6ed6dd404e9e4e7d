"""Run every study that these devices can answer within one time budget; each gets a share of the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.studies.framework.conduct import INTERRUPTED, Conditions, Listener, StudyOutcome, conduct
from portatile.studies.framework.page import Skipped
from portatile.studies.framework.study import Study


@dataclass(frozen=True)
class Gallery:
    """The results of the studies, and the studies that did not run."""

    outcomes: tuple[StudyOutcome, ...]
    skipped: tuple[Skipped, ...]

    @property
    def interrupted(self) -> bool:
        """Whether the user ended it."""
        return any(outcome.ended == INTERRUPTED for outcome in self.outcomes)


def gallery(
    studies: Iterable[Study],
    devices: tuple[Device, ...],
    conditions: Conditions,
    listener: Callable[[Study], Listener] = lambda study: Listener(),
) -> Gallery:
    """Run the quickest first. The time that is left is divided among the studies that remain in proportion to their usual minutes.

    A study that fails is listed among those that were skipped. Ctrl-C ends all of them and keeps what was measured.
    """
    started = time.monotonic()
    waiting = sorted(studies, key=lambda study: study.minutes)
    outcomes: list[StudyOutcome] = []
    skipped: list[Skipped] = []
    while waiting:
        study = waiting.pop(0)
        request = study.sample(devices) if study.sample is not None else None
        if request is None:
            why = "needs files of its own" if study.devices == "none" else "these devices cannot answer it"
            skipped.append(Skipped(study.name, study.question, why))
            continue
        share = None
        if conditions.seconds is not None:
            left = conditions.seconds - (time.monotonic() - started)
            if left <= 0:
                skipped.append(Skipped(study.name, study.question, "the time was over"))
                continue
            share = left * study.minutes / (study.minutes + sum(other.minutes for other in waiting))
        try:
            outcome = conduct(study, request, Conditions(conditions.fresh, share, conditions.folder), listener(study))
        except PortatileError as error:
            skipped.append(Skipped(study.name, study.question, str(error).splitlines()[0]))
            continue
        outcomes.append(outcome)
        if outcome.ended == INTERRUPTED:
            skipped += [Skipped(other.name, other.question, "not reached") for other in waiting]
            break
    return Gallery(tuple(outcomes), tuple(skipped))
