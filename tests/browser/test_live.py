"""The live page in a real browser: it draws itself anew as trials come, keeps what was opened, and stays when the search has ended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portatile.reports import serve
from support import followed, reporting

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: apt install chromium"),
    pytest.mark.usefixtures("own_directories"),
]

_ARGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync"
_PATIENCE = 120_000.0  # milliseconds
_TRIALS = reporting.convolutions(np.random.default_rng(5), 16, failing=0.3)


def test_the_page_follows_a_search(tmp_path: Path) -> None:
    search = followed.Search(tmp_path / "results.sqlite")
    said: list[str] = []
    with playwright.sync_playwright() as driver, serve.LivePage(search.followed()) as page:
        chromium: Any = driver.chromium.launch(executable_path=CHROMIUM, args=_ARGS.split(), timeout=_PATIENCE)
        tab = chromium.new_context(viewport={"width": 390, "height": 844}).new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(page.address, timeout=_PATIENCE)
        assert "waiting for a search" in tab.locator("#live").inner_text()
        search.running = True
        search.add(*_TRIALS[:8])
        tab.locator("#live", has_text="of 8").wait_for(timeout=_PATIENCE)
        assert tab.locator("section.problem svg.chart").first.is_visible()
        fold = tab.locator("details.failures").first
        fold.locator("> summary").click()
        search.add(*_TRIALS[8:])
        tab.locator("#live", has_text="of 16").wait_for(timeout=_PATIENCE)
        assert tab.locator("details.failures").first.evaluate("one => one.open")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        search.running = False
        tab.locator("#live.ended", has_text="the search has ended").wait_for(timeout=_PATIENCE)
        assert page.wait(0.0, 0.01)
        chromium.close()
    assert said == []
