"""Results are compared after the rounds of the final comparison, so that one that is wrong only sometimes drops out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.tuning.final import rounds
from portatile.tuning.protocol import Evaluate, Timing
from portatile.tuning.worker.bench import Record
from portatile.verify import Verdict


class Bench:
    """A device on which variant 2 is wrong after every ``often``-th run; ``seconds`` is how long a comparison takes, by its own clock."""

    def __init__(self, often: int, seconds: float = 0.0) -> None:
        self.often, self.seconds, self.runs, self.compared = often, seconds, {1: 0, 2: 0, 3: 0}, 0
        self.now = 0.0

    def burst(self, loaded: Any, runs: int) -> float:
        self.runs[loaded.job.number] += 1
        self.now += 1e-3
        return 1e-3

    def outputs(self, loaded: Any) -> Verdict:
        self.compared += 1
        self.now += self.seconds
        wrong = loaded.job.number == 2 and self.runs[2] % self.often == 0
        return Verdict(not wrong, 0.0, "y[3] is wrong")

    announce: Callable[..., None] = staticmethod(lambda *args: None)


def raced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    monkeypatch.setattr(rounds, "time", SimpleNamespace(perf_counter=lambda: bench.now))
    field = [SimpleNamespace(job=Evaluate(number, (), (), Timing(), 1e-3), record=Record()) for number in (1, 2, 3)]
    results: dict[int, Any] = {}
    rounds._run(bench, field, results, 100.0)  # type: ignore[arg-type]
    return results


@pytest.mark.parametrize("often", [2, 4, 7])
def test_a_result_that_is_wrong_only_sometimes_is_out(often: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results = raced(Bench(often), monkeypatch)
    assert {number: outcome.status for number, outcome in results.items()} == {2: "wrong"}
    assert "in some runs" in results[2].message


def test_comparing_does_not_take_the_race_over(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(10**9, seconds=0.05)
    assert raced(bench, monkeypatch) == {}
    assert bench.compared == 3 * rounds._ALWAYS_COMPARED
