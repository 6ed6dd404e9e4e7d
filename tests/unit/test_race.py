"""The race in the worker, on a bench that only says what it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from portatile.tuning import race
from portatile.tuning.protocol import Evaluate, Race, Timing
from portatile.verify import Verdict


class Contender:
    """A variant that is loaded until it is released."""

    def __init__(self, job: Evaluate, record: Any) -> None:
        self.job, self.record, self.loaded = job, record, True

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *exc: object) -> None:
        self.loaded = False


@dataclass
class Bench:
    """Runs take a millisecond; the variants in ``wrong`` are wrong before the race, those in ``spoilt`` after it."""

    wrong: frozenset[int] = frozenset()
    spoilt: frozenset[int] = frozenset()
    contenders: list[Contender] = field(default_factory=list)

    def announce(self, phase: str, expected: float) -> None:
        """Nobody listens."""

    def load(self, job: Evaluate, record: Any) -> Contender:
        self.contenders.append(Contender(job, record))
        return self.contenders[-1]

    def check(self, loaded: Contender) -> Verdict:
        loaded.record.errors = (0.5,)
        return Verdict(loaded.job.number not in self.wrong, 0.5, "no")

    def burst(self, loaded: Contender, runs: int) -> float:
        return 1e-3

    def outputs(self, loaded: Contender) -> Verdict:
        return Verdict(loaded.job.number not in self.spoilt, 0.5, "not again")


def hold(bench: Any, seconds: float = 10.0) -> dict[int, str]:
    entries = tuple(Evaluate(number, (), (), Timing(), 1e-3) for number in range(3))
    return {outcome.number: outcome.status for outcome in race.hold(bench, Race(entries, seconds)).outcomes}


@pytest.mark.parametrize(
    ("bench", "statuses"),
    [
        (Bench(), ["ok", "ok", "ok"]),
        (Bench(wrong=frozenset({0})), ["wrong", "ok", "ok"]),
        (Bench(spoilt=frozenset({2})), ["ok", "ok", "wrong"]),
    ],
)
def test_everyone_gets_a_verdict(bench: Bench, statuses: list[str]) -> None:
    assert hold(bench) == dict(enumerate(statuses))
    assert not any(contender.loaded for contender in bench.contenders)


def test_who_is_wrong_is_told_even_where_no_race_is_held() -> None:
    assert hold(Bench(wrong=frozenset({0, 1}))) == {0: "wrong", 1: "wrong"}  # one alone does not race
    assert hold(Bench(wrong=frozenset({1})), seconds=0.0) == {1: "wrong"}
