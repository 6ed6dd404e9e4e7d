"""The race in the worker, on a bench that only says what it is told to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from portatile.errors import CompileError, DeviceError, LaunchError
from portatile.tuning.final import ranking, rounds
from portatile.tuning.protocol import Evaluate, FinalistsTimed, Race, Timing
from portatile.verify import Verdict


class Contender:
    """A variant that is loaded until it is released."""

    def __init__(self, job: Evaluate, record: Any) -> None:
        self.job, self.record, self.loaded = job, record, True

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def release(self) -> None:
        self.loaded = False


@dataclass
class Bench:
    """Runs take a millisecond; the variants in ``wrong`` are wrong before the race, those in ``spoilt`` after it, those in
    ``outside`` write outside of their operands. ``damaged``: what a search's variant wrote far away is still there.

    ``fails`` says which error a variant raises and when: at its loading or check, or in its so many-th burst.
    """

    wrong: frozenset[int] = frozenset()
    spoilt: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()
    far: frozenset[int] = frozenset()
    fails: dict[int, tuple[str | int, Exception]] = field(default_factory=dict)
    living: bool = True
    damaged: bool = False
    contenders: list[Contender] = field(default_factory=list)
    bursts: Counter[int] = field(default_factory=Counter)

    def alive(self) -> bool:
        return self.living

    def fail(self, number: int, when: str | int) -> None:
        planned, error = self.fails.get(number, ("never", None))
        if planned == when and error is not None:
            raise error

    def announce(self, phase: str, expected: float) -> None:
        """Nobody listens."""

    def load(self, job: Evaluate, record: Any) -> Contender:
        self.fail(job.number, "load")
        self.contenders.append(Contender(job, record))
        return self.contenders[-1]

    def check(self, loaded: Contender) -> Verdict:
        self.fail(loaded.job.number, "check")
        loaded.record.errors = (0.5,)
        return Verdict(loaded.job.number not in self.wrong, 0.5, "no")

    def burst(self, loaded: Contender, runs: int) -> float:
        self.bursts[loaded.job.number] += 1
        self.fail(loaded.job.number, self.bursts[loaded.job.number])
        return 1e-3

    def check_canaries(self, loaded: Contender) -> Verdict:
        verdict = Verdict(loaded.job.number not in self.outside and not self.damaged, 0.0, "wrote behind c")
        self.damaged = False
        return verdict

    def restore(self) -> None:
        self.damaged = False

    def in_other_memory(self, loaded: Contender) -> Verdict:
        return Verdict(loaded.job.number not in self.far, 0.0, "wrote far behind c")

    def outputs(self, loaded: Contender) -> Verdict:
        return Verdict(loaded.job.number not in self.spoilt, 0.5, "not again")


def entries() -> tuple[Evaluate, ...]:
    return tuple(Evaluate(number, (), (), Timing(), 1e-3) for number in range(3))


def hold(bench: Any, seconds: float = 10.0) -> dict[int, str]:
    return {outcome.number: outcome.status for outcome in rounds.hold(bench, Race(entries(), seconds)).outcomes}


@pytest.mark.parametrize(
    ("bench", "statuses"),
    [
        (Bench(), ["ok", "ok", "ok"]),
        (Bench(wrong=frozenset({0})), ["wrong", "ok", "ok"]),
        (Bench(spoilt=frozenset({2})), ["ok", "ok", "wrong"]),
        (Bench(outside=frozenset({1})), ["ok", "wrong", "ok"]),
        (Bench(far=frozenset({0})), ["wrong", "ok", "ok"]),
        (Bench(damaged=True), ["ok", "ok", "ok"]),
    ],
)
def test_everyone_gets_a_verdict(bench: Bench, statuses: list[str]) -> None:
    assert hold(bench) == dict(enumerate(statuses))
    assert not any(contender.loaded for contender in bench.contenders)


# bursts: one that is checked for writes outside of the operands, one alone, eight rounds until all are told to be alike, one more whose
# results are looked at
LAST = 11


@pytest.mark.parametrize(
    ("when", "error", "status"),
    [
        ("load", CompileError("the compiler was killed"), "compile"),
        ("check", LaunchError("busy"), "launch"),
        ("load", DeviceError("no memory beside the others"), None),
        ("check", DeviceError("no memory beside the others"), None),
        (1, LaunchError("busy"), "launch"),
        (4, LaunchError("busy"), "launch"),
        (LAST, LaunchError("busy"), "launch"),
    ],
)
def test_who_cannot_run_is_out_and_the_others_go_on(when: str | int, error: Exception, status: str | None) -> None:
    bench = Bench(fails={1: (when, error)})
    assert hold(bench) == {0: "ok", 2: "ok"} | ({} if status is None else {1: status})
    assert not any(contender.loaded for contender in bench.contenders)
    assert bench.bursts[0] == LAST


@pytest.mark.parametrize("when", ["load", "check", 4, LAST])
@pytest.mark.parametrize("error", [LaunchError("gone"), DeviceError("gone")])
def test_with_the_device_the_race_ends(when: str | int, error: Exception) -> None:
    bench = Bench(fails={1: (when, error)}, living=False)
    assert rounds.hold(bench, Race(entries(), 10.0)) == FinalistsTimed((), "gone", broken=True)  # type: ignore[arg-type]
    assert not any(contender.loaded for contender in bench.contenders)


def test_who_is_wrong_is_told_even_where_no_race_is_held() -> None:
    assert hold(Bench(wrong=frozenset({0, 1}))) == {0: "wrong", 1: "wrong"}  # one alone does not race


def test_without_time_there_are_a_few_rounds() -> None:
    bench = Bench(wrong=frozenset({1}))
    assert hold(bench, seconds=0.0) == {0: "ok", 1: "wrong", 2: "ok"}
    assert bench.bursts[0] == 2 + ranking.LEAST_ROUNDS + 1


def test_finalists_for_which_there_is_no_time_stay_out() -> None:
    """The two fastest take part whatever that takes; of the third nothing is said."""
    bench = Bench()
    assert hold(bench, seconds=0.0) == {0: "ok", 1: "ok"}
    assert len(bench.contenders) == 2
