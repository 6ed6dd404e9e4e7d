"""The documentation as a site: every page and every public name has its place. `tests/browser/test_site.py` builds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import portatile

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2]
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def written_by_hand(page: Path) -> str:
    """A page without code and without what scripts write into it."""
    text = re.sub(r"(<!-- table \S+ -->).*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_no_figure_of_speed_is_copied_by_hand(page: Path) -> None:
    """They stand in tables that `bench/pages.py` writes from recorded results."""
    units = r"(?:us|µs|ms|[TG]B/s|[TG]flop/s|T/s|% of cuBLAS|of cuBLAS|times as fast as)"
    assert re.findall(rf"\d[\d.,]*\s?{units}\b", written_by_hand(page)) == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_the_reference_names_everything_public_once() -> None:
    named = re.findall(r"^::: portatile\.(\w+)$", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(portatile.__all__)
