"""The documentation's site: it builds without a warning; in a real browser no page is wider than a phone, and nothing is fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.browsers import Tabs

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    find_spec("mkdocs") is None or find_spec("mkdocstrings") is None, reason="mkdocs is not installed (extra docs)"
)

_WIDTH = "document.documentElement.scrollWidth"
_COLOURS = """['body', '.highlight .kn', '.highlight .s2'].map(at => getComputedStyle(document.querySelector(at)).color)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built once for all tests; a warning is an error."""
    result = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir"]
    completed = subprocess.run([*command, str(result)], capture_output=True, text=True, timeout=240)
    assert completed.returncode == 0, completed.stderr
    return result


def test_the_site_builds(site: Path) -> None:
    reference = (site / "reference" / "index.html").read_text()
    assert "alpha * op(a) @ op(b) + beta * c" in reference
    assert re.search(r'class="nav-link">gemm</a>', reference), "functions are listed beside the reference"
    assert '<span class="kn">import</span>' in reference, "code is coloured"
    pages = {page: page.read_text() for page in site.rglob("*.html")}
    fetched = {page.name: re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]*)"', text) for page, text in pages.items()}
    assert {name: urls for name, urls in fetched.items() if urls} == {}, "the site fetches nothing"
    own = {page.name for page in (ROOT / "docs").rglob("gallery.html")}  # pages of studies, which bring what they need
    assert [page.name for page, text in pages.items() if "site.css" not in text and page.name not in own] == []


def test_pages_fit_a_phone_in_light_and_dark(site: Path, tabs: Tabs) -> None:
    pages = sorted(site.rglob("index.html"))
    wide, asked, colours = [], [], {}
    for scheme in ("light", "dark"):
        with tabs(viewport={"width": 390, "height": 844}, color_scheme=scheme) as tab:
            tab.on("request", lambda request: asked.append(request.url))
            for page in pages if scheme == "light" else [site / "use" / "own-kernel" / "index.html"]:
                tab.goto(page.as_uri())
                wide += [page.parent.name] * (tab.evaluate(_WIDTH) > 390)
                if page.parent.name == "own-kernel":
                    colours[scheme] = tab.evaluate(_COLOURS)
    assert wide == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert all(len(set(three)) == 3 for three in colours.values()), "text, keywords and strings differ"
    assert not set(colours["light"]) & set(colours["dark"])
