"""The live page: it follows a search through the store, only who knows its address sees it, and it ends with the search."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from portatile import cli
from portatile.records import from_json
from portatile.reports import live_view, serve
from portatile.reports.page import LiveState
from portatile.tuning.search import concurrent_searches
from support import followed, reporting

pytestmark = pytest.mark.usefixtures("own_directories")
TRIALS = reporting.convolutions(np.random.default_rng(5), 12, failing=0.3)


@pytest.fixture
def search(tmp_path: Path) -> followed.Search:
    return followed.Search(tmp_path / "results.sqlite")


def facts(live: LiveState) -> dict[str, str]:
    return dict(live.facts)


def test_a_search_is_followed_from_its_first_trial_to_its_end(search: followed.Search) -> None:
    seen = search.followed()
    assert (seen.poll().live.state, seen.begun) == ("waiting for a search", False)
    search.running = True
    assert seen.poll().live.state == "searching"
    search.add(*TRIALS[:4])
    early = seen.poll()
    assert facts(early.live)["found at trial"].endswith(" of 4")
    search.add(*TRIALS[4:])
    later = seen.poll()
    assert later.live.version != early.live.version
    assert facts(later.live)["failed"] == str(sum(trial.status != "ok" for trial in TRIALS))
    search.running = False
    last = seen.poll()
    assert (last.live.state, last.live.ended) == ("the search has ended", True)
    search.add(*TRIALS)
    assert seen.poll() is last


def test_what_was_tuned_before_is_not_shown(search: followed.Search) -> None:
    reporting.fill(search.path, TRIALS)
    seen = search.followed()
    search.running = True
    assert seen.poll().live.facts == ()


def test_a_page_that_is_as_before_is_not_drawn_again(search: followed.Search, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = search.followed()
    search.running = True
    search.add(*TRIALS[:3])
    monkeypatch.setattr(live_view, "sensors", lambda device: {"clock_mhz": 1000.0})
    first = seen.poll()
    monkeypatch.setattr(live_view, "sensors", lambda device: {"clock_mhz": 1200.0})
    second = seen.poll()
    assert second.html is first.html
    assert "1200" in facts(second.live)["device"].replace("\u202f", "")


def test_only_the_address_with_the_token_answers(search: followed.Search) -> None:
    with serve.LivePage(search.followed()) as page:
        token = page.address.rsplit("/", 2)[1]
        assert len(token) >= 32
        own = f"127.0.0.1:{page.port}"
        assert page.answer(f"/{token}/", own)[0] == 200
        assert from_json(page.answer(f"/{token}/state", own)[2], LiveState).state == "waiting for a search"
        for path, host in (
            ("/", own),
            ("/x/", own),
            (f"/{token}", "evil.example"),
            (f"/{token}/state", "evil.example"),
            (f"/{token}/../", own),
        ):
            assert page.answer(path, host)[0] == (200 if (path, host) == (f"/{token}", own) else 404)
        with urllib.request.urlopen(page.address, timeout=120) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            assert b"connect-src" in answer.read()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{page.port}/", timeout=120)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(page.address, timeout=2)


def test_it_waits_for_the_end_or_gives_up(search: followed.Search) -> None:
    with serve.LivePage(search.followed()) as page:
        assert not page.wait(0.0, 0.01)
        search.running = True
        page.view()
        search.running = False
        assert page.wait(0.0, 0.01)


def test_the_command_ends_without_a_search_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", "--wait", "0.01s"]) == 1
    output = capsys.readouterr()
    assert output.out.startswith("http://127.0.0.1:")
    assert "no search began" in output.err


def test_running_searches_are_counted() -> None:
    assert concurrent_searches.searching() == []
    with concurrent_searches.ConcurrentSearches(reporting.DEVICE):
        (began,) = concurrent_searches.searching()
        assert 0 <= time.time() - began < 60
    assert concurrent_searches.searching() == []
