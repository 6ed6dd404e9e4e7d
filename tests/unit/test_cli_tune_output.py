"""What `portatile tune` says of its race: who is equal, who was not told apart, why nobody raced, and what nothing guards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from portatile import ceilings
from portatile.ceilings import Measured
from portatile.cli import _console, _formatting, _tune_output
from portatile.trials import Standing, Trial
from portatile.tuning.final import ranking
from portatile.tuning.search.tuner import TuningResult
from support.faulty import Faulty
from support.trials import DEVICE, trial

WINNER = (1.0, 1.01, 1.0)


def raced(*samples: tuple[float, ...]) -> TuningResult:
    found: list[Trial] = []
    for one in ranking.rank(samples, range(len(samples))):
        standing = Standing(one.seconds, one.interval, one.place, one.equal, "today")
        found.append(replace(trial(one.number), samples=samples[one.number], standing=standing))
    return TuningResult(found[0].problem, DEVICE, tuple(found), found[0], found[0], "budget", 1.0, tuple(found))


def marks(result: TuningResult) -> list[str]:
    return [_tune_output.interval(finalist, result.finalists[0])[-1] for finalist in result.finalists]


def test_too_few_rounds_are_said_to_be_too_few() -> None:
    result = raced(WINNER, (1.45, 1.46, 1.45))
    assert marks(result) == [" ", "~"]
    (line,) = _tune_output.notes(result)
    assert line == "2 finalists compared: [ ] holds the median with 75 % confidence; ~ 1 not separated from the winner (3 rounds)"
    assert [(one["tied"], one["rounds"], one["confidence"]) for one in _tune_output.finalists(result)] == [
        (True, 3, 0.75),
        (False, 3, 0.75),
    ]


def test_equal_and_slower_ones_are_told_apart() -> None:
    result = raced((1.0, 1.002) * 8, (1.001, 1.0) * 8, (1.1, 1.102) * 8)
    assert marks(result) == [" ", "=", " "]
    (line,) = _tune_output.notes(result)
    assert line == "3 finalists compared: [ ] holds the median with 95 % confidence; = 1 equal to the winner within the noise"


def test_what_was_stored_as_tied_is_not_called_equal_without_cause() -> None:
    """Earlier versions wrote ``tied`` for what three rounds had not told apart."""
    result = raced(WINNER, (1.45, 1.46, 1.45))
    first, second = result.finalists
    assert second.standing is not None
    old = replace(second, standing=replace(second.standing, tied=True))
    assert _tune_output.interval(old, first)[-1] == "~"


def test_why_nobody_raced_is_said() -> None:
    result = replace(raced(WINNER, WINNER), finalists=(), unraced="no time was left for it")
    assert list(_tune_output.notes(result)) == [
        "no final comparison: no time was left for it; the order of nearly equal configurations may be chance"
    ]
    assert "not raced" in repr(result)


def test_missing_ceilings_are_said_once_where_they_would_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    workload = Faulty(("none",), (32,))
    result = replace(raced(WINNER, WINNER), problem=workload.problem({"n": 1000}))
    (line,) = _tune_output.unguarded(result, workload)
    assert line == "no ceilings measured: impossible times are not refused (portatile bench peak)"
    monkeypatch.setattr(workload, "flops", lambda problem: 0.0)
    monkeypatch.setattr(workload, "traffic", lambda problem: 0.0)
    assert not list(_tune_output.unguarded(result, workload))
    monkeypatch.undo()
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    ceilings.add(DEVICE, [Measured("fp32", "flop/s", 1e9, (1.0,))])
    assert not list(_tune_output.unguarded(result, workload))


def test_more_than_the_ceiling_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    workload = Faulty(("none",), (32,))
    trial = replace(raced(WINNER, WINNER).best, problem=workload.problem({"n": 1000}), samples=(1e-6,) * 5, standing=None)
    assert _formatting.beyond_ceiling(trial, workload) == ""  # nothing is known
    monkeypatch.setattr(workload, "flops", lambda problem: 0.0)
    monkeypatch.setattr(workload, "traffic", lambda problem: 2e5)
    ceilings.add(trial.device, [Measured("triad", "B/s", 1e11, (1.0,))])
    assert _formatting.ceiling(trial, workload) == "200 % memory"
    assert _formatting.beyond_ceiling(trial, workload) == "more than 100 % of memory: the operands stay in a cache between runs"
    assert _formatting.beyond_ceiling(replace(trial, samples=(2e-6,) * 5), workload) == ""
    monkeypatch.setattr(workload, "flops", lambda problem: 1e6)
    ceilings.add(trial.device, [Measured("fp32", "flop/s", 1e11, (1.0,))])
    assert "the ceiling is too low" in _formatting.beyond_ceiling(trial, workload)


def test_one_clock_orders_and_times_everything(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was twice as slow in the final comparison as in the search: times, intervals, ranks and speed-ups follow the search."""
    monkeypatch.setattr(_console.out, "width", 200)
    slow = raced((2.0, 2.002) * 8, (3.0, 3.002) * 8)
    finalists = tuple(
        replace(finalist, standing=replace(finalist.standing, seconds=finalist.standing.seconds / 2))
        for finalist in slow.finalists
        if finalist.standing is not None
    )
    other = replace(trial(7), samples=(1.2, 1.2, 1.2))
    result = replace(slow, trials=(*finalists, other), finalists=finalists, best=finalists[0], default=finalists[1])
    assert [one.config["TILE"] for one in _tune_output.ordered(result)] == [0, 7, 1]
    for one in finalists:
        assert one.interval is not None
        assert one.interval[0] <= one.comparable <= one.interval[1]
    (first, second) = _tune_output.finalists(result)
    assert (first["seconds_per_run"], second["seconds_per_run"]) == (finalists[0].comparable, finalists[1].comparable)
    _tune_output.show(result, None)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    times = [" ".join(line[1:3]) for line in lines if line and line[0] in ("winner", "default")]
    assert times == ["1 s", "1.5 s"]
    ranked = [float(line[1]) for line in lines if line and line[0] in ("1", "2", "3") and "s" in line[2]]
    assert ranked == sorted(ranked)
    assert len(ranked) == 3
