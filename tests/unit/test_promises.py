"""The page of promises names tests that exist, and the attacks that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attack import ATTACKS

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "internals" / "promises.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"(test_\w+\.py)(?:::(test_\w+))?", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_promise_is_held_by_a_test(file: str, name: str) -> None:
    found = [path.read_text(encoding="utf-8") for path in TESTS.rglob(file)]
    assert any(f"def {name or 'test_'}" in text for text in found)


def test_every_attack_is_described() -> None:
    assert all(f"`{name}`" in PAGE for name in ATTACKS)
