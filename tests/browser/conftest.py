"""What the tests in a real browser share: Chromium, started once for each file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.browsers import Tabs

_ARGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
_PATIENCE = 120_000.0  # milliseconds


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; without it, or without playwright, the test is skipped."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on PATH: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=[*_ARGS.split(), "--disable-sync"], timeout=_PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def tabs(browser: Any) -> Tabs:
    """Opens a tab in a context of its own, with playwright's options for contexts, while a ``with`` lasts."""

    @contextmanager
    def opened(**options: Any) -> Iterator[Any]:
        context = browser.new_context(**options)
        context.set_default_timeout(_PATIENCE)
        yield context.new_page()
        context.close()

    return opened
