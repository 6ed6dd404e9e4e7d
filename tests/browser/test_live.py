"""The live page in a real browser: it draws itself anew as trials come, keeps what was opened, and stays when the search has ended."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portatile.reports import serve
from support import followed, reporting
from support.browsers import Tabs

pytestmark = pytest.mark.usefixtures("own_directories")

_TRIALS = reporting.convolutions(np.random.default_rng(5), 16, failing=0.3)


def test_the_page_follows_a_search(tabs: Tabs, tmp_path: Path) -> None:
    search = followed.Search(tmp_path / "results.sqlite")
    said: list[str] = []
    with serve.LivePage(search.followed()) as page, tabs(viewport={"width": 390, "height": 844}) as tab:
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(page.address)
        assert "waiting for a search" in tab.locator("#live").inner_text()
        search.running = True
        search.add(*_TRIALS[:8])
        tab.locator("#live", has_text="of 8").wait_for()
        assert tab.locator("section.problem svg.chart").first.is_visible()
        fold = tab.locator("details.failures").first
        fold.locator("> summary").click()
        search.add(*_TRIALS[8:])
        tab.locator("#live", has_text="of 16").wait_for()
        assert tab.locator("details.failures").first.evaluate("one => one.open")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        search.running = False
        tab.locator("#live.ended", has_text="the search has ended").wait_for()
        assert page.wait(0.0, 0.01)
    assert said == []
