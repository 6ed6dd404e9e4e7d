"""A short part of the attacks, other attempts for each seed of the tests; ``scripts/attack`` runs all of them for as long as one likes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import attack
from attack import ATTACKS, Place, drive
from support.seeds import new_seed

SECONDS = {"files": 6.0, "stores": 5.0, "problems": 5.0}  # others: one attempt each

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
