"""The documentation's site in a real browser: no page is wider than a phone, code is coloured in light and dark, nothing is fetched."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: apt install chromium"),
    pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("mkdocstrings") is None, reason="mkdocs is not installed (extra docs)"),
]

_ARGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync"
_PATIENCE = 120_000.0  # milliseconds
_WIDTH = "document.documentElement.scrollWidth"
_COLOURS = """['body', '.highlight .kn', '.highlight .s2'].map(at => getComputedStyle(document.querySelector(at)).color)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(made)]
    subprocess.run(command, check=True, timeout=240)
    return made


def test_pages_fit_a_phone_in_light_and_dark(site: Path) -> None:
    pages = sorted(site.rglob("index.html"))
    wide, asked, colours = [], [], {}
    with playwright.sync_playwright() as driver:
        chromium: Any = driver.chromium.launch(executable_path=CHROMIUM, args=_ARGS.split(), timeout=_PATIENCE)
        for scheme in ("light", "dark"):
            context = chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
            context.set_default_timeout(_PATIENCE)
            tab = context.new_page()
            tab.on("request", lambda request: asked.append(request.url))
            for page in pages if scheme == "light" else [site / "use" / "own-kernel" / "index.html"]:
                tab.goto(page.as_uri())
                wide += [page.parent.name] * (tab.evaluate(_WIDTH) > 390)
                if page.parent.name == "own-kernel":
                    colours[scheme] = tab.evaluate(_COLOURS)
            context.close()
        chromium.close()
    assert wide == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert all(len(set(three)) == 3 for three in colours.values()), "text, keywords and strings differ"
    assert not set(colours["light"]) & set(colours["dark"])
