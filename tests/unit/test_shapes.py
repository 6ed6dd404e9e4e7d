"""Many shapes in one budget, with a tuner that only pretends: what counts, and what Ctrl-C leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from portatile import model, workloads
from portatile.store import ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.search import shapes, tuner
from portatile.tuning.search.tuner import TuningResult
from support.trials import DEVICE

MATMUL = workloads.get("matmul")
PROBLEMS = tuple(MATMUL.problem({"m": size, "n": 16, "k": 16}) for size in (16, 32, 64))


def found(request: tuner.TuningRequest, on_paper: int = 0) -> TuningResult:
    """The default is valid, some others were rejected on paper."""
    config = dict(MATMUL.default(request.problem, DEVICE))
    best = Trial(request.problem, config, DEVICE, "", "ok", (1e-3,))
    others = [
        Trial(request.problem, {**config, "paper": place}, DEVICE, "", "skipped", message=f"{model.ON_PAPER}: no")
        for place in range(on_paper)
    ]
    return TuningResult(request.problem, DEVICE, (best, *others), best, best, "budget", 0.1)


def run(monkeypatch: pytest.MonkeyPatch, answers: Iterator[Any], budget: Budget) -> shapes.ShapesResult:
    def tune(request: tuner.TuningRequest, store: ResultStore, listen: object) -> TuningResult:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return found(request, answer)

    monkeypatch.setattr(tuner, "tune", tune)
    with ResultStore(None) as store:
        return shapes.tune(shapes.ShapesRequest(PROBLEMS, budget=budget), store)


def test_what_is_turned_away_on_paper_leaves_the_budget_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, iter([500] * 9), Budget(evaluations=30))
    assert len(result.results) == 3
    assert result.unreached == ()


def test_ctrl_c_keeps_what_was_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, iter([0, KeyboardInterrupt()]), Budget(evaluations=30))
    assert len(result.results) == 1
    assert len(result.unreached) == 2
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, iter([KeyboardInterrupt()]), Budget(evaluations=30))


@pytest.mark.parametrize(("evaluations", "reached"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_few_evaluations_go_to_as_many_shapes(evaluations: int, reached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, iter([0] * 9), Budget(evaluations=evaluations))
    assert len(result.results) == reached
    assert len(result.unreached) == 3 - reached
