"""Searches that time on one device at the same time find each other; what is left of those that ended is nobody."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from portatile.tuning.search.concurrent_searches import OTHER_SEARCHES, ConcurrentSearches
from support.devices import CPU, GPU

pytestmark = [
    pytest.mark.usefixtures("own_directories"),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows: every search takes itself for alone"),
]

# A search in a process of its own, until it is killed.
SEARCH = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.devices import GPU
from portatile.tuning.search.concurrent_searches import ConcurrentSearches
with ConcurrentSearches(GPU):
    print("timing", flush=True)
    time.sleep(60)
"""


def test_two_on_a_chip_find_each_other() -> None:
    with ConcurrentSearches(GPU) as first:
        assert first.others() == 0
        assert first.with_other_searches({"clock_mhz": 1.0}) == {"clock_mhz": 1.0}
        with ConcurrentSearches(replace(GPU, id="cuda:0", backend="cuda")) as second, ConcurrentSearches(CPU) as elsewhere:
            with pytest.warns(RuntimeWarning, match=r"another search \(process \d+\) is timing on Chip A") as warned:
                assert (first.others(), second.others(), elsewhere.others()) == (1, 1, 0)
            assert len(warned) == 2
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # once is enough
                assert first.with_other_searches({"clock_mhz": 1.0}) == {"clock_mhz": 1.0, OTHER_SEARCHES: 1}
        assert first.others() == 0
        assert (first.most, second.most, elsewhere.most) == (1, 1, 0)


def test_a_relative_folder_is_no_company_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PORTATILE_DATA_DIR", "some data")
    with ConcurrentSearches(CPU) as search:
        assert search.others() == 0
        monkeypatch.chdir(tmp_path / "elsewhere")
        with ConcurrentSearches(CPU) as second, pytest.warns(RuntimeWarning, match="another search"):
            assert (search.others(), second.others()) == (1, 1)


def test_a_killed_search_is_nobody(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen([sys.executable, "-c", SEARCH, tests], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "timing\n"
        with ConcurrentSearches(GPU) as mine:
            with pytest.warns(RuntimeWarning, match=f"process {process.pid}"):
                assert mine.others() == 1
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert len(list(tmp_path.glob("data/timing/*/*.lock"))) == 2
            assert mine.others() == 0
            assert len(list(tmp_path.glob("data/timing/*/*.lock"))) == 1, "what it left is removed"
    assert not list(tmp_path.glob("data/timing/*/*"))


def test_a_folder_that_cannot_be_written_is_no_company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "file"))
    with ConcurrentSearches(GPU) as first, ConcurrentSearches(GPU):
        assert first.others() == 0
