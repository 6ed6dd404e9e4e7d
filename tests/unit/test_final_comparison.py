"""The race as the parent sees it: who is sent into it, and what becomes of what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from portatile.records import Plan, canonical
from portatile.trials import Certificate, Trial
from portatile.tuning.final.comparison import FinalComparison
from portatile.tuning.protocol import Evaluated, FinalistsTimed
from portatile.tuning.search.objective import Goal, Objective
from portatile.tuning.search.worker_process import Variant
from support.trials import DEVICE, PROBLEM, trial


class Planner:
    """Plans without steps."""

    def plan(self, problem: object, config: object) -> Plan:
        return Plan(())

    def variant(self, number: int, config: object, timed: Plan) -> Variant:
        return Variant(number, (), ())

    def certificate(self, variant: Variant, errors: object, source: str) -> Certificate:
        return Certificate(DEVICE.driver, DEVICE.compiler, source, time="now")


@dataclass
class Workers:
    """Gives the races' outcomes one after another: seconds of each entry, or a failure."""

    answers: list[list[float | str]]
    free: bool = True
    asked: list[tuple[float, ...]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    given: list[tuple[float, float]] = field(default_factory=list)

    def drain(self, timeout: float) -> bool:
        self.waited.append(timeout)
        return self.free

    def race(self, entries: tuple[Variant, ...], best: tuple[float, ...], seconds: float, least: float) -> FinalistsTimed:
        self.asked.append(best)
        self.given.append((seconds, least))
        found = []
        for entry, answer in zip(entries, self.answers.pop(0), strict=True):
            if isinstance(answer, str):
                found.append(Evaluated(entry.number, "wrong", message=answer))
            else:
                found.append(Evaluated(entry.number, "ok", (answer,) * 16, error=0.5, errors=()))
        return FinalistsTimed(tuple(found))


def decide(workers: Workers, *trials: Trial, seconds: float = 100.0) -> tuple[tuple[Trial, ...], dict[str, Trial]]:
    """The finalists, and the trials of the run after the race."""
    made, known = finals_of(workers, *trials, seconds=seconds)
    return made.decide(), known


def finals_of(workers: Workers, *trials: Trial, seconds: float, objective: Objective = "time") -> tuple[FinalComparison, dict[str, Trial]]:
    known = {canonical(one.config): one for one in trials}

    def add(one: Trial) -> None:
        known[canonical(one.config)] = one

    supervisor: Any = workers
    goal = Goal(objective, DEVICE)
    planner: Any = Planner()
    result = FinalComparison(
        PROBLEM, planner, supervisor, known, canonical(trials[0].config), add, lambda who: None, lambda: seconds, lambda: None, goal
    )
    return result, known


def order(finalists: tuple[Trial, ...]) -> list[object]:
    return [finalist.config["TILE"] for finalist in finalists]


def test_the_race_decides() -> None:
    workers = Workers([[1.02, 1.05]])
    finalists, known = decide(workers, trial(1, 5.0), trial(2, 1.0), trial(3, 1.05))
    assert order(finalists) == [2, 3]
    assert workers.asked == [(1.0, 1.05)]
    assert known[canonical(trial(2).config)] is finalists[0]
    assert known[canonical(trial(1).config)].standing is None
    assert finalists[0].certificate is not None
    assert finalists[0].samples == (1.02,) * 16


def test_a_finalist_that_is_wrong_now_is_out() -> None:
    workers = Workers([["wrong when run again", 1.0, 1.01]])
    finalists, known = decide(workers, trial(1, 0.99), trial(2, 1.0), trial(3, 1.05))
    assert order(finalists) == [2, 3]
    gone = known[canonical(trial(1).config)]
    assert (gone.status, gone.message, gone.samples) == ("wrong", "wrong when run again", ())
    assert gone.certificate is None


def test_nobody_is_ahead_only_because_the_machine_was_faster() -> None:
    workers = Workers([[2.0, 2.02, 2.1, 2.2, 1.98]])  # twice as slow in the race as before it
    finalists, known = decide(workers, *(trial(number, 1 + number / 1000) for number in range(6)))
    assert order(finalists) == [4, 0, 1, 2, 3]
    assert finalists[0].median == 1.98
    assert min(known.values(), key=lambda one: one.rank) == finalists[0]  # also before the sixth, which did not race
    assert finalists[0].rank == pytest.approx(1.98 / 2.018, rel=0.01)
    again, _ = decide(Workers([[3.0, 3.3, 3.3, 3.3, 3.3]]), *known.values(), trial(9, 0.999))
    assert again[0].rank < known[canonical(trial(5).config)].rank


def test_the_default_takes_part_whatever_is_to_be_least() -> None:
    """The best is measured anew, by a machine that is slower now: the default has to be, or it would seem faster."""
    trials = [trial(number, 2 - number / 10) for number in range(8)]
    workers = Workers([[3.0, 5.0, 3.1, 3.2, 3.3, 3.4]])
    made, known = finals_of(workers, *trials, seconds=100.0, objective=lambda one: one.median)
    assert order(made.decide()) == [7, 6, 5, 4, 3, 0]
    assert known[canonical(trials[0].config)].median == 5.0
    made, _ = finals_of(workers, trial(0, status="wrong"), trial(1), trial(2, 0.5), seconds=100.0, objective=lambda one: one.median)
    assert order(tuple(made.field())) == [2, 1]


def test_a_race_is_not_held_twice() -> None:
    finalists, known = decide(Workers([[1.0, 1.05]]), trial(1, 1.0), trial(2, 1.05))
    again, _ = decide(Workers([]), *known.values())
    assert again == finalists
    joined, _ = decide(Workers([[1.0, 1.02, 1.04]]), *known.values(), trial(3, 1.02))
    assert order(joined) == [1, 3, 2]


@pytest.mark.parametrize("workers", [Workers([], free=False), Workers([[]])])
def test_without_a_race_the_search_stands(workers: Workers) -> None:
    if workers.answers:
        workers.race = lambda entries, best, seconds, least: FinalistsTimed((), "no time")  # type: ignore[method-assign]
    made, known = finals_of(workers, trial(1, 1.0), trial(2, 1.05), seconds=100.0)
    assert made.decide() == ()
    assert made.unraced == ("a variant was still running when the time was up" if not workers.free else "no time")
    assert list(known.values()) == [trial(1, 1.0), trial(2, 1.05)]


def test_one_alone_does_not_race() -> None:
    assert decide(Workers([]), trial(1, 1.0), trial(2, 2.0), trial(3, status="wrong"))[0] == ()
    assert decide(Workers([]), trial(1, 1.0), trial(2, 1.01), seconds=0)[0] == ()


def test_long_runs_get_the_rounds_that_tell_them_apart() -> None:
    """Runs of a second in 30: eight rounds of two, and the wait is for what is left; of six that could not run three rounds, some race."""
    workers = Workers([[1.0, 1.05]])
    assert order(decide(workers, trial(1, 1.0), trial(2, 1.05), seconds=30.0)[0]) == [1, 2]
    assert workers.given == [(30.0, pytest.approx(12 * 2.05))]
    assert workers.waited == [pytest.approx(30 - 12 * 2.05)]
    few = Workers([[1.0, 1.001, 1.002]])
    assert order(decide(few, *(trial(number, 1 + number / 1000) for number in range(6)), seconds=25.0)[0]) == [0, 1, 2]
    assert few.waited == [1.0]
    made, _ = finals_of(Workers([]), trial(1, 1.0), trial(2, 1.05), seconds=5.0)
    assert made.decide() == ()
    assert made.unraced == "a few rounds take too long at 1 s a run"


def test_who_need_not_race_is_not_called_unraced() -> None:
    alone, _ = finals_of(Workers([]), trial(1, 1.0), trial(2, 2.0), seconds=100.0)
    assert (alone.decide(), alone.unraced) == ((), "")
    raced, _ = finals_of(Workers([[1.0, 1.05]]), trial(1, 1.0), trial(2, 1.05), seconds=100.0)
    assert raced.decide()
    assert raced.unraced == ""
    late, _ = finals_of(Workers([]), trial(1, 1.0), trial(2, 1.05), seconds=0.0)
    assert (late.decide(), late.unraced) == ((), "no time was left for it")
