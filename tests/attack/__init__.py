"""Attacks as programs: each attempt follows from a seed and a number, so that what broke once can be repeated.

An attack is a module with a function ``attempt(rng, place)`` that returns a word for what came of it, or how often each word, where
an attempt is many of a kind; it raises AttackError where a promise was broken. ``drive`` repeats it;
``scripts/attack`` runs all of them for hours, tests/attack/test_attack.py a short part.
"""

from __future__ import annotations

import importlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

ATTACKS = ("problems", "small", "arrays", "interrupts", "kills", "stores", "caches", "files", "disks", "kernels", "runs")

_ENOUGH = 20  # broken attempts


class AttackError(AssertionError):
    """A promise of docs/internals/promises.md was broken."""


@dataclass(frozen=True)
class Place:
    """Where an attack goes on: a device's id, or None for the default one, and an empty folder."""

    device: str | None
    folder: Path


@dataclass
class Report:
    """What came of an attack: of how many attempts, how often each outcome, and what broke, by the number of the attempt."""

    name: str
    seed: int
    attempts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        result = ", ".join(f"{outcome} {times}" for outcome, times in self.outcomes.most_common())
        lines = [f"{self.name}: {self.attempts} attempts ({result}), {len(self.broken)} broken"]
        return "\n".join(
            lines + [f"  --only {self.name} --seed {self.seed} --first {number}: {what}" for number, what in self.broken.items()]
        )


def drive(name: str, seed: int, seconds: float, place: Place, first: int = 0, most: int | None = None) -> Report:
    """Repeat an attack for so many seconds, or ``most`` attempts, or until much is broken, from number ``first`` on; at least once."""
    attack: Any = importlib.import_module(f"attack.{name}")
    report, ends = Report(name, seed), time.monotonic() + seconds
    for number in count(first):
        folder = place.folder / f"{name}-{number}"
        folder.mkdir(parents=True)
        report.attempts += 1
        try:
            came = attack.attempt(random.Random(f"{seed}/{name}/{number}"), Place(place.device, folder))
            report.outcomes.update({came: 1} if isinstance(came, str) else came)
        except Exception as error:
            report.outcomes["broken"] += 1
            report.broken[number] = f"{type(error).__name__}: {error}"[:2000]
        if time.monotonic() > ends or len(report.broken) >= _ENOUGH or (most is not None and number - first + 1 >= most):
            return report
    raise AssertionError("unreachable")
