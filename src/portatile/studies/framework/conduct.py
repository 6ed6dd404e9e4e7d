"""Run a study. Rows that were measured before are kept, each new row is written at once, and an interruption keeps what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portatile.measure import first_ceilings
from portatile.studies.framework.journal import Journal
from portatile.studies.framework.study import LEFT_OUT, Rows, Run, Study, StudyRequest


@dataclass(frozen=True)
class Listener:
    """Callbacks for a study's progress: ``expect`` the number of rows, ``advance`` after each, ``say`` what is being done."""

    expect: Callable[[int], None] = lambda count: None
    advance: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Conditions:
    """``fresh``: forget what an interrupted run left. ``seconds``: stop after the row that exceeds them. ``folder``: of the journal."""

    fresh: bool = False
    seconds: float | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class StudyOutcome:
    """The finished table. ``ended``: COMPLETE, INTERRUPTED, OUT_OF_TIME; ``before``: rows of earlier runs; ``command``: as typed or "".

    ``journal`` keeps the rows until ``written`` is called.
    """

    study: Study
    request: StudyRequest
    rows: Rows
    ended: str
    before: int
    seconds: float
    command: str = ""
    journal: Journal | None = None

    def written(self) -> None:
        """The table is where it belongs. The journal of a complete study goes: the next run measures anew."""
        if self.journal is not None and self.ended == COMPLETE:
            self.journal.remove()


COMPLETE, INTERRUPTED, OUT_OF_TIME = "complete", "interrupted", "out of time"


def conduct(study: Study, request: StudyRequest, conditions: Conditions | None = None, listener: Listener | None = None) -> StudyOutcome:
    """Measure what the journal does not hold. Ctrl-C ends the study, not the program: the outcome says so.

    The caller calls ``written`` of the outcome when it has stored the rows; until then another run reads them from the journal.
    """
    conditions, listener = conditions or Conditions(), listener or Listener()
    for device in request.devices if study.ceilings else ():
        first_ceilings.ensure(device.info, listener.say)
    started = time.monotonic()
    journal = Journal(study, request, conditions.fresh, conditions.folder)
    before = len(journal.rows)
    if journal.begun:
        listener.say("continues an interrupted run; --fresh starts again")
    until = None if conditions.seconds is None else started + conditions.seconds
    rows = list(journal.rows)
    ended = _measure(study, _run(study, request, journal, until, listener), journal, rows)
    return StudyOutcome(study, request, study.finish(rows), ended, before, time.monotonic() - started, journal=journal)


def _run(study: Study, request: StudyRequest, journal: Journal, until: float | None, listener: Listener) -> Run:
    """The argument of the study's ``measure``. Rows that are known already count as progress."""
    before, known = len(journal.rows), {study.known_by(row) for row in journal.rows}

    def expect(count: int) -> None:
        listener.expect(count)
        for _ in range(min(before, count)):
            listener.advance()

    return Run(
        request.devices,
        request.options,
        request.problem,
        lambda row: study.known_by(row) in known,
        expect,
        listener.say,
        listener.advance,
        journal.trials if study.by_trials else None,
        until,
    )


def _measure(study: Study, run: Run, journal: Journal, rows: list[Any]) -> str:
    """Append measured rows to ``rows`` and the journal until the study is complete, the time is over or Ctrl-C; returns which of these
    ended it.

    Rows that were left out for lack of time are not kept, so that another run measures them. A study by trials checks the time itself:
    its rows follow from its trials and are not kept in the journal.
    """
    ended, measured = COMPLETE, study.measure(run)
    try:
        for row in measured:
            if run.known(row):
                continue
            rows.append(row)
            late, left_out = run.until is not None and time.monotonic() > run.until, _left_out(row)
            ended = OUT_OF_TIME if late or left_out else ended
            if not study.by_trials:
                if not left_out:
                    journal.add(row)
                run.advance()
                if late:
                    break
    except KeyboardInterrupt:
        ended = INTERRUPTED
    finally:
        close = getattr(measured, "close", None)
        if close is not None:
            close()
    return ended


def _left_out(row: Any) -> bool:
    """Whether a row was not measured because it would have taken longer than was left."""
    return str(getattr(row, "status", "")).startswith(LEFT_OUT)
