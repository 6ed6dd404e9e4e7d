"""The documentation as a site: every page and every public name has its place, and it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
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


@pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("mkdocstrings") is None, reason="mkdocs is not installed (extra docs)")
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "reference" / "index.html").read_text()
    assert "alpha * op(a) @ op(b) + beta * c" in reference
    assert re.search(r'class="nav-link">gemm</a>', reference), "functions are listed beside the reference"
    assert '<span class="kn">import</span>' in reference, "code is coloured"
    pages = {page: page.read_text() for page in tmp_path.rglob("*.html")}
    fetched = {page.name: re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]*)"', text) for page, text in pages.items()}
    assert {name: urls for name, urls in fetched.items() if urls} == {}, "the site fetches nothing"
    own = {page.name for page in DOCS.rglob("gallery-*.html")}  # pages of studies, which bring what they need
    assert [page.name for page, text in pages.items() if "site.css" not in text and page.name not in own] == []
