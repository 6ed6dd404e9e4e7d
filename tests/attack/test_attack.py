"""A short part of the attacks, other attempts for each seed of the tests; ``scripts/attack`` runs all of them for as long as one likes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import attack
from attack import ATTACKS, AttackError, Place, calls, drive, problems
from support.seeds import new_seed

SECONDS = {"files": 4.0, "stores": 3.0, "problems": 3.0}  # others: one attempt each

pytestmark = pytest.mark.unoptimised


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_breaks(name: str, tmp_path: Path, own_directories: None) -> None:
    report = drive(name, new_seed(name), SECONDS.get(name, 0.0), Place(None, tmp_path))
    assert not report.broken, str(report)
    assert report.outcomes


def test_what_breaks_is_reported_with_how_to_repeat_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @staticmethod
        def attempt(rng: random.Random, place: Place) -> str:
            if rng.random() < 0.5:
                raise attack.AttackError("it broke")
            return "held"

    monkeypatch.setattr(attack.importlib, "import_module", lambda name: Broken)
    report = drive("any", 7, 60.0, Place(None, tmp_path / "first"), most=30)
    assert report.attempts == sum(report.outcomes.values()) == 30
    assert 0 < len(report.broken) < 30
    number = next(iter(report.broken))
    assert f"--only any --seed 7 --first {number}: AttackError: it broke" in str(report)
    assert list(drive("any", 7, 0.0, Place(None, tmp_path / "again"), number).broken) == [number]


def _right(form: calls.Problems, number: int, out: calls.Array) -> None:
    out[...] = form.exact[number]


def _wrong(form: calls.Problems, number: int, out: calls.Array) -> None:
    out[...] = form.exact[number]
    if number == 2:
        out.flat[0] += 0.01  # one element, also of a stack


def _unwritten(form: calls.Problems, number: int, out: calls.Array) -> None:
    out[1:] = form.exact[number, 1:]


def _around(form: calls.Problems, number: int, out: calls.Array) -> None:
    out[...] = form.exact[number]
    form.outputs.raw[number, -1] = 0


def _operand(form: calls.Problems, number: int, out: calls.Array) -> None:
    out[...] = form.exact[number]
    form.inputs[1].views[number] += 1


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (_right, None),
        (_wrong, "1 of 3 problems are wrong, in number 2 1 elements"),
        (_unwritten, "3 of 3 problems are wrong"),
        (_around, "memory around the output was written"),
        (_operand, "an operand was written"),
    ],
)
def test_a_broken_routine_is_found(run: Callable[[calls.Problems, int, calls.Array], None], told: str | None) -> None:
    form = calls.draw(random.Random(new_seed(run.__name__)), None, 9, 3, "trmm")
    form = replace(form, run=lambda number, out: run(form, number, out))
    if told is None:
        problems.check(form)
    else:
        with pytest.raises(AttackError, match=told):
            problems.check(form)
